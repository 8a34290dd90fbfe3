# SPDX-License-Identifier: Apache-2.0
# context-fit: exact points give the curve back; units of columns; predictions; refusals with their exit codes.
awk 'BEGIN { print "context,loss"; for (c = 1; c <= 40000; c *= 2) printf "%d,%.17g\n", c, exp(0.51 * log(17.9 / c)) + 1.35 }' >l.csv
esscher context-fit l.csv --at 65536 --json >a.json || exit 1
get_json a.json command robust fit.points fit.outliers
for key in beta gamma alpha; do get_json a.json fit.$key | cut -c1-10 | awk '{ printf "%.6f\n", $1 }'; done
get_json a.json fit.doubling | awk '{ printf "%.6f\n", $1 }'
get_json a.json predictions.0.loss | awk '{ printf "%.6f\n", $1 }'
get_json a.json predictions.0.beyond
for i in 0 1 2; do
    for key in parameter low value high; do
        get_json a.json intervals.$i.$key >value && grep -q '[0-9a-z]' value || echo "intervals.$i.$key: $(cat value)"
    done
done
sed 's/context,loss/ctx,nll/' l.csv >other.csv
esscher context-fit other.csv --context ctx --loss nll --least-squares --csv | awk -F, 'NR == 1 { print $1 } NR > 1 { printf "%.6f\n", $1 }'
sed '1s/$/,se/; 2,$s/$/,0.01/' l.csv >se.csv
esscher context-fit se.csv --json >se.json && get_json se.json fit.beta | awk '{ printf "%.6f\n", $1 }'
esscher context-fit l.csv --at 65536 | head -2
# A run file has every table, and counts the losses by their contents.
esscher context-fit l.csv --at 65536 --out f.run >/dev/null
for table in fit intervals points predictions; do
    esscher export f.run --table $table --csv | wc -l
done
cp l.csv same.csv
esscher context-fit same.csv --at 65536 --out f.run --resume >/dev/null 2>&1
echo "same contents: rc=$?"
esscher context-fit se.csv --at 65536 --out f.run --resume >/dev/null 2>&1
echo "other contents: rc=$?"
try() {
    esscher context-fit "$@" 2>&1
    echo "rc=$?"
}
try
try none.csv
try other.csv
head -4 l.csv >few.csv && try few.csv
head -6 l.csv >short.csv && try short.csv
esscher context-fit short.csv --min-span 4.1 >nothing; echo "rc=$?" # as the hint says
awk 'BEGIN { print "context,loss"; for (c = 1; c < 100; c *= 2) print c ",2.5" }' >flat.csv && try flat.csv
awk 'BEGIN { print "context,loss"; for (c = 1; c < 100; c *= 2) print c "," log(c) }' >rising.csv && try rising.csv
printf 'context,loss\n1,2\n-4,1\n8,1\n16,1\n' >negative.csv && try negative.csv
printf 'context,loss\n1,2\n2,nan\n' >nan.csv && try nan.csv
printf '1,2\n2,3\n' >bare.csv && try bare.csv
printf 'It was a bright cold day.\n\nThe clocks were striking.\n' >prose.txt && try prose.txt
printf 'context;loss\n1;2\n' >semicolons.csv && try semicolons.csv
try l.csv --level 2
# contexts of 1 to 32768: 100 times as many are marked from there on
esscher context-fit l.csv --at 3276800 --quiet | grep -c Caution
esscher context-fit l.csv --at 3276801 --quiet | grep Caution
