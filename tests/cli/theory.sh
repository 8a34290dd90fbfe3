# SPDX-License-Identifier: Apache-2.0
# Horizons of a head: S = 4 I, A = 0.5 (1, 1; 1, 1), so |A| = 1, M = 4 A.
make_npy A.npy f64 2x2 constant 0.5 && make_npy W.npy f32 3x2 normal 7
esscher theory --dim 2 --rho 4 --A A.npy
esscher theory --dim 2 --rho 4 --A A.npy --json >answer.json || exit 1
get_json answer.json command seed reach horizon_one_sided horizon horizon_unscaled coupling frobenius trace \
    rate_worst_case rate_horizon exponents.mean_abs dim
esscher theory --dim 2 --Wq W.npy --Wk W.npy --json >answer.json || exit 1
get_json answer.json head_dim provenance.inputs.1.role
esscher theory --dim 2 --rho 4 --A A.npy --csv | head -1
esscher theory --dim 2 --rho 4 --A A.npy --json --threads 1 >one.json && get_json one.json horizons.horizon errors.horizon provenance.threads
# With --n the prediction comes first: equal seeds give equal bits, and a smaller error for more tokens.
make_npy B.npy f64 6x6 constant 0.05
esscher theory --dim 6 --A B.npy --n 100,1000 --samples 64 --json --quiet >one.json || exit 1
esscher theory --dim 6 --A B.npy --n 100,1000 --samples 64 --json --quiet >two.json || exit 1
grep -v '"seconds"' one.json | cmp - two.json && echo same
get_json one.json seed prediction.0.n prediction.0.query_rms prediction.1.query_rms prediction.1.slope_query
esscher theory --dim 6 --A B.npy --n 100 --samples 64 --quiet | head -6
esscher theory --dim 6 --A B.npy --n 100 --samples 64 --csv --quiet | head -1
