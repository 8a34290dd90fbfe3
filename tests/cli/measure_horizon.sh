# SPDX-License-Identifier: Apache-2.0
# measure: horizon, F and score sd against brute force. The matrix of scores, centred over queries and over keys and
# divided by sqrt(mn), has the singular values of Cov(q)^1/2 Cov(k)^1/2 (power iteration); the variance of each query's
# scores over the keys, averaged over queries that are not centred, is score_sd^2. Rows are as many as dimensions, more and
# fewer, on either side; queries have a mean (the last element of each array is moved far away).
rows_of() { tail -c $((8 * $2 * $3)) "$1" | od -An -v -tf8 -w$((8 * $3)); }
# check M N D : queries (M, D), keys (N, D)
check() {
    make_npy z.npy f64 "$1x$3" normal 1 && make_npy q.npy add 40 z.npy
    make_npy z.npy f64 "$2x$3" normal 2 && make_npy k.npy add 3 z.npy
    esscher measure --q q.npy --k k.npy --v k.npy --scale 0.5 --json --quiet >answer.json || exit 1
    { rows_of q.npy "$1" "$3"; rows_of k.npy "$2" "$3"; } >both
    get_json answer.json heads.0.horizon heads.0.frobenius heads.0.score_sd heads.0.horizon_error heads.0.horizon_unscaled >ours
    awk -v m="$1" -v n="$2" '
        function off(x, y) { return x > y ? x / y - 1 : y / x - 1 }
        FILENAME == "both" && NR <= m { for (j = 1; j <= NF; j++) q[NR, j] = $j; d = NF; next }
        FILENAME == "both" { for (j = 1; j <= NF; j++) k[NR - m, j] = $j; next }
        { ours[FNR] = $1 }
        END {
            for (a = 1; a <= m; a++)
                for (b = 1; b <= n; b++) {
                    for (j = 1; j <= d; j++) s[a, b] += 0.5 * q[a, j] * k[b, j]
                    of_query[a] += s[a, b] / n; of_key[b] += s[a, b] / m; all += s[a, b] / (m * n)
                }
            for (a = 1; a <= m; a++)
                for (b = 1; b <= n; b++) {
                    variance += (s[a, b] - of_query[a]) ^ 2 / (m * n)
                    c[a, b] = (s[a, b] - of_query[a] - of_key[b] + all) / sqrt(m * n)
                    F += c[a, b] ^ 2
                }
            for (b = 1; b <= n; b++) x[b] = b % 3 + 1
            for (i = 0; i < 300; i++) {
                for (a = 1; a <= m; a++) for (b = y[a] = 0; b++ < n;) y[a] += c[a, b] * x[b]
                size = 0
                for (b = 1; b <= n; b++) { for (a = x[b] = 0; a++ < m;) x[b] += c[a, b] * y[a]; size += x[b] ^ 2 }
                for (b = 1; b <= n; b++) x[b] /= sqrt(size)
            }
            H = sqrt(sqrt(size)) # of |c x|^2 for a unit vector x
            # sums of some hundred rounded products on either side: 1e-12 leaves a factor of ten
            print m, n, d, (off(ours[1], H) < 1e-12), (off(ours[2], sqrt(F)) < 1e-12), (off(ours[3], sqrt(variance)) < 1e-12),
                (ours[4] > 0 && ours[4] < 1e-6 * H), (off(ours[5], 2 * H) < 1e-12)
        }' both ours
}
check 30 40 4
check 4 4 4
check 4 40 7
check 40 4 7
check 3 5 9
check 4 4 1024
# one query has no covariance, but scores: q = 1 and keys 0, 1, 2, 3, of variance 5/4
reason() { get_json "$1" heads.0.horizon heads.0.horizon_reason layers.0.horizon layers.0.horizon_reason heads.0.score_sd; }
make_npy one.npy f64 1x1 constant 1 && make_npy x.npy f64 4x1 index
esscher measure --q one.npy --k x.npy --v x.npy --json --quiet >a.json && reason a.json
esscher measure --q x.npy --k one.npy --v one.npy --json --quiet >a.json && reason a.json
esscher measure --q one.npy --k x.npy --v x.npy --quiet --full | grep -c 'one query has no covariance'
# two queries and 3000 keys of 2048 dimensions: attention takes nothing (49152000 operations, and 52152000 for gaps), their covariance seconds
make_npy q.npy f32 2x2048 normal 1 && make_npy k.npy f32 3000x2048 normal 2
esscher measure --q q.npy --k k.npy --v k.npy --json --quiet >a.json && reason a.json
esscher measure --q q.npy --k k.npy --v k.npy --dry-run --json --quiet >a.json && get_json a.json cost.flops
# numbers too large to be squared
make_npy huge.npy f64 3x1 constant 1e200 && make_npy far.npy add 1e201 huge.npy
esscher measure --q far.npy --k x.npy --v x.npy --precision f64 --json --quiet >a.json && reason a.json
# covariances of one rank in many dimensions (all columns are multiples of one): a factor exists, and H is that of one number
make_npy t.npy f64 400x1 normal 3 && make_npy up.npy f64 300x1 constant 0.1
esscher measure --tokens t.npy --Wq up.npy --Wk up.npy --scale 1 --json --quiet >wide.json &&
    esscher measure --tokens t.npy --scale 3 --json --quiet >narrow.json
for key in horizon frobenius score_sd horizon_one_sided coupling; do
    get_json wide.json heads.0.$key && get_json narrow.json heads.0.$key
done | awk '{ getline other; print ($1 / other - 1) ^ 2 < 1e-18 }'
