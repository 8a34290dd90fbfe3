# SPDX-License-Identifier: Apache-2.0
# encode --ids --logits: hidden states of every layer and logits of ten decoders, as NumPy has them: within 1e-10 of their scale
# in f64, within 2e-5 in f32; ids of any width of integer; no tokenizer is needed.
golden=$(cd "$(dirname "$0")/../golden/decoders" && pwd)
# far FORMAT BYTES FILE WANT COUNT LIMIT : the largest difference of the last COUNT numbers over the largest of WANT (f64).
far() {
    tail -c $(($2 * $5)) "$3" | od -An -v "-t$1" -w"$2" >ours
    tail -c $((8 * $5)) "$4" | od -An -v -tf8 -w8 | paste ours - |
        awk -v what="$3" -v limit="$6" 'function abs(x) { return x < 0 ? -x : x }
            abs($1 - $2) > far { far = abs($1 - $2) } abs($2) > most { most = abs($2) }
            END { if (NR == 0 || !(most > 0) || far > limit * most) print what " is off by " far " of " most }'
}
for model in "$golden"/*; do
    esscher encode --model "$model" --ids "$model/ids.npy" --precision f64 --out H.npy --logits L.npy --force --json --quiet >a.json || exit 1
    far f8 8 H.npy "$model/hidden.npy" $((4 * 61 * 48)) 1e-10
    far f8 8 L.npy "$model/logits.npy" $((61 * 96)) 1e-10
    esscher encode --model "$model" --ids "$model/ids.npy" --out h.npy --logits l.npy --force --quiet >/dev/null || exit 1
    far f4 4 h.npy "$model/hidden.npy" $((4 * 61 * 48)) 2e-5
    far f4 4 l.npy "$model/logits.npy" $((61 * 96)) 2e-5
    echo "${model##*/}"
done
get_json a.json shape ids_file logits_file text | sed 's/[^ ]*golden/golden/'
get_json a.json ids.60 layers.2.layer
wc -c <L.npy
# the same ids as other integers, and as a batch of one
model=$golden/llama
make_npy a.npy whole '<i8' 5 1 2 95 0 7
esscher encode --model "$model" --ids a.npy --logits A.npy --quiet >/dev/null || exit 1
for kind in '<i4' '<u2' '|u1' '<i8 1x'; do
    make_npy b.npy whole "${kind%% *}" "$(echo "$kind" | sed 's/^[^ ]* *//')5" 1 2 95 0 7
    esscher encode --model "$model" --ids b.npy --logits B.npy --force --quiet >/dev/null && cmp A.npy B.npy && echo "$kind"
done
# one layer of it; the last is what comes before the last norm
esscher encode --model "$model" --ids "$model/ids.npy" --layer 3 --out one.npy --precision f64 --quiet >/dev/null
far f8 8 one.npy "$model/hidden.npy" $((61 * 48)) 1e-10 && wc -c <one.npy
# threads change nothing
esscher encode --model "$model" --ids "$model/ids.npy" --out t.npy --logits u.npy --threads 1 --quiet >/dev/null
esscher encode --model "$model" --ids "$model/ids.npy" --out t2.npy --logits u2.npy --threads 2 --quiet >/dev/null
cmp t.npy t2.npy && cmp u.npy u2.npy && echo same
