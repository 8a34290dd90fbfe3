# SPDX-License-Identifier: Apache-2.0
# Heads: with standard normal tokens the horizon of a rotation or the identity is the scale itself; F is sqrt(d) of it.
for head in rotation identity; do
    esscher converge --dim 4 --head $head --scales 0.25,2 --n 50,100,200 --replicates 3 --quiet --json >$head
    get_json $head head
    for key in fits.0.horizon fits.1.horizon fits.1.frobenius; do
        get_json $head $key | awk '{ printf "%.10g\n", $1 }'
    done
done
# The same head from a file gives the same numbers; another seed is another rotation, not another identity.
make_npy eye.npy f64 1x1 constant 1
esscher converge --A eye.npy --n 50,100,200 --replicates 3 --quiet --csv >file
esscher converge --dim 1 --head identity --n 50,100,200 --replicates 3 --quiet --csv >drawn
esscher converge --dim 1 --head rotation --n 50,100,200 --replicates 3 --quiet --csv >turned
cmp file drawn && cmp drawn turned && echo same
make_npy wide.npy f64 2x3 normal 1
say() { esscher converge --n 50,100,200 --replicates 2 --quiet "$@" >/dev/null 2>&1; echo "rc=$?"; }
say --A wide.npy
say --A eye.npy --head identity
say --Wq eye.npy --Wk eye.npy --head rotation
say --A eye.npy --Wq eye.npy --Wk eye.npy
say --A eye.npy --dim 3
say --A eye.npy --Wv eye.npy
