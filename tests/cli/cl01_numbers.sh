# SPDX-License-Identifier: Apache-2.0
# CL01: numbers are read strictly, in the C locale whatever the environment says.
LC_ALL=de_DE.UTF-8
export LC_ALL
for n in 0 -5 1e30 nan inf 0x10 '' 4096x 0.5 1025; do
    esscher bench --n "$n" --repetitions 1 --d 8 --threads "$n"
    echo "rc=$?"
done
for x in nan inf 0x1p3 1,5 -1 1e999; do
    esscher measure --scale "$x"
    echo "rc=$?"
done
esscher bench --seed -1; echo "rc=$?"
esscher bench --max-memory lots; echo "rc=$?"
esscher info --threads 0; echo "rc=$?"
esscher measure --precision f16; echo "rc=$?"
# Whole numbers are exact up to 2^63 - 1 in every notation; help promises 1e18 here.
esscher hardmax --n 9e15,1e17,1e18 --replicates 3 --csv --quiet | cut -d, -f1
esscher hardmax --n 1e18 --replicates 10000e-3 --json --quiet >whole.json && get_json whole.json replicates rows.0.n
esscher hardmax --n 9007199254740993; echo "rc=$?"
esscher hardmax --n 1e19; echo "rc=$?"
esscher hardmax --replicates 1.2345e3 --n 1.5; echo "rc=$?"
