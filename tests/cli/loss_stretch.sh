# SPDX-License-Identifier: Apache-2.0
# loss --rope: blocks longer than the model's positions, and settings compared beyond the trained context.
model=$(dirname "$0")/../../models/pebble
make_npy far.npy f64 3x160 index
far() { esscher loss --model "$model" --ids far.npy --reference 64 --quiet "$@"; }
far --rope none,ntk:2,yarn:2 --score-scale none,logn --context 64,160 --threads 1 --json >answer
get_json answer trained settings.1.setting settings.2.setting stretch.3.rope stretch.3.scale stretch.1.setting positions.3.from positions.3.to
get_json answer best stretch.1.nll stretch.1.cost stretch.1.cost_se stretch.1.within_cost >/dev/null && echo stretched
far --rope none,ntk:2,yarn:2 --score-scale none,logn --context 64,160 --threads 3 --json >other
for key in stretch.5.nll stretch.5.cost_se; do
    [ "$(get_json answer $key)" = "$(get_json other $key)" ] && echo "same $key"
done
# what is 0 in every block is no effect and few blocks decide nothing between many settings
say() { far "$@" | sed '/^$/,$d' | tr -d '\n' | tr -s ' '; echo; }
say --rope none,ntk:2 --score-scale none,llama4 --context 64,160 --blocks 1 | grep -oE 'score scale llama4 has no effect beyond 64 tokens'
say --rope none,ntk:2,ntk:4,linear:2,yarn:2 --score-scale none,llama4,logn --context 64,160 | grep -oE 'too few blocks to decide between 15 settings'
say --rope none,ntk:2 --context 64,160 | grep -oE 'Settings that may be as good: [^.]*[.]'
say --rope base:9500,base:10500 --context 64,160 | grep -oE 'Within 64 tokens.*, which may be chance' | grep -oE '^Within 64 tokens|which may be chance'
far --rope ntk:2,linear:2 --block 160 | sed '/^$/,$d' | tr -d '\n' | tr -s ' ' | grep -o 'is best beyond 64 tokens\|than the model as it is\|Within 64 tokens'
