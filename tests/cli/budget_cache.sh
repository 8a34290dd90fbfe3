# SPDX-License-Identifier: Apache-2.0
# budget of a cache: the plan in JSON and as a file that `loss --plan` runs to the same KL; numbers of keys in multiples; one setting for a layer; bits
# alone; decode mode; the same bytes for any number of threads.
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
ask() { esscher budget --model "$model" --text "$text" --context 64 --blocks 3 --query-count 4 --seed 3 --quiet "$@"; }
ask --ratio 0.25 --kv-type f16,q8_0 --policy stream,h2o --verify "$text" --verify-blocks 100 --rivals --out-plan p.json --json >answer
get_json answer plan.evict plan.context plan.prompt plan.keys_all plan.layers.3.kv_heads.1.kv_head bytes_before
get_json answer plan.layers.0.kv_heads.0.policy plan.layers.0.kv_heads.0.keys plan.layers.0.kv_heads.0.k_type plan.layers.0.kv_heads.0.v_type \
  plan.layers.0.kv_heads.0.risk keys_kept bytes_after predicted.kl predicted.kl_se verified.kl verified.loss granularity.2.kl >/dev/null && echo numbers
for way in 0 1 2 3 4 5; do get_json answer allocations.$way.allocation; done
get_json p.json schema mode prompt
# the file runs as the plan was verified, on the same blocks; weights are f32, and other kernels of OpenBLAS, or other numbers of rows in one
# product, change this KL by up to 9e-8 (Haswell against SkylakeX kernels); another plan changes it by more than 1e-3
esscher loss --model "$model" --text "$text" --block 64 --blocks 5 --plan p.json --json --quiet >run
get_json answer verified.kl verified.loss >verified
get_json run settings.1.kl settings.1.cost >run.kl
paste verified run.kl | awk '{ d = $1 - $2; print (d * d <= 25e-14 ? "same" : "differs: " $0) }'
# multiples of 8; one setting for each layer, one for the model
ask --ratio 0.5 --policy h2o --kv-type q8_0 --round 8 --csv | cut -d, -f4 | awk 'NR > 1 { print $1 % 8 }' | sort -u
ask --ratio 0.3 --policy h2o,stream --granularity layer --csv | sed 1d | cut -d, -f1,3,4,5,6 | sort -u | wc -l
ask --ratio 0.3 --policy h2o,stream --granularity model --csv | sed 1d | cut -d, -f3,4,5,6 | sort -u | wc -l
# bits alone, decode mode, bytes and keys
ask --evict none --ratio 0.5 --csv | sed 1d | cut -d, -f3,4 | sort -u
ask --evict none --kv-type f16,kivi4:residual=32 --ratio 0.9 --out-plan kivi.json >/dev/null && get_json kivi.json mode
ask --evict decode --ratio 0.5 --kv-type f16 --out-plan decode.json >/dev/null && get_json decode.json mode
ask --bytes 10000 --policy stream --kv-type q8_0 --json >answer && get_json answer keys_kept bytes_after
ask --keys 128 --policy stream --json >answer && get_json answer keys_kept
# threads, run files
ask --ratio 0.25 --threads 1 --csv >one
ask --ratio 0.25 --threads 3 --csv | cmp - one && echo same
ask --ratio 0.25 --out b.run --csv | cmp - one && ask --ratio 0.25 --out b.run --resume --csv | cmp - one && echo again
ask --loss 0.05 --policy stream,h2o --threads 1 --csv >found
ask --loss 0.05 --policy stream,h2o --threads 3 --csv | cmp - found && echo same
head -1 one
