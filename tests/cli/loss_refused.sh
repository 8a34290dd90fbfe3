# SPDX-License-Identifier: Apache-2.0
# loss: what cannot be done is refused with the right exit code, and why.
model=$(dirname "$0")/../../models/pebble
mkdir bert && make_model bert
make_npy ids.npy f64 8 index
try() {
    esscher loss --quiet "$@" >/dev/null
    echo "rc=$?"
}
try --ids ids.npy
try --model "$model"
try --model bert --ids ids.npy
try --model "$model" --ids ids.npy --text ids.npy
try --model "$model" --ids ids.npy --block 4096
try --model "$model" --ids ids.npy --sinks 4
try --model "$model" --ids ids.npy --keys 4
try --model "$model" --ids ids.npy --policy topp
try --model "$model" --ids ids.npy --policy window --window 2,4
try --model "$model" --ids ids.npy --score-scale logg
try --model "$model" --ids ids.npy --start 1
try --model "$model" --text missing.txt
make_npy bad.npy f64 8 constant 0.5 && try --model "$model" --ids bad.npy
make_npy bad.npy f64 8 constant 4096 && try --model "$model" --ids bad.npy --window 2
make_npy bad.npy f64 1 index && try --model "$model" --ids bad.npy
make_npy bad.npy f64 2x2x2 index && try --model "$model" --ids bad.npy
: >empty && try --model "$model" --text empty
try --model "$model" --ids ids.npy --per-token ids.npy
try --model "$model" --ids ids.npy --max-memory 1M
try --model "$model" --ids ids.npy --rope ntk:2
try --model "$model" --ids ids.npy --block 8 --rope ntk
try --model "$model" --ids ids.npy --block 8 --rope ntk:0.5
try --model "$model" --ids ids.npy --block 8 --rope ntk:2 --policy top --keys 4
try --model "$model" --ids ids.npy --context 4,8
try --model "$(dirname "$0")/../golden/decoders/gpt2" --ids ids.npy --block 8 --rope ntk:2
try --model "$(dirname "$0")/../golden/decoders/llama-yarn" --ids ids.npy --block 8 --rope linear:2
try --model "$model" --ids ids.npy --score-scale llama4:beta
# a directory, and a word that is read as one more text
mkdir folder && try --model "$model" --text folder
try --model folder --text ids.npy
echo words >words.txt && try --model "$model" --text words.txt extra
