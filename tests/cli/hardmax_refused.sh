# SPDX-License-Identifier: Apache-2.0
# hardmax: what makes no sense is refused with the right exit code and nothing on stdout.
try() {
    esscher hardmax "$@"
    echo "rc=$?"
}
try --n 0
try --n 1e19
try --n 100,10
try --n 10..1e9
try --n nan
try --replicates 0
try --dim 0
try --dim 65
try --sigma 0
try --sigma -1
try --queries all
try --directions 1
try --dim 2 --queries self
try --dim 2 --n 10,1e8
try --replicate 5
try --replicates 1e8 --max-memory 1M
