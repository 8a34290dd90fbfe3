#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# calibration.sh: counts how often printed errors are right over 400 seeds (or --trials N) and writes docs/data/CALIBRATION.md.
# Continues an interrupted run; options go to "esscher selfcheck".
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

need_to_build
install_missing
build release
seeds=400 before=
for option; do
    [ "$before" != --trials ] || seeds=$option
    before=$option
done
run=build/selfcheck.run
resume=
[ ! -e $run ] || resume=--resume
# Exit code 1 means that a check failed; the table shows it.
build/release/esscher selfcheck --effort full --out $run $resume "$@" >/dev/null || [ $? -eq 1 ]
{
    cat <<END
# How far the errors can be trusted

Written by \`./do calibration\`: $(build/release/esscher --version | head -1), \`esscher selfcheck --effort full\`. Every row is
a number that the program prints, computed with $seeds seeds in a case where the truth is known. A 95 % interval should contain the
truth in 95 of 100 cases, a p-value should be below .05 in five of 100 if its hypothesis is true, and a verdict should be wrong at
most as often. The truth is exact (a closed form, an integral, a constructed input), except for rates of heads, of the supremum
over a ball, and for \`collapse\`: there it is the mean over all seeds with the most replicates, so a bias of few replicates counts.

*Rates*: the jackknife over replicates with Student's t (THEORY 4.7), on nested sizes; the number in a setting's name is the number
of replicates. \`converge\`: a Gaussian law, d = 6. \`mean\`: a score scale of 0, where the power law is exact, so its p-value can be
checked; all outputs are equal there, so the rows of mean and map have the same numbers. \`probe\` (only with --model): heads of the
middle layer of MiniLM-L6 (SST-2) on 8192 tokens of a novel, 4 to 32 draws; \`control\`: Gaussian tokens of the same covariance.
*Errors of means* (hardmax, regimes, sink, heat, collapse): intervals by Student's t over replicates. *Error bars* (\`bars\`): single
outputs from one context, by channel; along the query, where errors are skew, they cover less (THEORY 9 (E3)).

The table marks results that are *off*. Measured with 0.1.0 and not repeated here: from 4 and 8 draws, intervals of map rates of
real heads contain the truth in 90 to 91 of 100 cases, and those of mean rates in 93; 32 draws give 95. Use \`--replicates 32\` if
you rely on a rate of a real head.

Not in the table: claims that take longer than those here (their level is also 0.2 %); whether domains of real text differ, for
which there are two null comparisons (docs/MODELS.md: 0 of 72 heads each); predictions of budget on a decoder, for which
docs/CACHE-RESULTS.md counts 160 plans of prompt mode, 160 of ideal mode, 40 of decode mode and 9 without eviction; intervals of
design effects and effective tokens (\`tests/stats/test_moments.c\` counts those of ratios), of rates of windows, of ratios between
domains, of tail indices; the errors of exact curves from queries and halves of a pool, which are too small for other text
(docs/TRUST.md); forecasts of probe, which \`selfcheck --only forecast --model MODEL --text TEXT\` counts: docs/CONTEXT.md has the coverage
of two models.

END
    build/release/esscher selfcheck --effort full --out $run --resume --quiet --markdown "$@" || [ $? -eq 1 ]
    printf '\n## Losses of a decoder\n\nmodels/pebble on its novel: blocks drawn from the text, compared with all blocks.\n\n'
    build/release/esscher selfcheck --effort full --only loss --model models/pebble --text models/pebble/alice.txt --quiet \
        --markdown "$@" || [ $? -eq 1 ]
} >build/calibration.md
mv build/calibration.md docs/data/CALIBRATION.md
