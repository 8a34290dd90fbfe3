# SPDX-License-Identifier: Apache-2.0
# A GGUF is a model by itself: tokenize, encode; what cannot be read is refused with exit code 3.
golden=${0%/*}/../golden/gguf/llama
cp "$golden/q8_0.gguf" model.gguf
echo 'the cat and a dog in the house' >text
esscher tokenize --model model.gguf text
esscher encode --quiet --model model.gguf --text text --csv
try() {
    esscher encode --quiet --text text "$@"
    echo "rc=$?"
}
# GG08
head -c 20000 model.gguf >cut.gguf && try --model cut.gguf
# GG01
printf 'GGML' >other.gguf && try --model other.gguf
# GG07: 3 heads of keys for 4 of queries
export LC_ALL=C
sed 's/head_count_kv\x04\x00\x00\x00\x02/head_count_kv\x04\x00\x00\x00\x03/' model.gguf >uneven.gguf && try --model uneven.gguf
# an architecture that is not read
sed 's/general\.architecture\(............\)llama/general.architecture\1rwkv7/' model.gguf >rwkv7.gguf && try --model rwkv7.gguf
