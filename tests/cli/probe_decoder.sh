# SPDX-License-Identifier: Apache-2.0
# probe of decoders: heads place by place, content without positions, the keys of the JSON, resume, what is refused.
mkdir bert tmp && make_model bert
export TMPDIR="$PWD/tmp" OMP_NUM_THREADS=1
root=${0%/tests/cli/*}
decoder() { # NAME : a tiny one whose words are those of the other model
    mkdir "$1" && cp "$root/tests/golden/decoders/$1/config.json" "$root/tests/golden/decoders/$1/model.safetensors" bert/vocab.txt "$1"
}
for name in llama mistral-window qwen3 gpt2; do decoder $name; done
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
yes 'word16 word17 the word18, word19 cat word21 word22' | head -120 >other
positions() { esscher probe --model llama --text text --block 100 --quiet "$@"; } # what is looked at unless asked
probe() { esscher probe --look content --text text --n 20,50,100 --replicates 2 --query-count 16 --exact-queries 4 --block 100 --quiet "$@"; }
# positions of a model with a window, and heads of a width of their own (48 channels, 6 heads of 16)
esscher probe --model mistral-window --text text --block 100 --quiet | grep -E '^[A-Z]' | cut -c 1-60
esscher probe --model mistral-window --text text --block 100 --quiet --json >a.json || exit 1
get_json a.json position_blocks position_length position_error position_heads.7.layer position_heads.7.head
for key in position_heads.4.window_error position_heads.4.window_error_se position_heads.4.sink_mass position_heads.4.local_mass_se \
    position_heads.4.single_key position_heads.4.single_key_se position_heads.4.rests_on_sink position_heads.4.rests_on_sink_se \
    position_heads.4.ess_typical position_heads.4.effective_context.3 position_heads.4.window_share_se position_heads.4.growth_se \
    position_heads.4.horizon_rotary position_heads.4.decay_plain position_heads.4.gaussian_frozen position_window_share position_sink_mass_se \
    positions.9.entropy positions.9.single_key positions.9.rests_on_sink_se positions.9.effective_context_se context_windows.5.error \
    distances.9.score distances.9.score_rotary_se distances.9.weight position_classes.2.heads; do
    get_json a.json $key | grep -q '^-*[0-9]' || echo "$key: $(get_json a.json $key)"
done
for i in 0 1 2 3; do get_json a.json position_classes.$i.place; done
# a head has a place and a concentration, and the table of places counts them
positions --full --json >l.json
for i in $(seq 0 17); do get_json l.json position_heads.$i.place; done | sort | uniq -c | sed 's/^ *//' >places
for i in 0 1 2 3; do echo "$(get_json l.json position_classes.$i.heads) $(get_json l.json position_classes.$i.place)"; done | grep -v '^0' | sort -k 2 | cmp - places && echo counted
get_json l.json position_heads.0.concentration | grep -cE 'averaging|selective|single-key|undecided'
grep -cE '"(class|sure|frozen)"' l.json
# the content of a decoder: every sentence says what was removed, and there is no advice; the first 4 tokens of a block are no rows
probe --model mistral-window | grep -E '^[A-Z]' | cut -c 1-86
probe --model mistral-window --json >b.json || exit 1
for key in layers.2.heads.2.horizon layers.2.heads.2.rate_mean layers.2.heads.2.entropy layers.2.heads.2.top_mass layers.2.heads.2.ess; do
    get_json b.json $key | grep -q '^-*[0-9]' || echo "$key: $(get_json b.json $key)"
done
get_json b.json heads.3.advice heads.3.random_error
get_json b.json skipped_first pools.0.blocks
echo "$(get_json b.json pools.0.tokens) $(get_json b.json pools.0.blocks)" | awk '{ print $1 + 4 * $2 }' # tokens of the text
get_json b.json heads.3.sink_first # positions tell
for head in 0 5 9; do get_json a.json position_heads.$head.effective_context.3 | awk '{ print ($1 <= 24 ? "within the window" : $1) }'; done
# horizons from weights and covariance are those of plain queries and keys of single blocks, nearly: the texts are alike
for head in 0 7 16; do
    echo "$(get_json b.json heads.$head.horizon) $(get_json a.json position_heads.$head.horizon_plain)" | awk '{ d = $1 / $2 - 1; print (d * d < 0.0004 ? "near" : d) }'
done
# any threads, a run that goes on, shards put together, a pool that is streamed: the same numbers
table() { esscher export "$1" --table positions --csv; }
positions --out one.run >/dev/null && table one.run >one && wc -l <one && head -1 one | cut -c 1-60
positions --threads 3 --out three.run >/dev/null && table three.run | cmp one - && echo same
positions --out one.run --resume >/dev/null && table one.run | cmp one - && echo same
positions --shard 1/2 --out s1.run >/dev/null && positions --shard 2/2 --out s2.run >/dev/null &&
    esscher merge s1.run s2.run --out s.run --quiet >/dev/null && positions --out s.run --resume >/dev/null && table s.run | cmp one - && echo same
probe --model gpt2 --csv >full && probe --model gpt2 --stream --store f32 --csv | cmp full - && echo same
# domains
esscher probe --model llama --domain a=text --domain b=other --block 64 --quiet --json >d.json && get_json d.json position_heads.20.domain position_heads.20.head
# of a larger error less context is needed
positions --json >e1.json && positions --error 1 --json >e2.json
echo "$(get_json e1.json position_heads.3.effective_context.3) $(get_json e2.json position_heads.3.effective_context.3)" | awk '{ print ($1 > $2) ? "less" : $0 }'
# heads that norm queries and keys: places, and why nothing else
esscher probe --model qwen3 --text text --block 100 --quiet | grep -E '^Caution: heads|^Heads' | cut -c 1-80
try() { esscher probe --quiet "$@" >/dev/null; echo "rc=$?"; }
try --model qwen3 --text text --look content
try --model bert --text text --look positions
try --model bert --text text --look content
try --model llama --text text --block 1000
try --model llama --text text --error 0
try --model llama --text text --n 20,50,100
try --model llama --text text --look content --error 0.2
printf 'the cat sat' >short
esscher probe --model llama --text short --quiet | grep -E '^Caution'
ls tmp
