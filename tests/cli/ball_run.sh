# SPDX-License-Identifier: Apache-2.0
# ball: killed after some replicates, twice, and resumed, it gives the table of a run left alone (FS01).
set -- ball --dim 3 --n 200..800*3 --radii 0.5,1,1.5 --replicates 100 --csv --quiet
kill_twice "$@" || exit 1
esscher export part.run --json >part.json && cells=$(get_json part.json stages.0.cells)
[ "$cells" -gt 0 ] && [ "$cells" -lt 100 ] && echo interrupted
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher export part.run --table growth --csv | wc -l
esscher export part.run --csv
esscher "$@" --out part.run --resume --starts 9 >/dev/null
echo "rc=$?"
