# SPDX-License-Identifier: Apache-2.0
# depth with a cache: errors after the prompt are those of the hidden states that encode writes, in units of their spread; an
# encoder has no cache.
pebble=$(cd "$(dirname "$0")/../../models/pebble" && pwd)
head -c 420 "$pebble/alice.txt" >text
esscher encode --model "$pebble" --text text --precision f64 --out full.npy --json --quiet >a.json || exit 1
n=$(get_json a.json shape.1)
prompt=$((n / 3))
# root mean square difference of rows after the prompt, over their distance from their mean, of states 1 to 4: within 1e-9
compare() {
    name=$1
    shift
    esscher encode --model "$pebble" --text text --precision f64 --out held.npy --force --quiet "$@" >/dev/null || exit 1
    case " $* " in *" --prompt "*) ;; *) set -- "$@" --prompt "$prompt" ;; esac
    esscher depth --model "$pebble" --text text --length "$n" --blocks 1 --directions 1 --precision f64 --json --quiet "$@" >b.json || exit 1
    for layer in 0 1 2 3; do get_json b.json "rows.$layer.error"; done >found
    for file in full held; do tail -c $((8 * 5 * n * 192)) $file.npy | od -An -v -tf8 -w8 >$file; done
    paste full held | awk -v n="$n" -v prompt="$prompt" -v what="$name" '
        function abs(x) { return x < 0 ? -x : x }
        { state = int((NR - 1) / (n * 192)); row = int((NR - 1) / 192) % n; column = (NR - 1) % 192 }
        row >= prompt { error[state] += ($2 - $1)^2; square[state] += $1^2; sum[state, column] += $1 }
        END {
            for (l = 1; l <= 4; l++) {
                spread = square[l]
                for (c = 0; c < 192; c++) spread -= sum[l, c]^2 / (n - prompt)
                getline found <"found"
                want = sqrt(error[l] / spread)
                if (!(want > 0) || abs(found / want - 1) > 1e-9) print what " layer " l - 1 ": " found ", not " want
            }
            print what
        }'
    get_json b.json rows.3.evict rows.3.setting rows.3.prompt rows.3.keys rows.3.k_type rows.3.v_type
}
compare prompt --evict prompt --policy snapkv:window=8 --keys 16 --prompt "$prompt"
compare decode --evict decode --policy tova --keys 20
compare types --kv-type q4_0,q8_0
# an encoder has no cache
mkdir model && make_model model
echo the cat on the mat >words
for options in "--evict prompt --policy h2o --ratio 1/4" "--kv-type q8_0" "--prompt 4"; do
    # shellcheck disable=SC2086 # options are words
    esscher depth --model model --text words --quiet $options >/dev/null
    echo "rc=$?"
done
esscher depth --synthetic --quiet --evict prompt >/dev/null
echo "rc=$?"
esscher depth --model model --text words --quiet --layer 9 >/dev/null
echo "rc=$?"
