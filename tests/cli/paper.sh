# SPDX-License-Identifier: Apache-2.0
# paper: every row of the registry parses, has a cost and runs at its small size; names are unique and docs/PAPERS.md has a
# section for each; the printed command line gives the same answer; options of the user replace those of the row.
docs=$(cd "$(dirname "$0")/../../docs" && pwd)
mkdir model bigbird && make_model model && make_model bigbird
sed -i 's/"model_type":"bert"/"model_type":"big_bird"/; s/BertFor/BigBirdFor/' bigbird/config.json # its tensors have the same names
make_npy q.npy f32 32x8 normal 7
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "word%d%s", 15 + (i * i + 7 * i) % 16, i % 12 == 11 ? ".\n" : " " }' >text
printf 'sentence\tlabel\n' >tasks.tsv
awk 'BEGIN { for (i = 0; i < 12; i++) { for (w = 0; w < 4 + i % 7; w++) printf "word%d ", 15 + (i * 5 + w * w * 3) % 16; print "\t" i % 2 } }' >>tasks.tsv
pebble=$(cd "$(dirname "$0")/../../models/pebble" && pwd)

# inputs NAME : options of the user that an experiment needs
inputs() {
    case $1 in
    long-context-loss) echo "--model $pebble --text $pebble/alice.txt" ;;
    gap-counting) echo "--q q.npy --k q.npy --v q.npy" ;;
    tsc-downstream*) echo "--model model --tasks tasks.tsv" ;;
    tsc-bigbird-iid) echo "--model bigbird --text text" ;;
    tsc-bigbird-window) ;; # normal tokens, which the study has without a model
    tsc-gaussian) echo "--dim 8 --scales 0.5" ;; # predictions and limits in 50 dimensions take seconds for each scale
    tsc-sphere) echo "--dim 8 --scales 5e3 --n 100,400" ;;
    tsc-bert | tsc-tsne) echo "--model model --text text" ;;
    esac
}

esscher paper --csv | tail -n +2 | cut -d, -f1 >names
sort names | uniq -d
test "$(wc -l <names)" -ge 14 && echo listed
while read -r name; do
    grep -q "^### $name\$" "$docs/PAPERS.md" || echo "docs/PAPERS.md has no section $name"
    # shellcheck disable=SC2046 # options are words
    esscher paper "$name" $(inputs "$name") --quick --dry-run --quiet --json >cost || echo "$name: no dry run"
    get_json cost cost.flops >/dev/null || echo "$name: no cost"
    # shellcheck disable=SC2046
    esscher paper "$name" $(inputs "$name") --quick --quiet --json >answer || echo "$name: no answer"
done <names

# the line that is printed gives the same answer; --quick and the user replace options of the row
esscher paper critical-phase --quick --rho 0.3,0.5 --csv >one 2>line
grep 'the same as' line
esscher collapse --phase --curves --n 1000 --rho 0.3,0.5 --csv | cmp - one && echo same
esscher paper scaling-limits-weights --quick --n 100 --b=1 --quiet --json >answer && get_json answer command rows.0.n
# the list has the parameters; a run file is named with the figure that it draws
esscher paper --json >list && get_json list papers.0.parameters
esscher paper critical-phase --quick --out=phase.run --csv 2>&1 >/dev/null | grep draws
esscher paper critical-phase --quick --out 'a b.run' --csv 2>&1 >/dev/null | grep draws
esscher paper critical-phase --quick --out other.run --dry-run 2>&1 >/dev/null | grep draws
esscher paper tsc-tsne --model model --text text --quick --dry-run 2>&1 >/dev/null | grep -o -e '--pool 2048'
esscher paper tsc-gaussian --dry-run --nn 3 >/dev/null
echo "rc=$?"
esscher paper tsc-gausian
echo "rc=$?"
esscher paper foo
echo "rc=$?"
esscher paper --quick
echo "rc=$?"
esscher paper --quick tsc-gaussian
echo "rc=$?"
esscher paper tsc-tsne --quick
echo "rc=$?"
