# SPDX-License-Identifier: Apache-2.0
# probe --look far: tables and their keys, forecasts beside positions, the same numbers on any threads and after resume, what is refused.
mkdir bert tmp && make_model bert
export TMPDIR="$PWD/tmp" OMP_NUM_THREADS=1
root=${0%/tests/cli/*}
for name in llama gpt2; do
    mkdir "$name" && cp "$root/tests/golden/decoders/$name/config.json" "$root/tests/golden/decoders/$name/model.safetensors" bert/vocab.txt "$name"
done
yes 'the cat sat on the mat, word20 word25 unaffable. word16 cat word30' | head -34 >text
yes 'word16 word17 the word18, word19 cat word21 word22' | head -34 >other
far() { esscher probe --look far --model llama --text text --block 64 --near 8 --quiet "$@"; }
far --forecast 96,128 --verify --other-text other --json >a.json || exit 1
get_json a.json look far_length exchangeability_summary.9.keys exchangeability_summary.4.statistic exchangeability_summary.0.heads
for key in far_heads.4.relative_error_exact far_heads.4.relative_error_exact_se far_heads.4.ratio far_heads.4.rate_map_exact_se far_heads.4.tokens_for_tenth far_rows.5.far_mass \
    far_rows.5.relative_error_se exchangeability.3.entropy exchangeability.3.output_se exchangeability.3.p forecast.3.entropy forecast.3.entropy_se \
    forecast.3.ess_se forecast.3.far_mass forecast.3.sink_mass_se forecast.3.local_mass forecast.3.top_weight forecast.3.entropy_measured \
    forecast.3.far_mass_measured_se forecast_errors.0.bias forecast_errors.24.covered forecast_covered forecast.3.context forecast.3.context_measured forecast.3.limit_error \
    forecast.3.limit_error_se forecast.3.limit_error_measured drift.1.q_norm drift.1.q_growth_se drift.1.k_cos far_ratio_median far_ratio_median_se \
    far_pool_share far_heads.4.rate_map_predicted far_heads.4.effective_context_se far_heads.4.ess_n far_rows.5.relative_error_predicted_se far_ratios.0.ratio_se \
    far_ratios.0.ratio_low far_ratios.0.ratio_high far_classes.0.heads far_rows.5.pool_error far_rows.5.ratio_se; do
    get_json a.json $key | grep -q '^-*[0-9]' || echo "$key: $(get_json a.json $key)"
done
get_json a.json forecast.0.n forecast.1.n forecast_errors.0.from forecast_errors.0.n forecast_errors.8.from forecast_errors.8.n forecast_errors.16.from \
    forecast_errors.24.from forecast_errors.24.n
# whose errors the share of good forecasts is about
get_json a.json findings | grep -o 'two standard errors, of forecast and measurement together' | head -1
# draws from the same text differ in few heads: by Holm's correction for 18 heads and 5 statistics a p of 0.02 is 1 if it is not one of the smallest
get_json a.json $(seq -f 'exchangeability.%g.p' 0 17) | awk '{ ones += $1 == 1 } END { print (ones > 9 ? "Holm" : ones) }'
# heads whose outputs differ are counted apart from those whose weights do, and by how much they do
get_json a.json exchangeability_summary.9.different exchangeability_summary.9.heads | tr '\n' ' ' | awk '{ print "outputs of " $1 " of " $2 }' >counted
get_json a.json findings.1 | grep -o 'outputs of [0-9]* of [0-9]*' | cmp - counted && echo counted
get_json a.json findings.1 | grep -o 'less that of independent keys is [0-9.]* to [0-9.]* times' | cut -c 1-33
# weights of a query sum to 1
for i in 0 7 20; do
    echo "$(get_json a.json forecast.$i.far_mass) $(get_json a.json forecast.$i.sink_mass) $(get_json a.json forecast.$i.local_mass)" | awk '{ d = $1 + $2 + $3 - 1; print (d * d < 1e-12 ? "one" : d) }'
done
# forecasts beside positions; those of a model whose positions are added
esscher probe --model llama --text text --block 64 --near 8 --forecast 96 --quiet --json >p.json && get_json p.json look forecast.0.n position_length
esscher probe --look far --model gpt2 --text text --block 64 --near 8 --forecast 96 --quiet --json >g.json && get_json g.json forecast.0.n far_blocks
# FC02: a model with learned positions has none beyond the last; the angles of rotary ones go on, with a caution
forecast() { esscher probe --look far --text text --block 64 --near 8 --quiet "$@"; }
forecast --model gpt2 --forecast 96,200 >/dev/null; echo "rc=$?"
mkdir few80 && cp llama/* few80 && sed 's/"max_position_embeddings": 256/"max_position_embeddings": 80/' llama/config.json >few80/config.json
for model in llama few80; do forecast --model $model --n 64 --forecast 96 --json | grep -c 'distances beyond the 80 positions'; done
# a smaller error takes a longer context, by the same draws
esscher probe --model llama --text text --block 64 --near 8 --forecast 96 --error 0.02 --quiet --json >e.json
echo "$(get_json p.json forecast.0.context) $(get_json e.json forecast.0.context)" | awk '{ print ($1 < $2 ? "longer" : $0) }'
# (F5): the mean square of stated errors of all heads is at least that of the backtest over as many octaves times the growth of errors, squared or to the fourth, and
# contains that of blocks. Errors of pebble's entropies grow, so that they would be too small without the growth
head -c 12000 "$root/models/pebble/alice.txt" >alice
esscher probe --model "$root/models/pebble" --text alice --block 128 --near 8 --pool 1024 --forecast 256,512 --quiet --json >grow.json
get_json grow.json forecast_errors.0.rms forecast_errors.7.rms forecast_errors.14.rms forecast_errors.14.from $(seq -f 'forecast.%g.entropy_se' 0 47) | awk '
    NR == 1 { early = $1 } NR == 2 { two = $1 } NR == 3 { late = $1; growth = late / early } NR == 4 { print $1 } NR > 4 { sum[(NR - 5) % 2] += $1 * $1 / 24 }
    END { stated[0] = growth ^ 2 * late ^ 2; stated[1] = growth ^ 4 * two ^ 2; right = growth > 1.1
        for (t = 0; t < 2; t++) right = right && sum[t] >= stated[t] * (1 - 1e-9) && sum[t] < 1.5 * stated[t]
        print (right ? "F5" : growth " " sum[0] " " stated[0] " " sum[1] " " stated[1]) }'
# the error of a layer does not fall with the distance of the forecast: it was a fifth at 512 in some heads. What is left is the scatter over blocks
get_json grow.json $(seq -f 'forecast.%g.sink_mass_se' 0 47) | awk '
    NR % 2 { near = $1 } NR % 2 == 0 { ratio = $1 / near; if (NR == 2 || ratio < least) least = ratio } END { print (least > 0.7 ? "no less" : least) }'
# the limit of a causal model: the same numbers, without the test and the forecasts
esscher probe --look limit --model llama --text text --block 64 --near 8 --quiet --json >limit.json && get_json limit.json look far_classes.0.class far_ratios.0.n
grep -cE '"(exchangeability|forecast|drift)' limit.json
for key in relative_error_exact ratio_se rate_map_exact_se effective_context; do
    [ "$(get_json a.json far_heads.4.$key)" = "$(get_json limit.json far_heads.4.$key)" ] || echo "$key differs"
done
# what it costs: three times positions at this length; keys of a stratum were counted six times too dear, which made it nine times
for look in positions limit; do
    esscher probe --look $look --model "$root/models/pebble" --text alice --block 1024 --dry-run | awk '/operations  / { print $2 }'
done | awk 'NR == 1 { positions = $1 } END { ratio = $1 / positions; print (ratio > 1 && ratio < 4 ? "cheap" : ratio) }'
# any threads, a run that goes on, shards put together: the same numbers
table() { esscher export "$1" --table far_rows --csv; }
head -14 text >few
far() { esscher probe --look far --model llama --text few --block 64 --near 8 --n 64 --quiet "$@"; }
far --out one.run >/dev/null && table one.run >one && wc -l <one
far --threads 3 --out three.run >/dev/null && table three.run | cmp one - && echo same
far --out one.run --resume >/dev/null && table one.run | cmp one - && echo same
far --shard 1/2 --out s1.run >/dev/null && far --shard 2/2 --out s2.run >/dev/null &&
    esscher merge s1.run s2.run --out s.run --quiet >/dev/null && far --out s.run --resume >/dev/null && table s.run | cmp one - && echo same
# FC01: forecasts that are too far, texts that are too short; and what else is refused
try() { esscher probe --quiet --model llama --block 64 "$@" >/dev/null; echo "rc=$?"; }
try --text text --look far --near 8 --forecast 257
try --text text --look far --near 8 --forecast 64
head -c 300 text >short
head -c 60 text >shorter
try --text short --look far --near 8
try --text text --look far --near 8 --verify
try --text text --near 9
try --text text --look far --near 40
try --text text --look far --near 8 --n 16,64
try --text text --look far --error 0.2
try --text text --look far --near 8 --other-text shorter
try --text text --look far --replicates 4
try --text text --look limit --forecast 96
try --text text --look limit --replicates 4
try --text text --look content --near 8
esscher probe --model llama --text few --block 64 --near 8 --forecast 200 --quiet | grep -E '^Caution: a forecast' | cut -c 1-60
ls tmp
