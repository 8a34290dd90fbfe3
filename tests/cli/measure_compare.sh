# The oracle: our own output is right, a perturbed one is not, one with a NaN never is.
make_npy q.npy f32 2x50x8 normal 1 && make_npy k.npy f32 2x90x8 normal 2 && make_npy v.npy f32 2x90x4 normal 3
measure() { esscher measure --q q.npy --k k.npy --v v.npy --quiet "$@"; }
measure --output y.npy >/dev/null
measure --compare y.npy --tolerance 1e-6 >/dev/null; echo "rc=$?"
measure --precision f64 --output exact.npy >/dev/null
measure --compare exact.npy --tolerance 0 --json | sed -n '/"compare": {/,/"heads"/p'; echo "rc=$?"
make_npy off.npy add 0.5 y.npy
measure --compare off.npy --tolerance 1e-3 --json >answer.json; echo "rc=$?"
grep -E '"(worst_row|passed|ulp_format)"' answer.json
measure --compare off.npy >/dev/null; echo "rc=$?"
make_npy bad.npy add nan y.npy
measure --compare bad.npy --tolerance 1 --json >answer.json; echo "rc=$?"
grep -E '"(nonfinite|passed)"' answer.json
grep '"relative_l2": null' answer.json
measure --compare y.npy --scales 1,2; echo "rc=$?"
measure --compare y.npy --precision f32; echo "rc=$?"
measure --tolerance 1; echo "rc=$?"
