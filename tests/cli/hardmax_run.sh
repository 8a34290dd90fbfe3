# hardmax: a run killed twice and resumed gives the table of one that was left alone (FS01); so do several dimensions.
run() { exec esscher hardmax --queries self --n 10..1e15*8 --replicates 20000 --csv --quiet "$@"; }
(run >alone)
kill_twice hardmax --queries self --n 10..1e15*8 --replicates 20000 --csv --quiet || exit 1
(run --out whole.run --resume >whole)
cmp alone whole && echo same
(run --out part.run --threads 2 --resume >part)
cmp whole part && echo same
(run --out part.run --resume >again) && cmp whole again && echo same
(run --out whole.run >/dev/null 2>&1)
echo "rc=$?"
for other in '--replicates 7' '--sigma 2' '--seed 3' '--queries population' '--n 10,100'; do
    # shellcheck disable=SC2086  # two words
    (run --out whole.run --resume $other >/dev/null 2>&1)
    echo "rc=$?"
done
esscher export whole.run --csv
several() { esscher hardmax --dim 2 --n 10,100,1000 --replicates 1 --csv --quiet "$@"; }
several >alone && several --out two.run >whole && several --out two.run --resume >again
cmp alone whole && cmp alone again && echo same
several --out two.run --resume --directions 8 >/dev/null
echo "rc=$?"
