# SPDX-License-Identifier: Apache-2.0
# What cannot be measured is refused, with the right exit code.
say() { esscher converge --quiet "$@" >/dev/null; echo "rc=$?"; }
say --law student --freedom 5 --dim 2 --independent
say --n 400..100*3
say --n 1,100
say --replicates 0
make_npy w.npy f32 3x4 normal 1 && make_npy u.npy f32 3x5 normal 2 && make_npy bad.npy f64 4x4 constant nan
say --Wq w.npy
say --Wq w.npy --Wk u.npy
say --Wq w.npy --Wk w.npy --dim 6
say --cov w.npy
say --cov bad.npy
say --law gausian
