# probe of decoders: heads place by place, limits without positions, the keys of the JSON, resume, what is refused.
mkdir bert tmp && make_model bert
export TMPDIR="$PWD/tmp" OMP_NUM_THREADS=1
root=${0%/tests/cli/*}
decoder() { # NAME : a tiny one whose words are those of the other model
    mkdir "$1" && cp "$root/tests/golden/decoders/$1/config.json" "$root/tests/golden/decoders/$1/model.safetensors" bert/vocab.txt "$1"
}
for name in llama mistral-window qwen3 gpt2; do decoder $name; done
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
yes 'word16 word17 the word18, word19 cat word21 word22' | head -120 >other
probe() { esscher probe --text text --n 20,50,100 --replicates 2 --query-count 16 --exact-queries 4 --block 100 --quiet "$@"; }
# both parts: places first; heads of a width of their own and a window (48 channels, 6 heads of 16)
probe --model mistral-window | grep -E '^[A-Z]' | cut -c 1-60
probe --model mistral-window --json >a.json || exit 1
get_json a.json position_blocks position_length position_error position_heads.7.layer position_heads.7.head
for key in position_heads.4.sink_mass position_heads.4.local_mass_se position_heads.4.ess_typical position_heads.4.effective_context.3 \
    position_heads.4.growth_se position_heads.4.horizon_rotary position_heads.4.decay_plain position_heads.4.gaussian_frozen \
    positions.9.entropy positions.9.effective_context_se context_windows.5.error distances.9.score distances.9.score_rotary_se \
    distances.9.weight layers.2.heads.2.horizon layers.2.heads.2.rate_mean layers.2.heads.2.entropy layers.2.heads.2.top_mass layers.2.heads.2.ess; do
    get_json a.json $key | grep -q '^-*[0-9]' || echo "$key: $(get_json a.json $key)"
done
get_json a.json heads.3.sink_first # places tell
get_json a.json heads.3.advice heads.3.random_error matter_most.0.advice matter_most.0.random_error # places decide which keys to keep
for head in 0 5 9; do get_json a.json position_heads.$head.effective_context.3 | awk '{ print ($1 <= 24 ? "within the window" : $1) }'; done
# horizons from weights and covariance are those of plain queries and keys of single blocks, nearly: the texts are alike
for head in 0 7 16; do
    echo "$(get_json a.json heads.$head.horizon) $(get_json a.json position_heads.$head.horizon_plain)" | awk '{ d = $1 / $2 - 1; print (d * d < 0.0004 ? "near" : d) }'
done
# any threads, a run that goes on, shards put together, a pool that is streamed: the same numbers
positions() { esscher probe --look positions --model llama --text text --block 100 --quiet "$@"; }
table() { esscher export "$1" --table positions --csv; }
positions --out one.run >/dev/null && table one.run >one && wc -l <one && head -1 one | cut -c 1-60
positions --threads 3 --out three.run >/dev/null && table three.run | cmp one - && echo same
positions --out one.run --resume >/dev/null && table one.run | cmp one - && echo same
positions --shard 1/2 --out s1.run >/dev/null && positions --shard 2/2 --out s2.run >/dev/null &&
    esscher merge s1.run s2.run --out s.run --quiet >/dev/null && positions --out s.run --resume >/dev/null && table s.run | cmp one - && echo same
probe --model gpt2 --look limit --csv >full && probe --model gpt2 --look limit --stream --store f32 --csv | cmp full - && echo same
# domains
esscher probe --look positions --model llama --domain a=text --domain b=other --block 64 --quiet --json >d.json && get_json d.json position_heads.20.domain position_heads.20.head
# of a larger error less context is needed
positions --json >e1.json && positions --error 1 --json >e2.json
echo "$(get_json e1.json position_heads.3.effective_context.3) $(get_json e2.json position_heads.3.effective_context.3)" | awk '{ print ($1 > $2) ? "less" : $0 }'
# heads that norm queries and keys: places, and why nothing else
probe --model qwen3 | grep -E '^Caution: heads|^Heads' | cut -c 1-80
try() { esscher probe --quiet "$@" >/dev/null; echo "rc=$?"; }
try --model qwen3 --text text --look limit
try --model bert --text text --look positions
try --model llama --text text --block 1000
try --model llama --text text --error 0
printf 'the cat sat' >short
esscher probe --model llama --text short --look positions --quiet | grep -E '^Caution'
ls tmp
