# SPDX-License-Identifier: Apache-2.0
# NU01 and JSON: with scale 0 every weight is 1/n, so the output is the mean of V, the entropy ln n,
# the effective number of keys n; V counts 0 .. 39, so its column means are 19 and 20.
make_npy q.npy f32 5x3 normal 1 && make_npy k.npy f32 20x3 normal 2 && make_npy v.npy f32 20x2 index
for precision in f32 f64; do
    esscher measure --q q.npy --k k.npy --v v.npy --scale 0 --precision $precision --top-k 1,5,50 \
        --moments --json --quiet >answer.json || exit 1
    sed -n '/"rows": \[/,$p' answer.json
done
esscher measure --q q.npy --k k.npy --v v.npy --scale 0 --csv --quiet
# One key: its value is the output, all weight is on it, and one query has no standard error.
make_npy one.npy f64 1x3 normal 5
esscher measure --q one.npy --k one.npy --v one.npy --json --quiet | sed -n '/"rows"/,/"layers"/p' | grep -E '"(entropy|entropy_se|top_weight|ess|output_cov_trace)"'
# Two keys with scores 0 and 1: weights 1/(1+e) and e/(1+e) = 0.73105857863000490.
make_npy q.npy f64 1x1 constant 1 && make_npy k.npy f64 2x1 index
esscher measure --q q.npy --k k.npy --v k.npy --precision f64 --json --quiet | sed -n '/"rows"/,/"layers"/p' | grep -E '"(entropy|lse|top_weight|ess|output_mean_norm)"'
sed -n 1,5p answer.json
# The largest weight of a head: top_weight, and top_mass, as it used to be called.
get_json answer.json heads.0.top_weight heads.0.top_mass layers.0.heads.0.top_weight
