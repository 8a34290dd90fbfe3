# SPDX-License-Identifier: Apache-2.0
# exponent: a known dimension within its error, copies, verdicts, threads, and what is refused.
make_npy K.npy f64 3000x4 normal 5
make_npy q.npy f64 1x4 normal 6
esscher exponent --keys K.npy --query q.npy --beta 1e5 --json >a.json || exit 1
get_json a.json command keys dim queries copies k freezing.0.n freezing.3.n freezing.0.source freezing.0.verdict freezing.1.verdict
within() { # FILE KEY TRUTH: within four standard errors
    value=$(get_json "$1" "$2") && se=$(get_json "$1" "$2_se") &&
        awk -v v="$value" -v s="$se" -v t="$3" 'BEGIN { print (v - t < 4 * s && t - v < 4 * s) ? "ok" : v " +- " s }'
}
within a.json estimates.0.alpha 1.5
within a.json estimates.1.dimension 3
get_json a.json runs.top_weight | cut -c1-4
get_json a.json runs.statement | cut -c1-40
esscher exponent --keys K.npy --sample 100 --beta 1 --json >b.json || exit 1
within b.json estimates.0.alpha 1.5
within b.json estimates.2.dimension 3
get_json b.json estimates.2.method queries refused freezing.0.verdict
esscher exponent --keys K.npy --query q.npy --n 100,1e6 --csv | cut -d, -f1
# Uniform keys on S^31, 10^4 of them at beta = 10: what is measured, and the law for them and for 10^6, agree with regimes.
make_npy S.npy f64 10000x32 normal 5
esscher exponent --keys S.npy --sample 64 --n 1e4,1e6 --beta 10 --json >s.json || exit 1
esscher regimes --dim 32 --n 1e4,1e6 --beta 10 --replicates 20 --json --quiet >r.json || exit 1
agree() { # ROW KEY TRUTH: within four standard errors, which are below 10 %
    value=$(get_json s.json freezing.$1.$2) && se=$(get_json s.json freezing.$1.$2_se) &&
        awk -v v="$value" -v s="$se" -v t="$3" 'BEGIN { d = v - t; print (d < 4 * s && -d < 4 * s && s < 0.1 * t) ? "ok" : v " +- " s " for " t }'
}
for row in 0:0 1:0 2:1; do
    of=${row#*:} row=${row%:*}
    agree $row frozen "$(get_json r.json rows.$of.freezing_beta)"
    agree $row averages "$(get_json r.json rows.$of.averaging_beta)"
    agree $row ess "$(get_json r.json rows.$of.inverse_ess_law | awk '{ print 1 / $1 }')"
    get_json s.json freezing.$row.verdict
done
for threads in 1 2 3; do
    esscher exponent --keys K.npy --sample 20 --csv --threads $threads >t_$threads
done
cmp t_1 t_2 && cmp t_1 t_3 && echo same
# A run file has every table; one row is a table, too. Other keys are another run.
esscher exponent --keys K.npy --query q.npy --beta 1e5 --out e.run >/dev/null
for table in estimates freezing runs scan; do
    esscher export e.run --table $table --csv | wc -l
done
make_npy K2.npy f64 3000x4 normal 8
esscher exponent --keys K2.npy --query q.npy --beta 1e5 --out e.run --resume >/dev/null 2>&1
echo "other keys: rc=$?"
esscher exponent --keys K.npy --sample 100 | head -2
esscher exponent --keys K.npy --query q.npy --beta 1e5 --quiet --full | grep -v '^ ' | grep -A1 '^$'
try() {
    esscher exponent "$@" 2>&1
    echo "rc=$?"
}
try
try --keys K.npy --queries q.npy
try --keys K.npy --beta 1 --scale 1
try --keys none.npy
make_npy wide.npy f64 1x5 normal 6
try --keys K.npy --query wide.npy
make_npy zero.npy f64 100x4 constant 0
try --keys zero.npy
make_npy same.npy f64 100x4 constant 1
try --keys same.npy
make_npy nan.npy f64 100x4 constant nan
try --keys nan.npy
make_npy few.npy f64 3x4 normal 1
try --keys few.npy --query q.npy
try --keys K.npy --query q.npy --nearest 3000
# beyond 100 times the keys the law extrapolates, and it is said
esscher exponent --keys K.npy --query q.npy --n 1e3,3e5 --quiet | grep -c Caution
esscher exponent --keys K.npy --query q.npy --n 1e3,3.1e5 --quiet | grep Caution
