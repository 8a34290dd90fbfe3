# SPDX-License-Identifier: Apache-2.0
# hardmax: killed twice and resumed, it gives the table of a run left alone (FS01); so do several dimensions.
set -- hardmax --queries self --n 10..1e15*40 --replicates 8000 --csv --quiet
kill_twice "$@" || exit 1
esscher export part.run --json >part.json && cells=$(get_json part.json stages.0.cells)
[ "$cells" -gt 0 ] && [ "$cells" -lt 40 ] && echo interrupted
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher "$@" --out part.run --resume >again && cmp alone again && echo same
esscher "$@" --out part.run >/dev/null 2>&1
echo "rc=$?"
run() { esscher hardmax --csv --quiet "$@"; }
run --n 10,100 --out whole.run >/dev/null
for other in '--replicates 7' '--sigma 2' '--seed 3' '--queries self' '--n 10,200'; do
    # shellcheck disable=SC2086  # two words
    case $other in --n*) set -- ;; *) set -- --n 10,100 ;; esac
    # shellcheck disable=SC2086
    run "$@" --out whole.run --resume $other >/dev/null 2>&1
    echo "rc=$?"
done
esscher export part.run --csv
several() { run --dim 2 --n 10,100,1000 --replicates 8 "$@"; }
several >alone && several --out two.run >whole && several --out two.run --resume >again
cmp alone whole && cmp alone again && echo same
esscher export two.run --json >two.json && get_json two.json stages.0.name stages.0.cells
several --out two.run --resume --directions 8 >/dev/null
echo "rc=$?"
