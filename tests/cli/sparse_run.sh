# SPDX-License-Identifier: Apache-2.0
# sparse: killed after some groups of queries, twice, and resumed, it gives the table of a run left alone (FS01).
make_npy q.npy f32 4x60x8 normal 1 && make_npy k.npy f32 4x60x8 normal 2 && make_npy v.npy f32 4x60x8 normal 3
set -- sparse --q q.npy --k k.npy --v v.npy --policy random,bigbird+inverse,observe --keys 8,20 --simulations 32 --csv --quiet
kill_twice "$@" || exit 1
esscher export part.run --json >part.json && cells=$(get_json part.json stages.0.cells)
[ "$cells" -gt 0 ] && [ "$cells" -lt 20 ] && echo interrupted
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher export part.run --table rows --csv | wc -l
esscher "$@" --out part.run --resume --seed 3 >/dev/null
echo "rc=$?"
# a model's text, contexts of several blocks; the run is known by its contents
mkdir m && make_model m && { for i in 1 2 3 4 5 6 7 8 9; do echo "word7 word8 word9 word10 word11 word12 word13 word14 word15 word16 word17"; done; } >text
esscher sparse --model m --text text --context 60 --contexts 1 --query-count 4 --keys 8 --policy top --json --quiet >answer
get_json answer source context contexts queries rows.8.layer rows.8.head
esscher sparse --preset paper --contexts 1 --query-count 4 --replicates 2 --json --quiet >answer
get_json answer source context paper_rates.0.scheme paper_rows.11.half_width paper_rows.11.keys paper_rows.12.scheme
esscher sparse --preset paper --dry-run --csv | head -1
