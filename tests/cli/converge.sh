# converge: rows and fits for every scale; the same bytes for any number of threads; closed-form limits.
esscher converge --law gaussian --dim 4 --n 100..800*4 --replicates 12 --scales 0.5,2 --seed 3 --quiet --threads 1 --csv >one
esscher converge --law gaussian --dim 4 --n 100..800*4 --replicates 12 --scales 0.5,2 --seed 3 --quiet --threads 3 --csv >three
cmp one three && echo same
wc -l <one
head -1 one
esscher converge --law sphere --dim 3 --n 100,200,400 --replicates 6 --queries population --json --quiet >answer
get_json answer command fits.0.predicted.exponent_mean rows.2.n
esscher converge --law rademacher --dim 2 --n 100,200,400 --replicates 4 --quiet | grep -c reference
esscher converge --n 100,200 --replicates 1 --json --quiet >answer
get_json answer fits.0.rate_mean_reason
get_json answer rows.0.mean_error | awk '{ print ($1 > 0.01 && $1 < 2) ? "an error" : $1 }'
esscher converge --preset paper --dry-run | grep operations:
