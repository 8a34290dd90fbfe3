# SPDX-License-Identifier: Apache-2.0
# probe --draw contiguous: windows beside independent draws, design effects, effective tokens; --shuffle.
mkdir model && make_model model
export OMP_NUM_THREADS=1
seq 1 400 | awk '{ for (i = 0; i < 6; i++) printf "word%d ", 15 + int($1 * $1 / 7) % 9 + i % 2; print "sat on the mat." }' >text
probe() { esscher probe --model model --text text --n 20,60,180 --replicates 4 --query-count 16 --control 0 --quiet "$@"; }
probe --draw contiguous | grep -E '^(Contexts|A context|[0-9]+ windows of)' | sed 's/worth [^:]*:/worth:/; s/is [0-9.e+-]* ± [0-9.e+-]* times that/is times that/; s/n^.*/n^/'
probe --draw contiguous --json >a.json || exit 1
get_json a.json draw shuffle contexts.2.n contexts.2.windows windows.26.head windows.26.n
# the draws are those of any other run, and no window changes them
probe --json >b.json && get_json b.json contexts.0.n
[ "$(get_json a.json rows.5.map_error)" = "$(get_json b.json rows.5.map_error)" ] && echo same draws
probe --draw contiguous --threads 3 --json >c.json && [ "$(get_json a.json windows.7.window_error)" = "$(get_json c.json windows.7.window_error)" ] && echo same windows
# the ratio of squares; worth by hand, on the straight lines between the points of independent draws, in logarithms
for head in 0 4 8; do
    for i in 0 1 2; do
        row=$((3 * head + i))
        get_json a.json windows.$row.window_error windows.$row.independent_error windows.$row.design_effect windows.$row.effective_tokens windows.$row.n
    done
done | awk '
    { at[(NR - 1) % 5] = $NF }
    NR % 5 == 0 { k = (NR / 5 - 1) % 3; w[k] = at[0]; d[k] = at[1]; worth[k] = at[3]; n[k] = at[4]
        if ((at[0] / at[1]) ^ 2 / at[2] - 1 > 1e-6 || (at[0] / at[1]) ^ 2 / at[2] - 1 < -1e-6) print "design effect", at[2] }
    NR % 15 == 0 { sx = sy = sxx = sxy = 0
        for (k = 0; k < 3; k++) { x = log(n[k]); y = log(d[k]); sx += x; sy += y; sxx += x * x; sxy += x * y }
        slope = (3 * sxy - sx * sy) / (3 * sxx - sx * sx)
        for (k = 0; k < 3; k++) { t = log(w[k]); a = -1
            for (j = 1; j < 3; j++) if (t <= log(d[j - 1]) && t >= log(d[j])) a = j
            if (a > 0) want = log(n[a]) + (t - log(d[a])) * log(n[a - 1] / n[a]) / log(d[a - 1] / d[a])
            else { f = t > log(d[0]) ? 0 : 2; want = log(n[f]) + (t - log(d[f])) / slope }
            want = exp(want) < 1 ? 1 : exp(want)
            if (want >= 10 * n[2]) { if (worth[k] != "null") print "worth", worth[k], "far beyond", n[2] } # no power law is known to hold there
            else if (worth[k] / want - 1 > 1e-5 || worth[k] / want - 1 < -1e-5) print "worth", worth[k], want } }
    END { print NR / 5, "points" }'
# another order: another pool, and one that is kept is not taken for it
for order in word sentence block; do
    probe --draw contiguous --shuffle $order --json >$order.json && get_json $order.json shuffle pools.0.tokens
    [ "$(get_json $order.json layers.0.trace | cut -c 1-9)" = "$(get_json a.json layers.0.trace | cut -c 1-9)" ] && echo the same inputs
done
probe --pool-dir kept --csv >plain && probe --pool-dir kept --shuffle none --csv >none && cmp plain none && echo the same
probe --pool-dir kept --shuffle word 2>&1 >/dev/null | grep -c 'shuffle'
esscher probe --model model --text text --n 20,60,99999 --draw contiguous --quiet 2>&1 | head -1
