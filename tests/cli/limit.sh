# SPDX-License-Identifier: Apache-2.0
# The limit of attention: values that are known, the JSON of one query and of several, moments.
make_npy x.npy f64 3 index && make_npy xs.npy f32 2x3 index && make_npy one.npy f64 1x1 constant 1
limit() { esscher limit "$@" --quiet --json >answer.json || exit 1; }
# N(0, I): the map is x and K = |x|^2/2 = 2.5; N(0, 4 I) multiplies both by 4.
limit --law gaussian --x x.npy && get_json answer.json command law dim map log_mgf rows.0.row
limit --law gaussian --rho 4 --x xs.npy && get_json answer.json rows.0.map rows.1.map rows.1.log_mgf
get_json answer.json map
# A sign: tanh(1) = 0.7615941559557649, ln cosh(1) = 0.4337808304830271.
limit --law rademacher --x one.npy && get_json answer.json map.0 log_mgf
limit --law sphere --x one.npy --moments && get_json answer.json map.0 cov.0.0 accuracy.method
# THEORY 1.1: A_10(1) = 0.09917838239971256 along the first axis.
make_npy v.npy f64 1x10 constant 1
make_npy x10.npy f64 10 constant 0.31622776601683794
limit --law sphere --x x10.npy --V v.npy && get_json answer.json map
# Moments: the Gaussian with A = V = I keeps its covariance cubed: 2 I becomes 8 I.
limit --law gaussian --dim 2 --rho 2 --moments && get_json answer.json mean cov accuracy.method error
limit --law cube --dim 1 --moments && get_json answer.json accuracy.method
make_npy draws.npy f64 50x2 normal 1
limit --law cube --draws draws.npy --moments && get_json answer.json accuracy.method
# Parts around (0, 1) and (2, 3): without a tilt, x = 0, the map is their mean.
make_npy means.npy f64 2x2 index && make_npy zero.npy f64 2 constant 0
limit --law mixture --means means.npy --x zero.npy && get_json answer.json map log_mgf
limit --law empirical --points means.npy --x zero.npy && get_json answer.json map
limit --law vmf --direction x.npy --kappa 2 --mean x.npy --x x.npy && get_json answer.json law
# A covariance of rank 1 gets a little on its diagonal, and says so.
make_npy flat.npy f64 2x2 constant 3
esscher limit --law gaussian --cov flat.npy --x zero.npy
esscher limit --law gaussian --dim 2 --moments --csv --quiet
esscher limit --law gaussian --dim 2 --moments --quiet | head -1
# Wq and Wk make A = Wk'Wq/sqrt(k): here 1. More channels than a table has space for are in the files.
make_npy W.npy f64 1x1 constant 1 && limit --law rademacher --x one.npy --Wq W.npy --Wk W.npy --moments && get_json answer.json map >a
limit --law rademacher --x one.npy --moments && get_json answer.json map | cmp a - && make_npy x9.npy f64 5x9 normal 3
limit --law gaussian --x x9.npy --V x9.npy && get_json answer.json channels | sed 's/0,1,2,3,4/1.0,/'
esscher limit --law gaussian --x x9.npy --quiet | head -4
esscher limit --law gaussian --x x9.npy --csv --quiet | head -1
esscher limit --law gaussian --x x9.npy --out l.run 2>&1
echo "rc=$?"
esscher limit --law gaussian --x x9.npy --Wq x9.npy 2>&1 | head -1
