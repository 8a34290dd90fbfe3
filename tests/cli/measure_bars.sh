# SPDX-License-Identifier: Apache-2.0
# Error bars from blocks of keys: with blocks of one key nearly those of independent keys; files have six columns more.
make_npy q.npy f32 2x30x6 normal 1 && make_npy k.npy f32 2x900x6 normal 2
esscher measure --q q.npy --k k.npy --v k.npy --scale 0.2 --error-bar 1 --per-query one.csv --json --quiet >one.json
head -1 one.csv | cut -d, -f9-
awk -F, 'NR > 1 && ($12 > 1.02 || $12 < 0.98 || $15 != 1) {print "design effect", $12, "valid", $15}' one.csv
for threads in 1 2; do
    esscher measure --q q.npy --k k.npy --v k.npy --error-bar 32 --prefixes 70,500,900 --threads $threads \
        --per-query s$threads.csv --json --quiet >t$threads.json
done
cmp s1.csv s2.csv && echo same
grep -c '"error_bar_valid": 0.0' t1.json # 70 keys are two blocks and a bit, in both heads
esscher measure --q q.npy --k k.npy --v k.npy --error-bar 32 --per-query s.npy --quiet |
    grep -A3 '^Error bars' | sed 's/  */ /g' | cut -d' ' -f1-6 | head -2
head -c 128 s.npy | tr -dc 'a-z<0-9(), ' | grep -o '([0-9, ]*)'
esscher measure --q q.npy --k k.npy --v k.npy --error-bar 48
echo "rc=$?"
