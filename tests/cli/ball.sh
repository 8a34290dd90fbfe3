# SPDX-License-Identifier: Apache-2.0
# ball: rows, fits and growth; the same bytes for any number of threads; what is compared with what.
ask() { esscher ball --n 200,400,800 --radii 0.4,0.7,1,3 --replicates 12 --seed 3 --quiet "$@"; }
ask --threads 1 --csv >one
ask --threads 3 --csv >three
cmp one three && echo same
wc -l <one
head -1 one
ask --json >answer
get_json answer command law dim replicates horizon_one_sided rows.0.flag rows.9.flag fits.0.rate_expected growth.0.radii growth.0.slope_bound growth.0.slope_sharp
get_json answer fits.3.rate fits.3.reason
# unit covariance, R = 1: the worst single query has n MSE = e (2 + 1)
get_json answer rows.6.predicted_rms | awk '{ print ($1 - sqrt(3 * exp(1))) ^ 2 < 1e-20 ? "closed form" : $1 }'
# twelve replicates of a supremum that varies by 35 %: within four standard errors of the sampled limit field
get_json answer rows.8.scaled rows.8.predicted | awk '{ v[NR] = $1 } END { r = v[1] / v[2]; print (r > 0.6 && r < 1.4) ? "near" : r }'
esscher ball --law sphere --dim 3 --radii 1,4 --n 100,200 --replicates 3 --json --quiet >answer
get_json answer rows.0.predicted rows.0.predicted_line growth.0.reason growth.0.slope_sharp
esscher ball --n 500 --radii .5,1 --replicates 2 --quiet | head -1
make_npy A.npy f64 3x3 normal 1 && make_npy V.npy f32 2x3 normal 2 && make_npy W.npy f32 2x3 normal 3
esscher ball --A A.npy --Wv V.npy --n 100 --radii 0.5 --replicates 2 --json --quiet >answer && get_json answer dim
esscher ball --Wq W.npy --Wk V.npy --n 100 --radii 0.5 --replicates 1 --csv --quiet | wc -l
esscher ball --dry-run --csv | head -1
