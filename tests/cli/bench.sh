# SPDX-License-Identifier: Apache-2.0
# A tiny bench runs through every part of it. (A build without OpenMP leaves the second row out.)
esscher bench --n 256 --d 8 --repetitions 1 --threads 1 --quick --json >answer.json || exit 1
grep -c '"percent_of_peak":' answer.json
grep -c '"ratio":' answer.json
get_json answer.json decoding.0.m decoding.2.m decoding.0.n decoding.0.precision
awk -F: '/"percent_of_memory":/ { n += $2 + 0 > 0 } END { print n }' answer.json
grep -E '"(seed|peak_gflops|normals_per_second)":' answer.json | tail -2
mkdir model && make_model model
esscher bench --model model --repetitions 1 --threads 1 --json --quiet >model.json && get_json model.json model.0.n model.0.blocks
esscher bench --n 256 --d 8 --repetitions 2 --threads 1,2 --quick --seed 7
# one's own kernel: 4 n^2 d operations in 2 ms are 1.048576 GF/s; it needs one dimension
esscher bench --n 256 --d 8 --repetitions 1 --threads 1 --quick --compare-time 2e-3 --json --quiet >own.json
get_json own.json yours.0.seconds yours.0.gflops yours.1.precision
awk -F: '/"times_ours":/ { n += $2 + 0 > 0 } END { print n }' own.json
esscher bench --n 256 --d 8,16 --compare-time 1; echo "rc=$?"
