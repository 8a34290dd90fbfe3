# SPDX-License-Identifier: Apache-2.0
# Attention over drawn keys, exactly. Equal scores: the mean of n values misses theirs by spread/sqrt(n), and nothing is biased.
make_npy S.npy f64 50 constant 3 && make_npy V.npy f64 50x3 normal 7 && make_npy Q.npy f32 4x6000 normal 1 &&
    make_npy W.npy f32 6000x2 normal 2
esscher theory --scores S.npy --values V.npy --n 1,100 --below 0.05 --json --quiet >a.json || exit 1
for x in $(get_json a.json draws.0.relative draws.1.relative draws.1.rate draws.1.large_n_ratio weights.ess weights.tokens_below draws.1.empty); do
    printf '%.6f\n' "$x"
done
esscher theory --weights S.npy --values V.npy --n 1,100 --below 0.05 --json --quiet >b.json || exit 1
printf '%.6f\n' "$(get_json b.json draws.1.relative)"
# many keys, several queries: the same bits for any threads; tables for people
esscher theory --scores Q.npy --values W.npy --threads 1 --csv >one && esscher theory --scores Q.npy --values W.npy --threads 3 --csv >three &&
    cmp one three && wc -l <one
esscher theory --scores Q.npy --values W.npy --n 10,100 | grep -E '^[A-Z]' | sed 's/[0-9.e+-]\{3,\}/NUMBER/g'
# what does not fit
esscher theory --scores S.npy 2>&1 | head -1
esscher theory --scores S.npy --weights S.npy --values V.npy 2>&1 | head -1
esscher theory --scores S.npy --values W.npy 2>&1 | head -1
esscher theory --scores S.npy --values V.npy --dim 3 --A V.npy 2>&1 | head -1
esscher theory --weights Q.npy --values W.npy 2>&1 | head -1 | sed 's/-[0-9.]*/NEGATIVE/'
# 50 equal weights: errors are spread/sqrt(n), below 0.0142 of it from 4959 on and below 0.0141 from 5030 on, more than 100 times the keys; below 2 for any n
for below in 0.0142 0.0141 2; do
    esscher theory --scores S.npy --values V.npy --below $below --quiet | grep -o -e "spread f.* on (" -e "spread for any n" -e '^Caution.*'
done
