# SPDX-License-Identifier: Apache-2.0
# collapse: closed form in full, the random model beside it, the same bytes for any number of threads, a run file.
esscher collapse --n 1000 --rho 0.3 --times 0.5,1,2 --replicates 4 --json --quiet >a.json || exit 1
get_json a.json command dim replicates rows.0.n rows.0.phase rows.1.phase rows.2.phase rows.1.self_weight
for row in 0 1 2; do
    for key in angle_ratio angle_ratio_realised angle_ratio_measured angle_ratio_measured_se self_weight_dim \
        self_weight_measured ess ess_measured gradient gradient_measured gradient_measured_se cosine_measured; do
        get_json a.json rows.$row.$key >value && grep -q '[0-9]' value || echo "rows.$row.$key: $(cat value)"
    done
done
get_json a.json thresholds.0.gamma_c | cut -c1-9
# Closed form: any n, two rho; the limit 4 rho/(1 + 3 rho) at gamma_c.
esscher collapse --n 1e3,1e15 --rho 0.3,0.7 --times 1 --replicates 0 --csv --quiet | cut -d, -f1-4,6
esscher collapse --n 1e15 --rho 0.5 --times 1 --replicates 0 --json --quiet >limit.json && get_json limit.json rows.0.cosine
# Where a token of few dimensions never sees itself alone.
esscher collapse --dim 8 --replicates 0 --json --quiet >low.json && get_json low.json thresholds.0.gamma_c_dim thresholds.0.note
# The phase diagram: a matrix for people, one row for each point for programs.
esscher collapse --phase --n 1e6 --gamma 1,2,4 --rho 0,0.5 --quiet | head -9
esscher collapse --phase --n 1e6 --gamma 1,2,4 --rho 0,0.5 --csv --quiet | wc -l | tr -d ' '
# Scalings in use: log n scaling keeps gamma, plain scores lose it.
esscher collapse --curves --rho 0.5 --train 4096 --train-gamma 3 --contexts 4096,16777216 --replicates 0 --json --quiet >c.json
get_json c.json curves.0.gamma_plain curves.1.gamma_plain curves.1.gamma_logn
get_json c.json curves.1.gamma_yarn | cut -c1-7
esscher collapse --curves --rho 0.5 --train 4096 --train-gamma 3 --contexts 4096,16777216 --replicates 0 --quiet | sed -n 2p
# What was measured: where the random model's own weight passes a half.
esscher collapse --n 1000 --rho 0.3 --replicates 16 --quiet | sed -n 2p
for threads in 1 2 3; do
    esscher collapse --seed 3 --n 100,200 --replicates 5 --csv --quiet --threads $threads >t_$threads
done
cmp t_1 t_2 && cmp t_1 t_3 && echo same
esscher collapse --seed 4 --n 100,200 --replicates 5 --csv --quiet >other
cmp -s t_1 other || echo differ
# A run file: resumed it is the same; with other parameters it is refused.
esscher collapse --seed 3 --n 100,200 --replicates 5 --csv --quiet --out r.run | cmp - t_1 && echo kept
esscher collapse --seed 3 --n 100,200 --replicates 5 --csv --quiet --out r.run --resume | cmp - t_1 && echo resumed
esscher collapse --seed 3 --n 100,200 --replicates 6 --csv --quiet --out r.run --resume 2>/dev/null
echo "rc=$?"
esscher export r.run --table rows --csv --quiet | wc -l | tr -d ' '
# eta of n = d = 60 at the critical scale: 0.301 exactly, 0.258 for d to infinity (THEORY 7); with d < n there are no such tokens.
esscher collapse --n 60 --dim 60 --times 1 --replicates 0 --json --quiet >d.json && get_json d.json rows.0.gradient_exact rows.0.gradient |
    awk '{ printf "%.3f\n", $1 }'
esscher collapse --n 60 --dim 59 --times 1 --replicates 0 --json --quiet >d.json && get_json d.json rows.0.gradient_exact
# fewer than 10 tokens share the weight from 1/n on: nothing is said of where they merge
esscher collapse --n 4,10 --rho 0.5 --replicates 0 --quiet | grep '^At n ='
# The window from p = 0.1 to 0.9 is 2 ln 9/ln n of gamma_c wide; the random model agrees but for kappa ln n/d, 1 %, twice.
esscher collapse --n 1000 --rho 0.5 --times 0.9,1.1 --dim 1024 --query-count 16 --replicates 4 --realised-rho --json --quiet >w.json
get_json w.json thresholds.0.window | cut -c1-6
get_json w.json thresholds.0.window_measured thresholds.0.window_measured_se thresholds.0.window | tr '\n' ' ' |
    awk '{ print ($1 - $3) ^ 2 < (0.02 * $3 + 4 * $2) ^ 2 && $2 < 0.01 ? "width agrees" : "width differs: " $0 }'
