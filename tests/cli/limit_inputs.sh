# SPDX-License-Identifier: Apache-2.0
# NU07 and others: inputs that do not fit, are no numbers, or have no limit.
make_npy x.npy f64 3 index && make_npy A.npy f64 3x4 normal 1 && make_npy S2.npy f64 2x2 constant 1
make_npy nan.npy f64 3 constant 1 && make_npy nan.npy add nan nan.npy
make_npy indefinite.npy add -3 S2.npy && make_npy skew.npy f64 2x2 index && make_npy cube.npy f64 2x3x3 normal 1
make_npy none.npy f64 0x3 normal 1 && make_npy means.npy f64 2x3 normal 1 && make_npy w.npy f64 2 constant -1
limit() { echo "$*"; esscher limit "$@" --quiet 2>&1; echo "rc=$?"; }
limit
limit --x x.npy
limit --law gaussian --moments
limit --law gauss --x x.npy
limit --law gaussian --x x.npy --A A.npy
limit --law gaussian --x x.npy --A S2.npy
limit --law gaussian --x x.npy --cov S2.npy
limit --law gaussian --x cube.npy
limit --law gaussian --x none.npy
limit --law gaussian --x nan.npy
limit --law gaussian --x x.npy --mean nan.npy
limit --law gaussian --moments --cov indefinite.npy
limit --law gaussian --moments --cov skew.npy
limit --law gaussian --cov S2.npy --rho 2 --moments
limit --law student --freedom 5 --x x.npy
limit --law student --x x.npy
limit --law laplace --x x.npy
limit --law laplace --dim 2 --moments
limit --law cube --dim 3 --moments
limit --law vmf --x x.npy
limit --law mixture --means means.npy --weights w.npy --x x.npy
limit --law sphere --radius -1 --x x.npy
limit --law sphere --x missing.npy
limit --law sphere --dim 512 --moments --max-memory 1M
