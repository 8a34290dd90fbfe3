# SPDX-License-Identifier: Apache-2.0
# Tokens without exponential moments: growth in place of convergence, and a run file that is not computed twice.
run() { esscher converge --quiet --head identity --dim 1 --n 100..10000*3 --replicates 8 "$@"; }
run --law student --freedom 2 --scales 100 --out f.run
run --law student --freedom 2 --scales 100 --out f.run --resume --csv >again
esscher export f.run --table rows --csv >kept && cmp again kept && echo same
esscher export f.run --table growth --csv | head -1
# 1/freedom, and the share of one-dimensional Laplace queries with |x| > 1/2 is e^-1/2 = 0.607
run --law student --freedom 2 --json >s.json && get_json s.json growth.0.predicted_growth_limit growth.0.beyond
run --law laplace --scales 2 --json >l.json && get_json l.json growth.0.beyond growth.0.predicted_step rows.2.n
run --law laplace --scales 1e-6 | head -1
run --law student --freedom 2 --predict
echo "rc=$?"
