# SPDX-License-Identifier: Apache-2.0
# collapse: what makes no sense is refused with the right exit code and nothing on stdout.
try() {
    esscher collapse "$@"
    echo "rc=$?"
}
try --n 1
try --rho 1
try --rho -0.1
try --gamma 1,2 --times 1
try --phase --times 1
try --gamma nan
try --dim 1
try --tokens 8
try --resume
try --n 1e6 --dim 4096 --max-memory 10M --quiet
