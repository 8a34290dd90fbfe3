# SPDX-License-Identifier: Apache-2.0
# Plans for other engines: what each can run, what it cannot, and what that costs.
root=$(dirname "$0")/../..
plan=$root/examples/plan/pebble.plan.json
for engine in tensorrt-llm vllm llama.cpp; do
    esscher plan export "$plan" --to $engine
    echo
done
for engine in kvpress transformers; do
    esscher plan export "$plan" --to $engine --out plan.py --force
    grep -B100 '^PLAN' plan.py
    grep '^def [a-z]' plan.py
    command -v python3 >/dev/null && python3 -c "compile(open('plan.py').read(), 'plan.py', 'exec')" && echo "rc=$?"
done
# refused
try() {
    esscher plan "$@" >/dev/null
    echo "rc=$?"
}
try
try show
try explain "$plan"
try export "$plan"
try export "$plan" --to vlm
try show "$plan" --to vllm
try show "$plan" --out x
try export "$plan" --to vllm --out plan.py
try export "$root/examples/plan/pebble.ideal.json" --to vllm
try show missing.json
