# SPDX-License-Identifier: Apache-2.0
# The oracle: our own output is right, a perturbed one is not, one with a NaN never is; a mistake is called by its name.
make_npy q.npy f32 2x50x8 normal 1 && make_npy k.npy f32 2x90x8 normal 2 && make_npy v.npy f32 2x90x4 normal 3
measure() { esscher measure --q q.npy --k k.npy --v v.npy --quiet "$@"; }
measure --output y.npy >/dev/null
measure --compare y.npy --tolerance 1e-6 >/dev/null; echo "rc=$?"
measure --compare y.npy | sed -n 1p
measure --precision f64 --output exact.npy >/dev/null
measure --compare exact.npy --tolerance 0 --json >answer.json; echo "rc=$?"
for key in relative_l2 ulp_format tolerance passed met format; do get_json answer.json compare.$key; done
make_npy off.npy add 0.5 y.npy
measure --compare off.npy --tolerance 1e-3 --json >answer.json; echo "rc=$?"
grep -E '"(worst_row|ratio_row|passed|ulp_format|met)"' answer.json
measure --compare off.npy | sed -n 1,2p
measure --compare off.npy >/dev/null; echo "rc=$?"
make_npy bad.npy add nan y.npy
measure --compare bad.npy --tolerance 1 --json >answer.json; echo "rc=$?"
grep -E '"(nonfinite|passed|met)"' answer.json
grep -c '"relative_l2": null' answer.json
# without its scale; what was tried stands in the JSON, nearest first
measure --scale 1 --output none.npy >/dev/null
measure --compare none.npy --json >answer.json; echo "rc=$?"
get_json answer.json compare.looks_like
get_json answer.json compare.hypotheses.0.hypothesis
measure --compare none.npy | sed -n 1p
measure --compare none.npy --tolerance 10 >/dev/null; echo "rc=$?"
# bfloat16 bits of it
make_npy bits.npy bf16 '<u2' none.npy
measure --compare bits.npy --compare-dtype bf16 --scale 1 --json | grep -E '"(format|ulp_format|met)"'
measure --compare y.npy --scales 1,2; echo "rc=$?"
measure --compare y.npy --precision f32; echo "rc=$?"
measure --tolerance 1; echo "rc=$?"
# the help shows how
esscher measure -h | grep -c -e "--compare Y.npy"
