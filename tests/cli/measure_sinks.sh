# SPDX-License-Identifier: Apache-2.0
# measure --sink-logits, --score-cap: numbers or a file, what is left out, files, and run files that know the logits.
make_npy q.npy f32 2x50x8 normal 1 && make_npy k.npy f32 2x90x8 normal 2 && make_npy v.npy f32 2x90x4 normal 3
measure() { esscher measure --q q.npy --k k.npy --v v.npy --quiet "$@"; }
make_npy s.npy f32 2x1 constant 2
measure --sink-logits 2 --json >a.json && get_json a.json sinks.0.logit sinks.1.n layers.0.horizon_reason
measure --sink-logits s.npy --json >b.json && get_json b.json sinks.1.logit
measure --sink-logits 2 --csv >a.csv && measure --sink-logits s.npy --csv | cmp - a.csv && measure --sink-logits 2,2 --csv --threads 1 | cmp - a.csv && echo same
measure --score-cap 1.5 --json >c.json && get_json c.json layers.0.horizon_reason
# a sink of 30 nats has the largest weight, and its index is -1
measure --sink-logits 30 --per-query p.csv >/dev/null && sed -n 2p p.csv | cut -d, -f1-2,8
measure --sink-logits 2 --score-cap 1.5 --output y.npy >/dev/null && measure --sink-logits 2 --score-cap 1.5 --compare y.npy >/dev/null && echo met
measure --score-cap 1.5 --compare y.npy --json >d.json; echo "rc=$?"
measure --output z.npy >/dev/null && measure --sink-logits 2 --compare z.npy --json >e.json; echo "rc=$?" && get_json e.json compare.looks_like
# the run knows numbers by what they are, files by their contents
measure --sink-logits 2 --out m.run >/dev/null && measure --sink-logits 2 --out m.run --resume >/dev/null && echo resumed
measure --sink-logits 3 --out m.run --resume; echo "rc=$?"
measure --sink-logits s.npy --out f.run >/dev/null && make_npy s.npy add 0.5 s.npy
measure --sink-logits s.npy --out f.run --resume 2>&1 | grep -c 'sink-logits: 136 bytes'
measure --score-cap 0; echo "rc=$?"
measure --score-cap -3; echo "rc=$?"
measure --sink-logits nan; echo "rc=$?"
measure --sink-logits 1,2,3; echo "rc=$?"
measure --sink-logits 1 --error-bar 8; echo "rc=$?"
