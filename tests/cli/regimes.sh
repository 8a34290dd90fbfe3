# SPDX-License-Identifier: Apache-2.0
# regimes: laws in full, the same bytes for any number of threads, every kind of keys, regimes with their reasons.
esscher regimes --dim 3 --n 100,1e12 --b 0.5 --replicates 200 --json --quiet >a.json || exit 1
get_json a.json command keys method replicates rows.0.dim rows.0.n rows.1.n rows.0.alpha rows.0.regime rows.1.limit_note || exit 1
# e^-gamma and 1 - e^-gamma: d = 3, b = 1/2
get_json a.json rows.1.top_weight_limit rows.1.top_weight_law rows.1.inverse_ess_law | cut -c1-10
for key in top_weight top_weight_se top_weight_z inverse_ess inverse_ess_se entropy entropy_law deficit deficit_law \
    deficit_limit tangential tangential_law tangential_limit ks ks_p ordered.7 ordered_se.7 ordered_ks_p.7 scaled_b \
    keys_within_reach freezing_beta law_identity bulk_share limit_off; do
    get_json a.json rows.1.$key >value && grep -q '[0-9]' value || echo "$key: $(cat value)"
done
get_json a.json rows.0.deficit_average rows.0.bias_series | cut -c1-8
regime() { esscher regimes --replicates 50 --quiet --json "$@" >r.json && get_json r.json rows.0.regime rows.0.reason rows.0.limit_note; }
regime --dim 3 --n 1e6 --b 100
regime --dim 50 --n 1e4 --b 10
regime --dim 50 --n 1e4 --b 1
regime --dim 3 --n 10 --beta 1e-3
regime --key-law subsphere --manifold 2 --dim 40 --n 1e9 --b 0.5
regime --key-law vanishing --power 2 --dim 3 --n 1e9 --b 1
regime --key-law vmf --kappa 10 --cosine -0.5 --dim 3 --n 1e9 --b 1
regime --key-law mixture --dim 3 --n 1e9 --b 1
regime --key-law planted --dim 3 --n 1e6 --beta 1e7
regime --n 1 --b 1
for threads in 1 2 3; do
    esscher regimes --dim 2,4 --n 50,1e9 --b 1 --replicates 60 --csv --quiet --threads $threads >n_$threads
    esscher regimes --dim 4 --n 300 --b 1 --brute --replicates 60 --csv --quiet --threads $threads >b_$threads
done
cmp n_1 n_2 && cmp n_1 n_3 && cmp b_1 b_2 && cmp b_1 b_3 && echo same
# Keys of a file: no law, a regime from what was measured. All keys equal share equally.
make_npy keys.npy f64 50x3 normal 1
make_npy equal.npy f64 20x3 constant 1
regime --key-law file --points keys.npy --n 20 --beta 1e6
regime --key-law file --points equal.npy --n 16 --beta 1e6
esscher regimes --key-law file --points keys.npy --alpha 1 --b 1 --n 20 --replicates 20 --json --quiet >f.json &&
    get_json f.json method rows.0.beta rows.0.top_weight_law rows.0.ks_p
# The output below the critical scale. Keys vMF(5, mu) tilted by 2 q are vMF of parameter v = 5 mu + 2 q: in R^4 the limit
# is v/|v| I_2(|v|)/I_1(|v|), (0.449380, 0.612402) by its series. What is measured is within four standard errors.
make_npy V.npy f64 2x4 normal 4
output() { esscher regimes --dim 4 --n 500 --beta 2 --replicates 100 --quiet --json "$@" >o.json || echo "rc=$?"; }
near() {
    for key in along across along_variance across_variance largest_variance trace; do
        echo "$(get_json o.json outputs.0.$key) $(get_json o.json outputs.0.${key}_se) $(get_json o.json outputs.0.${key}_law)" |
            awk '{ d = $1 - $3; if (!(d < 4 * $2 && -d < 4 * $2)) print "off:", $0 }'
    done
}
output --key-law vmf --kappa 5 --cosine 0.3
get_json o.json outputs.0.replicates outputs.0.along_limit outputs.0.across_limit | cut -c1-7
near
output --key-law mixture --kappa 0,5 --cosine 1,0.3 --V V.npy && near
output --Wv V.npy && near
esscher regimes --dim 4 --n 50 --beta 2 --replicates 5 --quiet --json | get_json /dev/stdin outputs 2>&1 | cut -c1-40
# A killed run goes on; the table is the same.
esscher regimes --dim 3 --n 10,100 --b 1 --replicates 30 --csv --quiet --out a.run >whole
esscher regimes --dim 3 --n 10,100 --b 1 --replicates 30 --csv --quiet --out a.run --resume >again
cmp whole again && echo same
esscher regimes --dim 3 --n 100 --b 1 --replicates 30 --quiet | head -7
# beta E(1 - <out,q> - |tangential|^2/2) = (d-1)/2 at the critical scale; paired, its error is below that of the two means.
esscher regimes --dim 3 --n 1e12 --b 3 --replicates 1000 --json --quiet >i.json
get_json i.json rows.0.radial rows.0.radial_se rows.0.beta rows.0.deficit_se rows.0.tangential_se | tr '\n' ' ' |
    awk '{ print ($1 - 1) ^ 2 < (4 * $2) ^ 2 && $2 < 0.5 * $3 * sqrt($4 ^ 2 + $5 ^ 2 / 4) ? "identity holds" : "identity fails: " $0 }'
