# SPDX-License-Identifier: Apache-2.0
# measure keeps heads in a run file: a second start finds them, changed inputs are another run, files are written either way.
make_npy q.npy f32 3x40x8 normal 1 && make_npy k.npy f32 3x60x8 normal 2
measure() { esscher measure --q q.npy --k k.npy --v k.npy --quiet "$@"; }
measure --output y.npy --per-query s.csv >plain
measure --out m.run >first && cmp plain first && echo same
measure --out m.run; echo "rc=$?"
measure --out m.run --resume --output again.npy --per-query again.csv >second && cmp plain second && cmp y.npy again.npy && cmp s.csv again.csv && echo same
measure --out m.run --force >/dev/null && echo forced
make_npy q.npy add 0.001 q.npy
measure --out m.run --resume; echo "rc=$?"
measure --out y.npy --force; echo "rc=$?"
esscher export m.run --table heads --csv | head -1 | cut -d, -f1-2
esscher report m.run -o m.html >/dev/null; echo "rc=$?"
# a file of 0.2.0, whose cells had other columns: read as it is, and computed again by --resume
cp "${0%/*}/../old_runs/measure.run" old.run
make_npy q.npy f32 1x4x2 constant 0.5 && make_npy k.npy f32 1x8x2 constant 0.25
esscher export old.run --table heads --csv | cut -d, -f8,11
measure --csv >plain && measure --csv --out old.run --resume | cmp - plain && echo same
