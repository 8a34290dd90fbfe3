# SPDX-License-Identifier: Apache-2.0
# Shards that start together share a pool: one makes it, the others wait, and stop when they are asked to. A text that has
# moved before the merge: the cells are joined, and the line that is named ends the run.
command -v flock >/dev/null || { echo 'skipped: no flock (Debian package util-linux)' && exit 77; }
export OMP_NUM_THREADS=1
mkdir model pool && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -100 >'my text'
run() { exec esscher tails --model model --text 'my text' --principal 1 --random 1 --query-count 1 --control 4 --csv "$@"; }
shard() { run --pool-dir pool --shard "$1/2" --out "part-$1.run" --resume; }
(run --quiet --pool-dir alone >whole)
# as if another shard were making it
(flock 9 && touch held && exec sleep 1000) 9>pool/pool.run.lock &
holder=$!
while [ ! -e held ]; do sleep 0.01; done
(shard 1 >said-1 2>err-1) &
first=$!
(shard 2 >said-2 2>err-2) &
second=$!
for shard in 1 2; do while ! grep -qs waiting err-$shard; do sleep 0.05; done; done
sed -n '/waiting/p' err-1
kill -TERM $second
wait $second
echo "rc=$?"
kill $holder
wait $first && (shard 2 >said-2 2>err-2)
echo "rc=$?"
mv 'my text' moved
esscher merge part-?.run -o all.run --pool-dir pool --csv --quiet >nothing
echo "rc=$?"
mv moved 'my text'
(run --out all.run --resume --pool-dir pool --quiet >all) && cmp whole all && echo same
esscher merge part-?.run -o all.run --force --csv --quiet | cmp whole && echo same
