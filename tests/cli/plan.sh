# SPDX-License-Identifier: Apache-2.0
# Plans: the examples are plans of models/pebble, and models run by them. A plan of a cache gives what options give.
root=$(dirname "$0")/../..
model=$root/models/pebble
text=$root/tests/golden/pebble/alice-line.txt
ideal=$root/examples/plan/pebble.ideal.json
plan=$root/examples/plan/pebble.plan.json
ask() { esscher loss --model "$model" --text "$text" --block 96 --seed 3 --plan "$ideal" "$@"; }
ask --json 2>remarks >answer
grep -c "made for 2048 tokens and runs on 96" remarks
get_json answer setting settings.1.policy
# any number of threads, a run file, and what is in the plan is part of the question
ask --quiet --threads 1 --csv >one
ask --quiet --threads 3 --out p.run --csv | cmp - one && ask --quiet --out p.run --resume --csv | cmp - one && echo same
sed 's/"risk": null/"risk": 0.5/' "$ideal" >other.json
esscher loss --model "$model" --text "$text" --block 96 --seed 3 --plan other.json --quiet --out p.run --resume >/dev/null
echo "rc=$?"
# what each head keeps
esscher plan show "$plan"
esscher plan show "$ideal" --json >shown && get_json shown mode context heads.6.policy heads.6.keys
# one setting for all heads, as a plan and by options: the same sets and logits
cat >all.json <<END
{"schema": "esscher-plan/3", "mode": "prompt",
 "model": {"model_type": "llama", "layers": 4, "heads": 6, "kv_heads": 2, "head_dim": 32, "hidden": 192, "vocab": 4096,
           "window": 0, "causal": true},
 "context": 96, "prompt": 64, "keys_kept": 128, "keys_all": 512, "bytes_before": 65536, "bytes_after": 6656,
 "layers": [
$(for l in 0 1 2 3; do
    echo "  {\"layer\": $l, \"kv_heads\": ["
    for g in 0 1; do
        echo "   {\"kv_head\": $g, \"policy\": \"h2o:sinks=4:recent=8\", \"keys\": 16, \"k_type\": \"q8_0\", \"v_type\": \"q4_0\"}$(test $g = 0 && echo ,)"
    done
    echo "  ]}$(test $l = 3 || echo ,)"
done)
 ]}
END
cache="--evict prompt --prompt 64 --policy h2o:sinks=4:recent=8 --keys 16 --kv-type q8_0,q4_0"
code() { esscher encode --model "$model" --text "$text" --quiet --force "$@" >/dev/null 2>&1; }
code $cache --kept a.json --logits a.npy && code --plan all.json --kept b.json --logits b.npy && cmp a.npy b.npy && echo same logits
sed 's/"policy":"[^"]*"/"policy":""/' a.json >a && sed 's/"policy":"[^"]*"/"policy":""/' b.json | cmp - a && echo same sets
# loss the same way: a plan compares what comes after its prompt
run() { esscher loss --model "$model" --text "$text" --block 96 --quiet --json "$@"; }
run $cache >a && run --plan all.json >b
get_json b settings.1.setting settings.1.evict settings.1.policy settings.1.prompt settings.1.keys
get_json a settings.1.kl >kl && get_json b settings.1.kl | cmp - kl && echo same KL
