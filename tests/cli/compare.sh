# SPDX-License-Identifier: Apache-2.0
# compare: two runs side by side, in every form, and on a page; an input is not overwritten.
sink() { esscher sink --n 100,1000 --replicates 40 --quiet "$@" >/dev/null; }
sink --spread 1 --seed 1 --out a.run && sink --spread 1 --seed 2 --out b.run && sink --spread 1,2 --seed 1 --out c.run
esscher compare a.run b.run | head -1
esscher compare a.run b.run --csv | head -1
esscher compare a.run a.run | tail -1
esscher compare a.run b.run --json >both.json && get_json both.json compared parameters.0.parameter parameters.0.second differences.0.quantity
esscher report a.run b.run --compare --no-figures -o both.html | head -1 | cut -c 1-40
ls *.run
esscher export both.compare.run --table parameters --csv
# seeds that are the same: said
esscher compare a.run c.run | grep -c '^Caution: both runs have seed 1'
esscher compare a.run b.run --out b.run --force; echo "rc=$?"
esscher report both.compare.run both.compare.run --compare --no-figures -o both.html --force; echo "rc=$?"
esscher compare a.run; echo "rc=$?"
esscher rope --quiet --out rope.run >/dev/null
esscher compare a.run rope.run; echo "rc=$?"
