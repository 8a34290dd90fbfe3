# heat: killed after some cells, twice, and resumed, it gives the table of a run left alone (FS01).
set -- heat --csv --quiet --n 8000 --queries 16 --replicates 128 --beta 10,100
esscher "$@" >alone
kill_twice "$@" || exit 1
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher export part.run --table rows --csv | head -1 | cut -d, -f1-3
esscher export part.run --json >all.json && get_json all.json stages.0.cells
