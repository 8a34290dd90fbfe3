# SPDX-License-Identifier: Apache-2.0
# budget: a plan for a decoder, predicted and verified; the JSON that DESIGN promises; the plan file; tolerances and exit
# codes; the same bytes for any number of threads; run files.
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
ask() { esscher budget --evict ideal --model "$model" --text "$text" --context 64 --blocks 3 --query-count 4 --seed 3 --quiet "$@"; }
ask --ratio 0.25 --out-plan p.json --json >answer
get_json answer command plan.context plan.keys_all plan.layers.0.layer plan.layers.3.heads.5.head plan.layers.3.heads.5.group
get_json answer plan.layers.0.heads.0.policy plan.layers.0.heads.0.keys plan.layers.0.heads.0.correction plan.layers.0.heads.0.risk keys_kept bytes_after \
  predicted.error predicted.state predicted.kl >/dev/null && echo numbers
get_json answer bytes_before allocations.0.allocation allocations.3.allocation frontier.0.by
get_json p.json schema
ask --ratio 0.25 --out-plan p.json >/dev/null 2>&1
echo "again rc=$?"
ask --ratio 0.5 | head -1 | cut -d' ' -f1-7
# one query that sees fewer keys than some plans keep: its risk is 0 there, and was once below it by a rounding
esscher budget --evict ideal --model "$model" --text "$text" --context 64 --blocks 1 --query-count 1 --ratio 0.25 --quiet | head -1 | cut -d' ' -f1-7
# verified on other text, and beside other ways of sharing out
ask --ratio 0.25 --policy stream,top --verify "$text" --verify-blocks 2 --rivals --json >answer
get_json answer verified.blocks verified.context rehearsal.blocks
get_json answer verified.error verified.state verified.loss verified.kl verified.agreement plan.layers.0.verified plan.layers.0.rehearsed \
  plan.layers.0.coherence plan.layers.0.coherence_se predicted.loss_coherence rehearsal.kl rehearsal.agreement \
  allocations.1.loss allocations.1.more positions.7.loss >/dev/null && echo verified
# tolerances: a plan for 64 tokens is too small for 192
ask --error 0.1 --policy top --verify "$text" --verify-blocks 1 --verify-context 192 >/dev/null 2>log
echo "rc=$?" && grep -c "check failed" log
# the same two blocks with every late query: what is found is what was computed, but for heads whose errors are not independent,
# which two blocks cannot tell from what was asked for
esscher budget --evict ideal --model "$model" --text "$text" --context 64 --blocks 2 --query-count 32 --error 0.9 --policy top --verify "$text" --verify-blocks 2 \
  --quiet >out && grep -c "Undecided whether the plan meets" out
ask --error 0.1 --policy top --verify "$text" --verify-blocks 1 --verify-context 16 >out && grep -c "The plan meets what was asked for" out
# threads, run files
ask --ratio 0.25 --no-query-scores --threads 1 --csv >one
ask --ratio 0.25 --no-query-scores --threads 3 --csv | cmp - one && echo same
ask --ratio 0.25 --no-query-scores --out b.run --csv | cmp - one && ask --ratio 0.25 --no-query-scores --out b.run --resume --csv | cmp - one && echo again
# a tolerance is looked for by stages that depend on each other: threads, and shards that need each other's cells
ask --loss 0.05 --policy top --threads 1 --csv >found
ask --loss 0.05 --policy top --threads 3 --csv | cmp - found && echo same
for shard in 1 2; do ask --loss 0.05 --policy top --shard $shard/2 --out part-$shard.run >/dev/null; done
esscher merge part-*.run --out all.run --quiet --csv | cmp - found && echo merged
head -1 one
cut -d, -f4 one | grep -c top
ask --ratio 0.25 --dry-run --csv | head -1
