# SPDX-License-Identifier: Apache-2.0
# A run of regimes that was killed and resumed gives the table of one that was left alone (FS01); another law is another run.
set -- regimes --dim 3,4 --n 1e5,1e6,1e7 --b 0.5,1 --replicates 1000 --csv --quiet
kill_twice "$@" || exit 1
esscher "$@" --out part.run --resume --threads 2 >part
cmp alone part && echo same
esscher export part.run --table rows --csv | wc -l
esscher export part.run --json >part.json && get_json part.json stages.0.name stages.0.cells stages.0.columns.0
for other in '--seed 3' '--nearest 512' '--key-law planted'; do
    # shellcheck disable=SC2086  # two words
    esscher "$@" --out part.run --resume $other >/dev/null 2>&1
    echo "rc=$?"
done
