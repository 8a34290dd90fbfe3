# SPDX-License-Identifier: Apache-2.0
# budget of a cache: what contradicts itself, or cannot be (KV01).
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
no() { esscher budget --model "$model" --text "$text" --context 64 --quiet "$@"; echo "rc=$?"; }
no --ratio 0.5 --prompt 63
no --ratio 0.5 --prompt 16,32
no --ratio 0.5 --verify "$text" --verify-context 32
no --ratio 0.001
no --keys 99999
no --keys 0
no --evict none --ratio 0.25
no --evict none --ratio 0.5 --policy h2o
no --ratio 0.5 --kv-type kivi2
no --ratio 0.5 --kv-type q4
no --ratio 0.5 --kv-type f16,q8_0,f16
no --ratio 0.5 --policy heavyy
no --ratio 0.5 --policy h2o,h2o
no --ratio 0.5 --policy oracle
no --ratio 0.5 --policy snapkv:alpha=0.2
no --ratio 0.5 --evict decode --policy snapkv
no --ratio 0.5 --evict decode --policy tova
no --ratio 0.5 --evict ideal --kv-type q8_0
no --ratio 0.5 --evict ideal --granularity layer
no --ratio 0.5 --no-query-scores
no --error 0.5 --granularity model
no --ratio 0.25 --policy h2o --kv-type f16 --round 32
