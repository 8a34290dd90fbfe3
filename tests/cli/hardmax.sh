# SPDX-License-Identifier: Apache-2.0
# hardmax: exact values in full, the same bytes for any number of threads, several dimensions.
esscher hardmax --n 10,1e6,1e15 --json --quiet >a.json || exit 1
get_json a.json command seed dim sigma queries replicates directions rows.0.n rows.2.n rows.0.exact || exit 1
for row in 0 1 2; do
    for key in mean_abs mean_abs_se rms rms_se exact asymptotic second_order z; do
        get_json a.json rows.$row.$key >value && grep -q '[0-9]' value || echo "rows.$row.$key: $(cat value)"
    done
done
esscher hardmax --csv --quiet | cut -d, -f1
for threads in 1 2 3; do
    esscher hardmax --seed 7 --replicates 700 --csv --quiet --threads $threads >d1_$threads
    esscher hardmax --queries self --n 1,64,65,1e9 --csv --quiet --threads $threads --replicates 700 >self_$threads
    esscher hardmax --dim 3 --n 10,300 --replicates 20 --csv --quiet --threads $threads >d3_$threads
done
cmp d1_1 d1_2 && cmp d1_1 d1_3 && cmp self_1 self_3 && cmp d3_1 d3_2 && cmp d3_1 d3_3 && echo same
esscher hardmax --seed 8 --replicates 700 --csv --quiet >other
cmp -s d1_1 other || echo differ
esscher hardmax --dim 2 --n 100 --replicates 20 --json --quiet >d2.json || exit 1
get_json d2.json dim directions rows.0.exact rows.0.z rows.0.second_order
get_json d2.json rows.0.asymptotic | cut -c1-6
# One sample has no standard error; one token has no logarithm.
esscher hardmax --n 1 --replicates 1 --json --quiet >one.json && get_json one.json rows.0.mean_abs_se rows.0.z rows.0.asymptotic
esscher hardmax --n 1e3 --replicates 100 --quiet | head -6
