# SPDX-License-Identifier: Apache-2.0
# measure --causal, --window: a table says which keys are seen, and --compare judges by the mask that was asked for.
make_npy q.npy f32 2x50x8 normal 1 && make_npy k.npy f32 2x90x8 normal 2 && make_npy v.npy f32 2x90x4 normal 3
measure() { esscher measure --q q.npy --k k.npy --v v.npy --quiet "$@"; }
measure --causal --json >a.json && get_json a.json mask.causal mask.window mask.first_place mask.seen rows.0.n rows.0.queries
measure --causal --window 8 --json >b.json && get_json b.json mask.window mask.seen layers.0.horizon_reason
measure --window 8 --json >c.json && get_json c.json mask.causal mask.seen
measure --causal | sed -n 1p | cut -c1-60
measure --causal --output y.npy >/dev/null && measure --causal --compare y.npy >/dev/null && echo met
measure --compare y.npy --json >d.json; echo "rc=$?" && get_json d.json compare.looks_like
measure --output z.npy >/dev/null && measure --causal --compare z.npy --json >e.json; echo "rc=$?" && get_json e.json compare.looks_like
measure --causal --prefixes 10,20; echo "rc=$?"
measure --window 4 --error-bar 4; echo "rc=$?"
measure --window 0; echo "rc=$?"
esscher measure --q k.npy --k q.npy --v q.npy --causal --quiet; echo "rc=$?"
# the same for any number of threads, and from a run file
measure --causal --window 20 --csv --threads 1 >1.csv && measure --causal --window 20 --csv --threads 2 | cmp - 1.csv && echo same
measure --causal --out m.run >/dev/null && measure --causal --out m.run --resume >/dev/null && echo resumed
measure --causal --window 9 --out m.run --resume; echo "rc=$?"
# a curve by position: the first n tokens, each of which sees those before it
esscher measure --q k.npy --k k.npy --v v.npy --causal --prefixes 1,30,90 --json --quiet >f.json && get_json f.json rows.0.ess rows.1.queries rows.2.queries
