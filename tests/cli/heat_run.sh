# heat: killed after some cells, twice, and resumed, it gives the table of a run left alone (FS01).
run() { exec esscher heat --csv --quiet "$@"; }
cells() { esscher export part.run --json >cells.json 2>/dev/null && get_json cells.json stages.0.cells || echo 0; }
asked='--n 8000 --queries 16 --replicates 128 --beta 10,100'
# shellcheck disable=SC2086  # words
(run $asked >alone)
for time in first second; do
    if [ -e part.run ]; then set -- --resume; else set --; fi
    before=$(cells)
    # shellcheck disable=SC2086
    (run $asked --out part.run --threads 1 "$@" >/dev/null 2>&1) &
    # as soon as a cell more is on disk, which takes a second: cells share transactions
    while kill -0 $! 2>/dev/null && [ "$(cells)" -le "$before" ]; do sleep 0.05; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    echo "the $time time: $(cells) of 8 cells" >&2
done
# shellcheck disable=SC2086
(run $asked --out part.run --resume --threads 2 >part)
cmp alone part && echo same
# shellcheck disable=SC2086
(run $asked --out part.run --resume >again) && cmp alone again && echo same
esscher export part.run --table rows --csv | head -1 | cut -d, -f1-3
esscher export part.run --json >all.json && get_json all.json stages.0.cells
