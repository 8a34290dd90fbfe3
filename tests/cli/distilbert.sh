# SPDX-License-Identifier: Apache-2.0
# A DistilBERT is tokenized, encoded and probed like a BERT; a pool of it is used again.
mkdir model tmp && make_model model distilbert
export TMPDIR="$PWD/tmp"
printf 'The cat sat on the mat.\n' >text
esscher tokenize --model model text --quiet
esscher encode --model model --text text --out H.npy --json --quiet >a.json || exit 1
get_json a.json shape ids layers.1.heads.2.head
get_json a.json logits.1 | grep -q '[0-9]' || echo "no logits"
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >long
probe() { esscher probe --model model --text long --n 20,50,100 --replicates 2 --query-count 16 --quiet "$@"; }
probe --pool-dir pool --json >b.json || exit 1
get_json b.json command pools.0.tokens layers.1.layer layers.1.heads.2.head
for key in reach heads.2.horizon heads.2.rate_map heads.2.entropy heads.2.ess heads.2.sink_first; do
    get_json b.json layers.1.$key | grep -q '^-*[0-9]' || echo "$key: $(get_json b.json layers.1.$key)"
done
ls pool
probe --csv >one && probe --pool-dir pool --threads 1 --csv >two && cmp one two && echo same
