# SPDX-License-Identifier: Apache-2.0
# downstream with a cache: cosines of embeddings are those of the mean hidden states that encode writes; an encoder has no cache.
pebble=$(cd "$(dirname "$0")/../../models/pebble" && pwd)
# paragraphs without the end of their last line, which is no part of them
printf %s "$(sed -n '/^Alice was beginning/,/^$/p' "$pebble/alice.txt")" >one
printf %s "$(sed -n '/^There was nothing so/,/^$/p' "$pebble/alice.txt")" >two
(cat one && echo && echo && cat two) >text
# embed TEXT FILE OPTIONS... : the mean of the last hidden states of a text, a number a line
embed() {
    from=$1 to=$2
    shift 2
    esscher encode --model "$pebble" --text "$from" --layer 4 --precision f64 --out h.npy --force --json --quiet "$@" >a.json || exit 1
    n=$(get_json a.json shape.0)
    tail -c $((8 * n * 192)) h.npy | od -An -v -tf8 -w8 |
        awk -v n="$n" '{ sum[(NR - 1) % 192] += $1 } END { for (c = 0; c < 192; c++) printf "%.17g\n", sum[c] / n }' >"$to"
}
# compare NAME OPTIONS... : the mean cosine of both texts, within 1e-12
compare() {
    name=$1
    shift
    for text in one two; do
        embed $text full
        embed $text held "$@"
        paste full held | awk '{ ab += $1 * $2; aa += $1^2; bb += $2^2 } END { printf "%.17g\n", ab / sqrt(aa * bb) }'
    done >cosines
    esscher downstream --model "$pebble" --text text --precision f64 --json --quiet "$@" >b.json || exit 1
    get_json b.json rows.1.cosine | cat - cosines | awk -v what="$name" '
        NR == 1 { found = $1 } NR > 1 { want += $1 / 2 }
        END { if (NR != 3 || want >= 1 || (found - want)^2 > 1e-24) print found ", not " want; print what }'
    get_json b.json rows.1.evict rows.1.policy rows.1.keys_asked rows.1.prompt rows.1.k_type rows.1.v_type
}
compare prompt --evict prompt --policy snapkv:window=4 --keys 8 --prompt 20
compare decode --evict decode --policy h2o --keys 12
compare types --kv-type q4_0,q8_0
# an encoder has no cache, and heads one by one have none
mkdir model && make_model model
printf 'the cat\t1\nthe mat\t0\n' >tasks.tsv
for options in "--evict prompt --policy h2o --ratio 1/4" "--kv-type q8_0"; do
    # shellcheck disable=SC2086 # options are words
    esscher downstream --model model --tasks tasks.tsv --quiet $options >/dev/null
    echo "rc=$?"
done
esscher downstream --model "$pebble" --text text --kv-type q8_0 --strata --quiet >/dev/null
echo "rc=$?"
