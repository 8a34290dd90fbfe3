# SPDX-License-Identifier: Apache-2.0
# encode: hidden states of a block, whole and by layer; the same bytes for any number of threads.
mkdir model && make_model model
printf 'The cat sat on the mat.\n\nunaffable\n' >text
esscher encode --model model --text text --out H.npy --json --quiet >a.json || exit 1
get_json a.json command shape ids text_tokens blocks block layers.2.layer layers.2.heads.2.head
for key in logits.1 layers.0.entropy layers.2.heads.2.top_weight layers.1.sum_squares; do
    get_json a.json $key | grep -q '[0-9]' || echo "$key: $(get_json a.json $key)"
done
esscher encode --model model --text text --out last.npy --layer 3 --json --quiet --threads 1 >b.json
get_json b.json shape
size=$((12 * 12 * 4)) # n hidden f32
tail -c $size H.npy >all && tail -c $size last.npy >one && cmp all one && echo same
esscher encode --model model --text text --out wide.npy --layer 0 --precision f64 --quiet --csv | cut -d, -f1
wc -c <H.npy && wc -c <wide.npy
# longer than a block of 40 positions: 38 tokens at a time, the rest in the last
yes 'the cat' | head -50 >long
esscher encode --model model --text long --json >c.json 2>c.err && get_json c.json text_tokens blocks block && cat c.err
esscher encode --model model --text long --block 2 --json --quiet >d.json && get_json d.json block ids shape
esscher encode --model model --text long --dry-run --json --quiet >e.json && get_json e.json cost.flops
mkdir -p cache/models--org--tiny/snapshots && cp -r model cache/models--org--tiny/snapshots/1234
HF_HUB_CACHE=cache esscher encode --model org/tiny --text text --out hub.npy --quiet | head -1 && cmp hub.npy H.npy && echo found
# a classifier says what it thinks: labels by the names of config.json, probabilities that are those of its logits
sed 's/^{/{"id2label": {"0": "NO", "1": "a \\u00e9 \\u001b[31m"}, /' model/config.json >named.json && mv named.json model/config.json
esscher encode --model model --text text --quiet | sed -n '1p; /^What the/,/^a/p'
esscher encode --model model --text text --quiet --json >f.json
awk -v a="$(get_json f.json labels.0.logit)" -v b="$(get_json f.json labels.1.logit)" -v p="$(get_json f.json labels.1.probability)" \
    'BEGIN { q = exp(b) / (exp(a) + exp(b)); print (p - q < 1e-12 && q - p < 1e-12) ? "softmax" : p " is not " q }'
