# SPDX-License-Identifier: Apache-2.0
# budget: what contradicts itself, or cannot be.
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
no() { esscher budget --evict ideal --model "$model" --text "$text" --context 64 --quiet "$@"; echo "rc=$?"; }
no
no --ratio 0.5 --loss 0.1
no --ratio 0.001
no --keys 99999
no --ratio 0.5 --rivals
no --ratio 0.5 --concat 4
no --ratio 0.5 --policy linformer
no --ratio 0.5 --policy top --no-query-scores
no --ratio 0.5 --deployable
no --ratio 0.5 --policy toop
no --ratio 0.5 --verify "$text" --verify-context 4096
no --ratio 2
esscher budget --ratio 0.5 --quiet
echo "rc=$?"
no --bytes 1M
no --bytes 10%
# text for no block
echo 'one two three four' >short
esscher budget --model "$model" --text short --ratio 0.5 --quiet
echo "rc=$?"
