# SPDX-License-Identifier: Apache-2.0
# At 80 columns no line of any command is longer, and findings come first; what is left out is told, and --full has it.
export COLUMNS=80 LC_ALL=C.UTF-8
# check NAME FINDING COMMAND... : the first line begins with FINDING, and no line takes more than 80 columns
check() {
    name=$1 finding=$2
    shift 2
    esscher "$@" --quiet >"$name" || echo "$name: rc=$?"
    case $(head -1 "$name") in
    "$finding"*) ;;
    *) echo "$name: $(head -1 "$name")" ;;
    esac
    # bytes that continue a character take no column
    LC_ALL=C sed 's/[\x80-\xbf]//g' "$name" | LC_ALL=C awk -v name="$name" 'length > 80 { print name ": " length ": " $0 }'
}
make_npy A.npy f64 4x4 normal 3
make_npy K.npy f64 300x4 normal 5
make_npy q.npy f64 3x4 normal 6
awk 'BEGIN { for (c = 1; c <= 40000; c *= 2) print c "," (c == 1 ? 5.7047 : exp(0.51 * log(17.9 / c)) + 1.35) }' | sed '1i context,loss' >l.csv
check converge 'At scale 0.5 ' converge --dim 4 --n 100..800*4 --replicates 6 --scales 0.5,2
check ball 'The error of ' ball --dim 2 --n 100,200,400 --radii 0.5,1 --replicates 4
check hardmax 'At n = ' hardmax --n 10..1e4*4 --replicates 100
check regimes '100 keys in ' regimes --dim 3 --n 100 --replicates 20
check heat 'With 1000 keys ' heat --beta 10,20 --n 1000 --query-count 20
check collapse 'At n = 100 ' collapse --n 100 --rho 0.3 --replicates 4
check sink 'A sink with ' sink --n 100 --spread 2 --offset 0 --replicates 20
check exponent 'The local ' exponent --keys K.npy --query q.npy --beta 50
check context 'Doubling ' context-fit l.csv --at 65536
check rope 'With base ' rope
check limit 'Over infinitely ' limit --law gaussian --dim 4 --A A.npy --x q.npy
check theory 'The horizon, which ' theory --dim 4 --A A.npy
check measure '' measure --q q.npy --k K.npy --v K.npy
check claims 'Claims' claims --list
check info '' info # on a CPU that OpenBLAS does not know a caution comes first
# what does not fit is counted: 7 columns, 50 rows; everything with --full
hardmax() { esscher hardmax --n 10..1e6*50 --replicates 10 --quiet "$@"; }
COLUMNS=60 hardmax | tail -1
hardmax | tail -1
hardmax --full | grep -c -e more -e '^ *1000000 '
hardmax --csv >all.csv
wc -l <all.csv
esscher ball --dim 2 --n 100,200,400 --radii 0.5,1 --replicates 4 --quiet | tail -2
# COLUMNS that is no number, and no terminal: 100
COLUMNS=wide esscher claims --list --quiet | LC_ALL=C awk '{ if (length > most) most = length } END { print (most > 90 && most <= 100) ? "100" : most }'
# rows that are asked for, in text, Markdown and CSV, by key or title
hardmax --csv --sort -n --top 2 | cut -d, -f1
hardmax --format markdown --sort exact --top 2 | grep '^| [0-9]' | cut -d' ' -f1-3
hardmax --top 45 | sed '1,/^$/d' | grep -c '^ *[0-9]'
hardmax --csv --sort -exat >as_is
echo "rc=$?"
cmp all.csv as_is && echo 'as it is'
hardmax --json --top 2
echo "rc=$?"
hardmax --format json --csv
echo "rc=$?"
make_npy three.npy f64 3x40x4 normal 7
measure() { esscher measure --q three.npy --k three.npy --v three.npy --quiet "$@"; }
measure --full | grep -E '^(Sizes|All)'
measure | tr -s '\n ' ' ' | grep -o 'two thirds of n where n is below 150'
measure --csv --head 1 | cut -d, -f1 | sort | uniq -c | wc -l
measure --csv --head 9 >nothing
echo "rc=$?"
esscher converge --layer 2
echo "rc=$?"
