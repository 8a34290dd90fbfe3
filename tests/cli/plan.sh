# SPDX-License-Identifier: Apache-2.0
# Plans: the example of the format is a plan of models/pebble, another program reads it, and a model runs by it.
root=$(dirname "$0")/../..
model=$root/models/pebble
text=$root/tests/golden/pebble/alice-line.txt
plan=$root/examples/plan/pebble.plan.json
ask() { esscher loss --model "$model" --text "$text" --block 96 --seed 3 --plan "$plan" "$@"; }
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
python3 "$root/examples/plan/plan_lengths" "$plan"
python3 "$root/examples/plan/plan_lengths" "$plan" --context 4096 --json
ask --json 2>remarks >answer
grep -c "made for 2048 tokens and runs on 96" remarks
get_json answer setting settings.1.policy
# any number of threads, a run file, and what is in the plan is part of the question
ask --quiet --threads 1 --csv >one
ask --quiet --threads 3 --out p.run --csv | cmp - one && ask --quiet --out p.run --resume --csv | cmp - one && echo same
sed 's/"risk": null/"risk": 0.5/' "$plan" >other.json
esscher loss --model "$model" --text "$text" --block 96 --seed 3 --plan other.json --quiet --out p.run --resume >/dev/null
echo "rc=$?"
