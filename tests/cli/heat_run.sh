# SPDX-License-Identifier: Apache-2.0
# heat: killed after some cells, twice, and resumed, it gives the table of a run left alone (FS01).
set -- heat --csv --quiet --n 4000 --query-count 16 --replicates 128 --beta 10,100
kill_twice "$@" || exit 1
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher export part.run --table rows --csv | head -1 | cut -d, -f1-3
esscher export part.run --json >all.json && get_json all.json stages.0.cells
# particles are a cell too: once there, they are not moved again
set -- heat --csv --quiet --n 500 --replicates 4 --beta 10 --particles 200 --steps 3
esscher "$@" --out moved.run >moved && esscher "$@" --out moved.run --resume | cmp - moved && echo same
esscher export moved.run --json >all.json && get_json all.json stages.1.name stages.1.cells
