# SPDX-License-Identifier: Apache-2.0
# merge: whoever makes a shard chooses its command line. Options of it that name files to write are not followed, even with
# --force; merge writes the run file that it is told to and nothing else (FS08).
export OMP_NUM_THREADS=1
pebble=$(dirname "$(readlink -f "$(command -v kill_twice)")")/../../models/pebble
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -100 >text
head -c 4000 "$pebble/alice.txt" >page
make_npy X.npy f32 20x4 normal 1

# hostile NAME OPTION COMMAND... : shards of a command that would write to `victim.csv`; there stands something else when they
# are merged. Prints the files that merging made or changed.
hostile() {
    name=$1
    option=$2
    shift 2
    for i in 1 2; do
        esscher "$@" "$option" victim.csv --shard $i/2 --out "$name-$i.run" --quiet >nothing 2>err || cat err
    done
    rm -rf victim.csv
    [ "$option" = --pool-dir ] || echo precious >victim.csv
    ls >before
    esscher merge "$name"-?.run -o "$name.run" --force >answer 2>said
    echo "$name $option: $?, $(grep -c "left out of the shards' command: $option\\." said)"
    ls | diff before - | grep -v -e ' answer$' -e ' said$' -e '^[0-9]'
    [ "$option" = --pool-dir ] || grep -qx precious victim.csv || echo "$option was followed"
    esscher "$@" --quiet >alone && esscher merge "$name"-?.run -o "$name.run" --force --quiet | diff alone - >nothing && echo same
    rm -rf victim.csv
}
hostile loss --per-token loss --model "$pebble" --text page --block 64 --blocks 2
hostile budget --out-plan budget --model "$pebble" --text page --context 64 --blocks 2 --ratio 0.5
hostile output --output measure --q X.npy --k X.npy --v X.npy
hostile query --per-query measure --q X.npy --k X.npy --v X.npy
hostile tails --pool-dir tails --model model --text text --principal 1 --random 1 --query-count 1 --control 4
hostile probe --pool-dir probe --model model --text text --n 20,50 --replicates 2
hostile sparse --pool-dir sparse --model model --text text --context 16 --query-count 2

# What is left out is said, and where to give it.
esscher merge tails-?.run -o x.run 2>&1 >nothing | sed 's/ --model.*//'
esscher merge loss-?.run -o y.run 2>&1 >nothing | sed 's/ --model.*//'
# A pool of one's own is read, and commands without one refuse it.
esscher tails --model model --text text --principal 1 --random 1 --query-count 1 --control 4 --pool-dir mine --quiet >alone
esscher merge tails-?.run -o x.run --force --pool-dir mine --quiet 2>&1 | diff alone - && echo same
esscher merge loss-?.run -o z.run --pool-dir mine --quiet
echo "rc=$?"
# Other spellings of the same.
for i in 1 2; do esscher measure --q X.npy --k X.npy --v X.npy --output=victim.csv --shard $i/2 --out "equals-$i.run" --quiet >nothing; done
rm -f victim.csv && esscher merge equals-?.run -o equals.run --quiet >nothing; ls victim.csv 2>&1 | grep -c 'No such file'
