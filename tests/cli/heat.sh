# SPDX-License-Identifier: Apache-2.0
# heat: drift of infinitely many keys and of n, particles, threads, a run file, and what is refused.
esscher heat --n 5000 --query-count 8 --replicates 4 --beta 10,100,1000 --json --quiet >a.json || exit 1
get_json a.json command dim keys kappa n replicates
for row in 0 1 2; do
    for key in slope slope_se slope_finite slope_exact error radial radial_se radial_finite radial_exact radial_leading noise ess; do
        get_json a.json rows.$row.$key >value && grep -q '[0-9]' value || echo "rows.$row.$key: $(cat value)"
    done
done
get_json a.json rows.0.rate rows.2.radial_leading
get_json a.json rows.2.rate rows.2.slope_exact | awk '{ printf "%.2f\n", $1 }'
# The same rate on S^2 and S^7, and a uniform density has no drift.
for dim in 3 8; do
    esscher heat --dim $dim --replicates 0 --beta 1e3,1e4 --json --quiet >b.json && get_json b.json rows.1.rate |
        awk '{ printf "%.2f\n", $1 }'
done
esscher heat --key-law uniform --replicates 0 --beta 10 --json --quiet >u.json && get_json u.json rows.0.slope_exact rows.0.error
# Particles: the mean grows as heat says for a while; the density sharpens.
esscher heat --particles 400 --steps 4 --bins 12 --replicates 0 --json --quiet >p.json || exit 1
get_json p.json steps.0.step steps.4.step steps.4.time shown particle_sets
get_json p.json steps.0.clusters steps.4.clusters steps.4.clusters_se steps.4.largest | awk '{ print ($1 > 0) }'
# A uniform density breaks into waves; one set has no standard error.
esscher heat --particles 50 --steps 1 --bins 2 --particle-sets 1 --key-law uniform --replicates 0 --beta 10 --json --quiet >w.json
get_json w.json fastest_degree steps.0.clusters_se standing.steps
esscher heat --particles 400 --steps 4 --bins 12 --replicates 0 --csv --quiet | awk -F, 'NR > 1 { sum[$1] += $4 } END { printf "%.6f %.6f %d\n", sum[0] / 12, sum[4] / 12, NR - 1 }'
# Sentences first: the slope against 1, then what the particles did; the CSV of a plain run has every column once.
esscher heat --particles 200 --steps 2 --replicates 0 --beta 10 --quiet | head -4
esscher heat --n 5000 --replicates 4 --beta 10,100 --quiet | head -2
esscher heat --n 500 --replicates 2 --beta 10 --csv --quiet | head -1
for threads in 1 2 3; do
    esscher heat --seed 3 --n 2000 --replicates 20 --beta 10,50 --csv --quiet --threads $threads >c_$threads
done
cmp c_1 c_2 && cmp c_1 c_3 && echo same
esscher heat --seed 4 --n 2000 --replicates 20 --beta 10,50 --csv --quiet >other
cmp -s c_1 other || echo differ
esscher heat --seed 3 --n 2000 --replicates 20 --beta 10,50 --csv --quiet --out r.run | cmp - c_1 && echo kept
esscher heat --seed 3 --n 2000 --replicates 20 --beta 10,50 --csv --quiet --out r.run --resume | cmp - c_1 && echo resumed
make_npy M.npy f64 3x2 normal 4
esscher heat --modes M.npy --replicates 0 --beta 100 --json --quiet >m.json && get_json m.json rows.0.slope_exact | cut -c1-3
try() {
    esscher heat "$@" 2>&1
    echo "rc=$?"
}
try --dim 1
try --beta 0
try --n 1
try --particles 5 --cluster-angle 4
try --key-law vmf --modes M.npy --quiet
try --dim 3 --modes M.npy --quiet
try --key-law gauss
try --keys vmf
make_npy zero.npy f64 2x2 constant 0
try --modes zero.npy --quiet
try --n 1e7 --dim 64 --max-memory 1M --quiet
