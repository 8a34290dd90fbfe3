# SPDX-License-Identifier: Apache-2.0
# collapse: killed after some cells, twice, and resumed, it gives the table of a run left alone (FS01).
set -- collapse --csv --quiet --n 200,250,300 --rho 0.2,0.4,0.6 --replicates 8
kill_twice "$@" || exit 1
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher export part.run --table rows --csv | head -1 | cut -d, -f1-3
esscher export part.run --json >all.json && get_json all.json stages.0.cells
