# SPDX-License-Identifier: Apache-2.0
# tails: killed while it makes the pool and after some cells, and resumed, it gives the table of a run left alone (FS01).
# A bit of the pool that has turned is noticed (pool.checksum).
mkdir model && make_model model
awk 'BEGIN { for (i = 0; i < 7000; i++) printf "%s ", i % 5 ? "word" (15 + i * i % 16) : "the cat" }' >text
asked='--model model --text text --pool 6000 --principal 4 --random 4 --query-count 2 --control 6 --csv --quiet'
# shellcheck disable=SC2086  # words
run() { exec esscher tails $asked --pool-dir "$@"; }
(run pool >alone)
# killed while it makes the pool, when the first of several pieces of the last layer is flushed
# shellcheck disable=SC2086
kill_after 1 layer-2.npy esscher tails $asked --pool-dir parts >/dev/null 2>&1
[ $? = 137 ] && ! cmp -s pool/layer-2.npy parts/layer-2.npy && echo "killed while it makes the pool"
# shellcheck disable=SC2086
kill_twice tails $asked --pool-dir parts || exit 1
(run parts --out part.run --resume --threads 2 >part)
cmp alone part && echo same
(run parts --out part.run --resume >again) && cmp alone again && echo same
for layer in 0 1 2; do cmp pool/layer-$layer.npy parts/layer-$layer.npy && echo same; done
(run parts --out part.run --resume --seed 5 2>&1 >/dev/null) | head -1
# byte 100000 of a layer, one bit of it
byte=$(dd if=pool/layer-1.npy bs=1 skip=100000 count=1 2>/dev/null | od -An -tu1)
# shellcheck disable=SC2059  # an octal escape is meant
printf "\\$(printf %o $((byte ^ 4)))" | dd of=pool/layer-1.npy bs=1 seek=100000 conv=notrunc 2>/dev/null
(run pool 2>&1 >/dev/null)
echo "rc=$?"
