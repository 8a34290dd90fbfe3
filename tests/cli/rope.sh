# SPDX-License-Identifier: Apache-2.0
# rope: the curve of the paper, its reach, interpolation, and what is refused.
esscher rope --distance 1,100,4096 --json >a.json || exit 1
get_json a.json command dim embeddings.0.base labels
get_json a.json rows.0.score rows.2.score rows.4.score rows.5.score | cut -c1-10
get_json a.json rows.4.continuum | cut -c1-10
get_json a.json embeddings.0.reach embeddings.1.reach | awk '{ printf "%.0f\n", $1 }'
get_json a.json embeddings.0.first_negative
esscher rope --base 10000 --scale 1,8 --distance 100,800 --csv | awk -F, 'NR > 1 { printf "%s %s %s %.6f\n", $1, $2, $3, $4 }'
esscher rope --base 10000 --scale 1,8 --distance 0,1 | tail -5
esscher rope --base 10000 --scale 1,8 --distance 0,1 --search 1 | head -2
esscher rope --search 10 --json >b.json && get_json b.json embeddings.0.first_negative
# A run file has every table, and is the same when it is resumed.
esscher rope --distance 1,100 --out r.run >/dev/null && esscher rope --distance 1,100 --out r.run --resume >/dev/null
for table in embeddings scores rows; do
    esscher export r.run --table $table --csv | wc -l
done
try() {
    esscher rope "$@" 2>&1
    echo "rc=$?"
}
try --dim 3
try --base 1
try --scale 0.5
try --distance 1e9
