# SPDX-License-Identifier: Apache-2.0
# regimes: what makes no sense is refused with the right exit code and nothing on stdout.
try() {
    esscher regimes --replicates 10 "$@"
    echo "rc=$?"
}
try --dim 1
try --dim 5000
try --n 0
try --n 1e19
try --b 0
try --b -1
try --beta 0
try --beta inf
try --beta nan
try --b 1 --beta 1
try --kappa 3
try --key-law vmf --kappa 1,2
try --key-law mixture --kappa 1,2 --cosine 1
try --manifold 2
try --key-law subsphere --manifold 5 --dim 5
try --brute --n 1e10
try --key-law file
try --points x.npy
try --key-law file --points missing.npy --beta 1
make_npy keys.npy f64 10x3 normal 1
make_npy zero.npy f64 10x3 constant 0
make_npy line.npy f64 10x1 constant 1
try --key-law file --points keys.npy
try --key-law file --points keys.npy --beta 1 --dim 3
try --key-law file --points keys.npy --beta 1 --n 10
try --key-law file --points zero.npy --beta 1 --n 5
try --key-law file --points line.npy --beta 1 --n 5
try --key-law file --points keys.npy --query zero.npy --beta 1 --n 5
try --key-law file --points keys.npy --beta 1 --n 5 --V keys.npy
try --dim 3,4 --V keys.npy
try --dim 4 --V keys.npy
try --keys vmf
try --weight 1
try --max-memory 1M
