# SPDX-License-Identifier: Apache-2.0
# encode --ids, --logits: what cannot be done is refused, and why. TX02: a block longer than the model's positions.
model=$(cd "$(dirname "$0")/../golden/decoders/llama" && pwd)
mkdir bert && make_model bert
echo 'the cat' >text
make_npy good.npy whole '<i8' 3 1 2 3
try() {
    esscher encode --quiet "$@" 2>&1 >/dev/null | sed 's/[^ ]*golden/golden/'
    esscher encode --quiet "$@" >/dev/null 2>&1
    echo "rc=$?"
}
try --model "$model"
try --model "$model" --ids good.npy --text text
try --model "$model" --ids good.npy --block 1
try --model "$model" --ids good.npy --out L.npy --logits L.npy
: >old.npy
try --model "$model" --ids good.npy --logits old.npy
try --model "$model" --ids nowhere.npy
try --model "$model" --ids text
# ids that are none: the place and the value are named
make_npy high.npy whole '<i8' 4 1 2 96 3 && try --model "$model" --ids high.npy
make_npy low.npy whole '<i4' 4 1 2 3 -1 && try --model "$model" --ids low.npy
make_npy huge.npy whole '<i8' 2 1 9223372036854775807 && try --model "$model" --ids huge.npy
make_npy real.npy f64 4 index && try --model "$model" --ids real.npy
make_npy two.npy whole '<i8' 2x3 1 && try --model "$model" --ids two.npy
make_npy none.npy whole '<i8' 0 && try --model "$model" --ids none.npy
make_npy long.npy whole '<i8' 257 && try --model "$model" --ids long.npy
make_npy full.npy whole '<i8' 256 && try --model "$model" --ids full.npy
# a cache keeps no more keys than a prompt has, and a prompt is no longer than the block
make_npy eight.npy whole '<i8' 8 1
try --model "$model" --ids eight.npy --logits new.npy --evict prompt --policy h2o --prompt 4 --keys 5
try --model "$model" --ids eight.npy --logits new.npy --evict prompt --policy h2o --prompt 9 --keys 5
# an encoder predicts nothing
try --model bert --ids good.npy --logits none.npy --force
try --model bert --ids good.npy
try --model "$model" --ids good.npy --max-memory 100000
# a text needs a tokenizer
try --model "$model" --text text
