# SPDX-License-Identifier: Apache-2.0
# measure: horizons. Tokens 0, 1, 2, 3 have variance 5/4: without matrices H = F = reach = 5/4 and the coupling is H^2; with
# Wq = 2 and Wk = 3, A = 6, H = 7.5, one-sided sqrt(5/4) 6, coupling 56.25, whatever --scale they are given through.
make_npy x.npy f64 4x1 index && make_npy two.npy f64 1x1 constant 2 && make_npy three.npy f64 1x1 constant 3
show() {
    esscher measure "$@" --json --quiet >a.json || exit 1
    get_json a.json layers.0.layer layers.0.reach layers.0.trace layers.0.horizon layers.0.heads.0.horizon \
        layers.0.heads.0.frobenius layers.0.heads.0.horizon_unscaled layers.0.heads.0.rate_horizon \
        layers.0.heads.0.horizon_one_sided layers.0.heads.0.coupling layers.0.heads.0.rate_worst_case |
        awk '{ printf $1 == "(missing)" ? "- " : "%.9g ", $1 } END { print "" }'
}
show --tokens x.npy
show --tokens x.npy --Wq two.npy --Wk three.npy
show --tokens x.npy --scale 6
# queries, keys and values alone: the same horizon, and nothing about tokens nobody has seen
show --q x.npy --k x.npy --v x.npy --scale 6
# ... of weights made elsewhere: attention is that of the same queries, keys and values
make_npy t.npy f32 30x5 normal 1 && make_npy wq.npy f32 4x3x5 normal 2 && make_npy wk.npy f32 2x3x5 normal 3
esscher measure --tokens t.npy --Wq wq.npy --Wk wk.npy --Wv wk.npy --json --quiet >b.json &&
    get_json b.json shape.heads shape.kv_heads shape.dim shape.value_dim layers.0.heads.3.head provenance.inputs.1.role
# scores of tokens are x'A'y: with A = 0 weights are equal, whatever the values
make_npy zero.npy f32 3x5 constant 0
esscher measure --tokens t.npy --Wq zero.npy --Wk zero.npy --json --quiet >c.json &&
    get_json c.json layers.0.heads.0.ess layers.0.heads.0.horizon rows.0.n
# one query alone has no covariance: attention is measured all the same
make_npy one.npy f64 1x1 constant 1
esscher measure --q one.npy --k x.npy --v x.npy --json --quiet >d.json && get_json d.json layers.0.horizon layers.0.heads.0.horizon
# making values is counted: 30 tokens times two matrices (5, 5), four operations for a multiply-add of f64
cost() { esscher measure --tokens t.npy --Wq wq.npy --Wk wk.npy --json --quiet --dry-run "$@" >e.json && get_json e.json cost.flops; }
make_npy wide.npy f32 2x5x5 normal 3
echo $(($(cost --Wv wide.npy | cut -d. -f1) - $(cost | cut -d. -f1)))
refused() { esscher measure "$@" --quiet; echo "rc=$?"; }
refused --tokens x.npy --q x.npy
refused --Wq x.npy
refused --tokens x.npy --Wq two.npy
refused --tokens x.npy --Wq wq.npy --Wk wk.npy
refused --tokens t.npy --Wq wq.npy --Wk zero.npy --Wv wk.npy
refused --tokens wq.npy
refused --tokens t.npy --Wq zero.npy --Wk t.npy
refused --tokens t.npy --Wq wk.npy --Wk wq.npy
