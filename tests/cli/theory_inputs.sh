# SPDX-License-Identifier: Apache-2.0
# What is no covariance, no head, or does not fit.
make_npy S.npy f64 3x3 constant 1 && make_npy A.npy f64 3x3 normal 1 && make_npy wide.npy f64 2x3 normal 1
make_npy two.npy f64 2x2 normal 1 && make_npy line.npy f64 3 normal 1 && make_npy nan.npy f64 3x3 constant nan
make_npy none.npy f64 0x3 normal 1 && make_npy bad.npy add -3 S.npy && make_npy skew.npy f64 3x3 index
theory() { echo "$*"; esscher theory "$@" 2>&1 | grep -v hint; }
code() { esscher theory "$@" 2>/dev/null; echo "rc=$?"; }
both() { theory "$@"; code "$@"; }
both
both --cov S.npy
both --cov S.npy --dim 2 --A A.npy
both --cov S.npy --rho 3 --A A.npy
both --cov S.npy --A A.npy --Wq wide.npy
both --cov S.npy --Wq wide.npy
both --cov missing.npy --A A.npy
both --cov wide.npy --A A.npy
both --cov S.npy --A two.npy
both --cov S.npy --Wq wide.npy --Wk A.npy
both --cov line.npy --A A.npy
both --cov S.npy --Wq none.npy --Wk none.npy
both --cov nan.npy --A A.npy
both --cov S.npy --A nan.npy
both --cov bad.npy --A A.npy
both --cov skew.npy --A A.npy
both --dim 3 --rho -1 --A A.npy
both --cov S.npy --A A.npy --max-memory 100
