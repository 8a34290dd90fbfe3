# SPDX-License-Identifier: Apache-2.0
# ball: what makes no sense is refused with the right exit code and nothing on stdout.
try() {
    esscher ball --quiet "$@"
    echo "rc=$?"
}
try --law student --freedom 5
try --law laplace --radii 0.5,1
try --radii 0
try --radii -1
try --radii nan
try --radii 2,1
try --n 0
try --n 200,100
try --replicates 0
try --starts 0
make_npy A.npy f64 3x3 normal 1 && make_npy W.npy f32 2x4 normal 3 && make_npy bad.npy f64 3x3 constant nan
try --A A.npy --dim 2
try --Wq W.npy
try --A A.npy --Wq W.npy --Wk W.npy
try --A bad.npy
try --resume
try --n 1e6 --max-memory 1M
try --radius-grid 1
