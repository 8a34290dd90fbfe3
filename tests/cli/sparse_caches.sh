# SPDX-License-Identifier: Apache-2.0
# sparse with caches: the members that programs rely on, the same bytes for any threads, run files that go on, and what
# makes no sense refused by name (KV01).
model=$(dirname "$0")/../../models/pebble
ask() { esscher sparse --model "$model" --text "$model/alice.txt" --context 96 --contexts 3 --query-count 6 --layer 0,2 --quiet "$@"; }
ask --evict prompt --policy h2o,snapkv:window=8,oracle --ratio 1/8,1/2 --json >prompt
get_json prompt command evict prompt contexts settings.0.policy settings.0.keys settings.2.policy settings.5.keys rows.0.layer rows.0.kv_type
get_json prompt settings.0.relative_error settings.0.relative_error_se settings.0.mass rows.0.mse rows.0.mse_se rows.0.spread2 rows.0.ess >/dev/null && echo members
ask --evict prompt --policy h2o,oracle --keys 8 | head -1 | grep -o '^With 8 of the 48 keys of a prompt'
ask --evict decode --policy stream,tova --keys 8,24 | head -1 | grep -o '^With at most 24 keys at any time'
ask --kv-type q4_0 q4_0,q8_0 --json >types
get_json types evict types.0.kv_type types.1.kv_type types.0.bits types.1.bits precision.0.kv_type rows.1.kv_type
get_json types types.0.dropped types.0.dropped_se types.0.dropped_first_order types.0.ratio types.0.noise types.0.unreliable precision.0.first_order precision.0.dropped_by_noise >/dev/null && echo prices
ask --kv-type q4_0 | head -1 | grep -o '^q4_0 costs the median head as much as dropping'
# the same bytes for any number of threads, and from a run file
ask --kv-type q4_0 --evict prompt --policy h2o --keys 8 --csv --threads 1 >one
ask --kv-type q4_0 --evict prompt --policy h2o --keys 8 --csv --threads 3 >three
cmp one three && echo same
ask --kv-type q4_0 --evict prompt --policy h2o --keys 8 --csv --out a.run >first
ask --kv-type q4_0 --evict prompt --policy h2o --keys 8 --csv --out a.run --resume >again
cmp one first && cmp first again && echo "same from a run file"
# ideal is what there is without --evict
ask --policy stream --keys 16 --csv >plain
ask --policy stream --keys 16 --evict ideal --csv | cmp - plain && echo ideal
try() {
    ask "$@"
    echo "rc=$?"
}
try --evict prompt
try --evict prompt --policy h2o
try --evict decode --policy snapkv --keys 8
try --evict prompt --policy h2o:alpha=0.2 --keys 8
try --evict prompt --policy h2o --keys 8 --kv-type kivi2
try --kv-type q4_0 --evict ideal
try --kv-type q9_0
try --kv-type q4_0 --per-query
try --kv-type q4_0 --prompt 95
try --evict prompt --policy h2o --keys 8,49
try --evict decode --policy h2o --keys 97
