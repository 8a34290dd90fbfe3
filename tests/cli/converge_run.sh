# SPDX-License-Identifier: Apache-2.0
# A run killed twice and resumed gives the table of one that was left alone (FS01); other parameters are refused.
run() { exec esscher converge --dim 8 --n 500..3000*3 --replicates 64 --scales 1,3 --csv --quiet "$@"; }
kill_twice converge --dim 8 --n 500..3000*3 --replicates 64 --scales 1,3 --csv --quiet || exit 1
(run --out part.run --threads 2 --resume >part)
cmp alone part && echo same
(run --out part.run --resume >again) && cmp alone again && echo same
esscher export whole.run --table rows --csv >rows && wc -l <rows
(run --out whole.run >/dev/null)
echo "rc=$?"
(run --out whole.run --resume --seed 9 >/dev/null)
echo "rc=$?"
(run --resume >/dev/null)
echo "rc=$?"
(run --out nowhere/x.run >/dev/null)
echo "rc=$?"
esscher export whole.run --csv
esscher export whole.run --table _columns --json >about.json && get_json about.json rows.0.title rows.0.key rows.0.definition
esscher export whole.run --json >whole.json && get_json whole.json run.parameters.n run.parameters.scales run.sessions.0.command
# what was killed before it had a run file has none: --resume begins it, and says so
(run --out new.run --resume >new) && cmp alone new && echo same
