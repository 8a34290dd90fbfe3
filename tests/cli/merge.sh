# SPDX-License-Identifier: Apache-2.0
# merge: what it prints is what the command would have printed; gaps, inputs that are gone, and everything it refuses.
export OMP_NUM_THREADS=1
run() { esscher converge --dim 2 --n '50..200*3' --replicates 7 --scales 1 --quiet "$@"; }
shard() { run --shard "$1/3" --out "part-$1.run" --json --threads 1 >nothing; }
for i in 1 2 3; do shard $i; done
run --out whole.run >whole
run --csv --sort -n --top 2 >top.csv
esscher merge part-1.run part-2.run part-3.run -o all.run --quiet >all && cmp whole all && echo same
esscher merge part-?.run -o all.run --force --quiet --csv --sort -n --top 2 | cmp top.csv && echo same
esscher export all.run --json >about.json && get_json about.json run.sessions.0.command run.sessions.0.joined run.sessions.1.command
# a part says that it is one
esscher export part-2.run | head -1
esscher export part-2.run --table rows
echo "rc=$?"
esscher report part-2.run --no-figures -o part.html >nothing && grep -c 'part of a run, shard 2 of 3' part.html
# gaps; what there is can be joined, and the line that is named computes the rest
esscher merge part-1.run part-3.run -o gaps.run
echo "rc=$?" && ls gaps.run 2>&1 | grep -c 'No such file'
esscher merge part-3.run part-1.run -o some.run --partial
esscher merge part-3.run part-1.run -o some.run --partial --force --json >some.json && get_json some.json missing gaps cells
run --out some.run --resume >some && cmp whole some && echo same
# a shard of another number is welcome where it fits
run --shard 2/2 --out half.run >nothing && esscher merge part-1.run part-2.run half.run -o mixed.run --quiet | cmp whole && echo same
# a shard's file that goes on as a whole
run --out part-3.run --resume >rest && cmp whole rest && echo same && rm part-3.run && shard 3
# refused
refuse() { esscher merge "$@" || echo "rc=$?"; }
refuse
refuse part-1.run
refuse part-1.run part-2.run part-3.run -o all.run
refuse part-1.run part-2.run part-3.run -o part-2.run --force
refuse part-1.run part-2.run ./part-1.run -o x.run
refuse part-1.run part-2.run part-3.run -o x.run --layer 2
refuse part-1.run part-2.run whole.run -o x.run
refuse part-1.run part-2.run merge.none -o x.run
echo hello >hello && refuse hello part-1.run -o x.run
run --seed 9 --shard 3/3 --out seed.run >nothing && refuse part-1.run part-2.run seed.run -o x.run
refuse part-1.run part-2.run part-3.run -o nowhere/x.run
for bad in 0/3 4/3 3 1/0 -1/3 1/3/3 a/b ''; do run --shard "$bad" --out x.run 2>&1 | head -1; done
run --shard 1/3
echo "rc=$?"
esscher limit --shard 1/3 2>&1 | head -1
ls x.run 2>&1 | grep -c 'No such file'
