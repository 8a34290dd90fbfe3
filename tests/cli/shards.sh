# SPDX-License-Identifier: Apache-2.0
# Shards 1, 2 and 5 of a run, merged, give the bytes of one run, provenance apart, and its tables; another seed gives others.
export OMP_NUM_THREADS=1 # one thread where none are asked for
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
numbers() { sed '/^  "provenance": {/,/^  },/d' "$1"; }
tables() { esscher export "$1" --tidy; }
try() {
    name=$1
    esscher "$@" --quiet --out whole.run --json >whole.json || { echo "$name: rc=$?" && return; }
    for shards in 1 2 5; do
        rm -f part-*.run all.run
        for shard in $(seq $shards); do
            esscher "$@" --quiet --shard "$shard/$shards" --out "part-$shard.run" >"said-$shard" || echo "$name: rc=$?"
        done
        esscher merge part-*.run --out all.run --json --quiet >all.json || echo "$name: rc=$?"
        numbers all.json >all.numbers && numbers whole.json | cmp - all.numbers && tables whole.run >whole.csv &&
            tables all.run | cmp - whole.csv && echo "$name $shards: same"
    done
    [ "$name" = claims ] && return # that one has no random numbers
    esscher "$@" --quiet --seed 77 --json >seed.json
    numbers seed.json | cmp -s - all.numbers && echo "$name: the seed does nothing"
    rm -f whole.run
}
try converge --dim 2 --n 50..200*3 --replicates 7 --scales 1
cat said-2
try ball --dim 3 --n 50..200*3 --radii 0.5,1 --replicates 6
try regimes --dim 3 --n 100,1000 --b 1 --replicates 8
try collapse --n 20,30 --rho 0.2,0.4 --replicates 4
try probe --model model --text text --n 5,10,20 --replicates 3 --query-count 8 --exact-queries 4 --control 2 --draw contiguous --pool 200 --pool-dir pool
cat said-2
try tails --model model --text text --pool 300 --principal 2 --random 2 --query-count 2 --control 4
try claims --only rope-decay
cat said-2 said-3
