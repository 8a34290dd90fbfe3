# SPDX-License-Identifier: Apache-2.0
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
# The papers' presets; the sphere's scales are s^2 d for the s = 10..1e5 of the public code.
esscher converge --preset paper --n 50,100 --dry-run | grep -E 'operations:|time:'
esscher converge --preset paper --law sphere --dim 3 --n 50,100,200 --replicates 2 --json --quiet >answer
get_json answer rows.0.scale rows.35.scale head queries reference independent provenance.precision
esscher converge --law sphere --dim 3 --n 50,100 --scales 1e9,1e10 --replicates 1 --precision f32 --quiet >/dev/null 2>&1
echo "rc=$?"
# Sizes of their own: the same table for any number of threads, not the table of nested sizes.
esscher converge --dim 2 --n 50..400*4 --replicates 6 --quiet --csv >nested
esscher converge --dim 2 --n 50..400*4 --replicates 6 --quiet --csv --independent --threads 1 >apart
esscher converge --dim 2 --n 50..400*4 --replicates 6 --quiet --csv --independent --threads 2 >again
cmp apart again && ! cmp -s apart nested && echo same
