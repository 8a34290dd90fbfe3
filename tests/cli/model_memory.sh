# SPDX-License-Identifier: Apache-2.0
# Memory is bounded by the headers of a model, before any weight is read; and a dry run reads none (CL03).
#
# The big model is a decoder of 4 GB of weights in a file of holes, 0.6 GB a layer. Commands that need matrices of heads hold
# all of them; the others stream them and hold one layer. With --max-memory 512M all are refused (5) in 1 GB of addresses,
# and dry runs succeed there.
pebble=$(dirname "$(readlink -f "$(command -v kill_twice)")")/../../models/pebble
hidden=4096 inner=8192 layers=6 vocab=4096
mkdir big && cp "$pebble/tokenizer.json" "$pebble/tokenizer_config.json" big
sed "s/\"hidden_size\": 192/\"hidden_size\": $hidden/; s/\"intermediate_size\": 512/\"intermediate_size\": $inner/
    s/\"num_hidden_layers\": 4/\"num_hidden_layers\": $layers/; s/\"num_attention_heads\": 6/\"num_attention_heads\": 32/
    s/\"num_key_value_heads\": 2/\"num_key_value_heads\": 32/; s/\"head_dim\": 32/\"head_dim\": 128/" \
    "$pebble/config.json" >big/config.json
at=0
# tensor NAME ROWS [COLS] : its entry in the header; 2 bytes a number.
tensor() {
    to=$((at + 2 * $2 * ${3:-1}))
    printf '"%s":{"dtype":"F16","shape":[%s],"data_offsets":[%s,%s]},' "$1" "$2${3:+,$3}" $at $to
    at=$to
}
{
    tensor model.embed_tokens.weight $vocab $hidden
    for layer in $(seq 0 $((layers - 1))); do
        for name in q k v o; do tensor "model.layers.$layer.self_attn.${name}_proj.weight" $hidden $hidden; done
        for name in gate up; do tensor "model.layers.$layer.mlp.${name}_proj.weight" $inner $hidden; done
        tensor "model.layers.$layer.mlp.down_proj.weight" $hidden $inner
        for name in input post_attention; do tensor "model.layers.$layer.${name}_layernorm.weight" $hidden; done
    done
    tensor model.norm.weight $hidden
    echo $at >size
} >entries
header="{$(sed 's/,$//' entries)}"
length=${#header}
# shellcheck disable=SC2059  # the length in octal, lowest byte first
{
    printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0"
    printf %s "$header"
} >big/model.safetensors
truncate -s $((8 + length + $(cat size))) big/model.safetensors

# A small model whose weights are all NaN: whoever reads them says so (6).
mkdir tiny && make_model tiny
whole=$(wc -c <tiny/model.safetensors)
bytes=$(head -c 2 tiny/model.safetensors | od -An -tu1)
# shellcheck disable=SC2086  # two numbers
set -- $bytes
head -c $((8 + $1 + 256 * $2)) tiny/model.safetensors >nan
head -c $((whole - 8 - $1 - 256 * $2)) /dev/zero | tr '\0' '\377' >>nan
mv nan tiny/model.safetensors

yes 'the cat sat on the mat, word20 word25 unaffable.' | head -400 >text
awk 'BEGIN { print "sentence\tlabel"; for (i = 0; i < 20; i++) print "word15 word16 word17\t" i % 2 }' >tasks.tsv
OPENBLAS_NUM_THREADS=1
export OPENBLAS_NUM_THREADS
limit='ulimit -v 1000000'
(ulimit -v 1000000; esscher --version) >/dev/null 2>&1 || limit=: # sanitizers need terabytes

# model COMMAND... : asked of the big model, within a limit and as a dry run.
model() {
    (eval "$limit" && exec esscher "$@" --model big --max-memory 512M --threads 1 --quiet >/dev/null 2>err)
    echo "$1: $? $(grep -c 'memory\.limit' err)"
    [ "$1" = selfcheck ] && return
    (eval "$limit" && exec esscher "$@" --model big --dry-run --threads 1 --quiet --json >cost 2>err)
    echo "$1 --dry-run: $?, $(get_json cost cost.memory_bytes | awk '{
        print ($NF > 4e9 && $NF < 8e9) ? "about 4 GB" : ($NF > 0.6e9 && $NF < 1.4e9) ? "about one layer" : ($NF > 1.4e9 && $NF < 2.4e9) ? "about two layers" : $NF }')"
}
model probe --text text --block 256
model tails --text text --block 256
model sparse --text text --context 64
model picture --text text --block 256 --layer 0 --head 0
model depth --text text --length 256
model loss --text text --block 256
model budget --text text --context 256 --ratio 0.5
model encode --text text
model selfcheck --text text --block 256
(eval "$limit" && exec esscher bench --model big --max-memory 512M --threads 1 --quiet >/dev/null 2>err)
echo "bench: $? $(grep -c 'memory\.limit' err)"

# Within the limit a run is admitted, and only then the weights are read.
weightless() {
    esscher "$@" --model tiny --dry-run --quiet >/dev/null 2>err || cat err
    esscher "$@" --model tiny --quiet >/dev/null 2>err
    echo "$1: $? $(grep -c 'model\.finite' err)"
}
weightless probe --text text --n 20,50 --replicates 2
weightless tails --text text
weightless sparse --text text
weightless picture --text text --layer 0 --head 0
weightless depth --text text
weightless budget --text text --ratio 0.5
weightless downstream --tasks tasks.tsv
weightless encode --text text
