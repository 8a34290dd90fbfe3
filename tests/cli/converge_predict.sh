# SPDX-License-Identifier: Apache-2.0
# converge --predict: theory without fitted constants is within 4 standard errors of the root mean square over replicates,
# and 10 % that sampling the queries of the prediction leaves (its own error is 3 % here). Like is compared with like.
near() {
    awk '{ d = $1 - $3; if (d < 0) d = -d; if (!(d < 4 * $2 + 0.1 * $3)) { print "off", $0; bad = 1 } }
         END { print NR, bad ? "bad" : "good" }'
}
pairs() {
    for row in "$@"; do
        for what in mean:mean_error_rms cov:cov_error map:map_error; do
            key=predictions.$row.${what%:*}_error_rms
            echo "$(get_json answer $key) $(get_json answer ${key}_se) $(get_json answer predictions.$row.predicted_${what#*:})"
        done
    done
}
esscher converge --dim 6 --n 100,200,400 --replicates 100 --scales 1,3 --predict --quiet --json >answer
pairs 0 1 2 3 4 5 | near
# A root mean square is above the mean, by its spread.
for row in 0 1 2 3 4 5; do
    echo "$(get_json answer rows.$row.mean_error_rms) $(get_json answer rows.$row.mean_error)"
done | awk '$1 <= $2 || $1 > 1.2 * $2 { print "odd", $0 }'
# Rates of predicted errors beside measured ones: within 4 standard errors and what 5 % over a factor 4 in n amount to.
for scale in 0 1; do
    for what in mean cov map; do
        echo "$(get_json answer fits.$scale.rate_$what) $(get_json answer fits.$scale.rate_${what}_se)" \
            "$(get_json answer fits.$scale.predicted.rate_$what)"
    done
done | awk '{ d = $1 - $3; if (d < 0) d = -d; if (!(d < 4 * $2 + 0.05)) { print "off", $0; bad = 1 } } END { print NR, bad ? "bad" : "good" }'
# Isotropic: quadrature, nothing is sampled; tokens twice as wide, in one dimension, with H = 0.4.
esscher converge --dim 1 --head identity --rho 4 --scales 0.1 --n 100,200,400 --replicates 200 --predict --quiet --json >answer
get_json answer predictions.0.sampling
pairs 0 1 2 | near
esscher converge --law sphere --dim 3 --n 100,200,400 --replicates 2 --predict --quiet >/dev/null
echo "rc=$?"
