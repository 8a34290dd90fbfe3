# SPDX-License-Identifier: Apache-2.0
# A law that is one file and one line of a table: every command that takes a law takes it.
make_npy half.npy f64 1x1 constant 0.5 && make_npy one.npy f64 1x1 constant 1
# ln(pi/2) = 0.4515827052894548, 1/t - pi cot(pi t) = 2 at t = 1/2.
esscher limit --law logistic --x half.npy --quiet --json >answer.json || exit 1
get_json answer.json law map.0 log_mgf
esscher limit --law logistic --x one.npy --quiet
echo "rc=$?"
esscher ball --law logistic --dim 2 --n 50,100 --radii 0.2,0.4 --replicates 3 --quiet --json >answer.json || exit 1
get_json answer.json law
# Queries of a law with exponential tails meet infinite moments, as Laplace's do: converge measures how that fails.
for law in logistic laplace; do
    esscher converge --law $law --dim 2 --n 50,100 --replicates 2 --quiet --json >answer.json
    echo "rc=$?"
    get_json answer.json law rows.1.n
done
