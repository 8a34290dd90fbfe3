# SPDX-License-Identifier: Apache-2.0
# Every command answers with one strict JSON object that says where it comes from.
make_npy q.npy f32 2x5x3 normal 1 && make_npy k.npy f64 2x20x3 normal 2
esscher info --json >info.json && get_json info.json schema command seed provenance.argv || exit 1
esscher bench --n 128 --d 8 --repetitions 1 --threads 1 --seed 42 --json --quiet >bench.json || exit 1
get_json bench.json command seed rows.0.precision rows.0.d rows.0.m rows.0.n rows.0.threads \
    rows.0.repeats provenance.argv costs.0.what || exit 1
for key in gflops percent_of_peak percent_of_peak_spread relative_error; do
    get_json bench.json rows.0.$key >/dev/null || exit 1
done
esscher measure --q q.npy --k k.npy --v k.npy --prefixes 5,20 --scales 0.5,1,2 --json --quiet >m.json || exit 1
get_json m.json command seed provenance.precision provenance.inputs shape || exit 1
get_json m.json rows.0.head rows.1.n rows.2.scale rows.11.head rows.11.n rows.11.scale || exit 1
get_json m.json rows.12
esscher measure --q q.npy --k k.npy --v k.npy --dry-run --json >dry.json && get_json dry.json cost.input_bytes
