# SPDX-License-Identifier: Apache-2.0
# sparse: golden values from the command line, the members that programs rely on, the same bytes for any threads.
golden=$(dirname "$0")/../golden/sparse
ask() { esscher sparse --q "$golden/q.npy" --k "$golden/k.npy" --v "$golden/v.npy" --scale 0.35 --json --quiet "$@"; }
# value KEY : a number of expected.json, by its path
value() { get_json "$golden/expected.json" "$@"; }
near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a / b - 1; print (d < t && d > -t) ? "near" : a " is not " b }'; }

# the queries stand where the file says, or, here, where a file of counts from 0 on says
make_npy p.npy f64 1x20 index
ask --positions p.npy --policy top --keys 8,32,96 --per-query >top
get_json top command rows.0.policy rows.0.keys rows.2.keys rows.0.correction rows.0.mse_se rows.0.queries.19.query
near "$(get_json top rows.0.queries.3.mse_exact)" "$(value full.3.top_8)" 1e-6
near "$(get_json top rows.2.queries.19.mse_exact)" "$(value full.19.top_96)" 1e-6
near "$(get_json top rows.1.queries.0.mse)" "$(value full.0.top_32)" 1e-6
# nothing sure: no positions are needed
ask --policy random --random 8 --with-replacement --per-query >random
near "$(get_json random rows.0.queries.0.mse_exact)" "$(value exact.0.with_replacement)" 1e-6
get_json random rows.0.keys rows.0.mass rows.0.mse_limit rows.0.relative_error >/dev/null && echo members
get_json random rows.0.mse rows.0.mse_exact rows.0.mse_se | awk '{ v[NR] = $1 } END { z = (v[1] - v[2]) / v[3]; print (z < 4 && z > -4) ? "within" : z }'
# several words of one policy, and parts for those that have them
ask --policy top-random,bigbird,bigbird+inverse --positions p.npy --keys 32 --simulations 8 >words
get_json words rows.0.policy rows.1.correction rows.2.correction rows.2.asked heads.0.keys
# the same bytes for any number of threads
esscher sparse --q "$golden/q.npy" --k "$golden/k.npy" --v "$golden/v.npy" --csv --quiet --simulations 4 --policy random,heavy --keys 16 --threads 1 >one
esscher sparse --q "$golden/q.npy" --k "$golden/k.npy" --v "$golden/v.npy" --csv --quiet --simulations 4 --policy random,heavy --keys 16 --threads 3 >three
cmp one three && echo same
