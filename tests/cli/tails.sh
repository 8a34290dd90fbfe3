# SPDX-License-Identifier: Apache-2.0
# tails: tokens of a file and layers of a model; the same bytes for any number of threads; run files.
make_npy X.npy f64 600x4 normal 1
ask() { esscher tails --tokens X.npy --random 2 --control 8 --seed 3 --quiet "$@"; }
ask --threads 1 --csv >one
ask --threads 3 --csv >three
cmp one three && echo same
wc -l <one
head -1 one
ask --json >answer
get_json answer command rows.0.kind rows.0.n rows.0.hill_k rows.6.kind kinds.2.kind verdicts.0 verdicts.1.directions verdicts.2.directions
ask | grep -A4 '^Is it'
# a ramp is light, but neighbours are so alike that one cannot tell
make_npy ramp.npy f64 600x1 index
esscher tails --tokens ramp.npy --control 8 --quiet --json >answer && get_json answer rows.0.verdict rows.0.proxy

mkdir model && make_model model
awk 'BEGIN { for (i = 0; i < 700; i++) printf "%s ", i % 5 ? "word" (15 + i * i % 16) : "the cat" }' >text
of_model() { esscher tails --model model --text text --principal 2 --random 2 --query-count 1 --control 4 --quiet "$@"; }
of_model --csv >whole
wc -l <whole
cut -d, -f1,2 whole | sort | uniq -c | awk '{ print $1, $2 }'
of_model --out tails.run --csv | cmp - whole && of_model --out tails.run --resume --csv | cmp - whole && echo again
esscher export tails.run --table kinds --csv | wc -l
of_model --dry-run --csv | head -1
esscher tails --model model --domain a=text --domain b=text --principal 1 --random 1 --query-count 1 --control 4 --quiet --json >answer
get_json answer rows.0.domain rows.27.domain rows.27.layer pools.1.domain
# less memory, more walks, the same bytes: 25 directions in groups of 32, of 16 and of 8
make_npy Y.npy f64 3000x16 normal 2
groups() { esscher tails --tokens Y.npy --principal 12 --random 12 --control 4 --quiet --threads 1 "$@"; }
groups --csv >all && groups --dry-run --json >cost.json
all=$(get_json cost.json cost.memory_bytes | cut -d. -f1)
panel=$((64 * 3000))
for limit in $((all - 2 * panel)) $((all - 3 * panel)); do
    groups --csv --max-memory "$limit" | cmp - all && echo same
done
groups --max-memory $((all - 4 * panel)) 2>&1 | cut -d. -f1
