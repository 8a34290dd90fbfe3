# SPDX-License-Identifier: Apache-2.0
# Relatives of BERT are encoded, probed, thinned and classified; a streamed pool gives the same answers as a stored one.
golden=$(cd "$(dirname "$0")/../golden/decoders2" && pwd)
mkdir tmp
export TMPDIR="$PWD/tmp"
vocabulary() {
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\n,\n.\n'
    for i in $(seq 85); do echo "word$i"; done
}
yes 'the cat sat on the mat, word20 word25 word31 the word7.' | head -40 >long
for name in roberta xlm-roberta modernbert big_bird nomic_bert; do
    mkdir $name && cp "$golden/$name/config.json" "$golden/$name/model.safetensors" $name && vocabulary >$name/vocab.txt
    echo "$name: $(esscher encode --model $name --text long --json --quiet >a.json && get_json a.json shape)"
    probe() { esscher probe --model "$name" --text long --n 10,40 --replicates 2 --query-count 8 --control 0 --csv --quiet "$@"; }
    probe >one && wc -l <one
done
name=modernbert && probe >one && probe --stream >two && cmp one two && echo same
esscher probe --model nomic_bert --text long --n 10,40 --replicates 2 --query-count 8 --quiet >out && head -n 1 out | cut -c 1-59
for i in 1 2 3 4 5 6 7 8 9; do printf 'the cat sat on word%s\t%s\n' $i $((i % 3)); done >tasks
for name in modernbert-classes big_bird-classes; do
    mkdir $name && cp "$golden/$name/config.json" "$golden/$name/model.safetensors" $name && vocabulary >$name/vocab.txt
done
for name in xlm-roberta modernbert-classes big_bird-classes; do
    esscher downstream --model $name --tasks tasks --policy full --json --quiet >a.json && get_json a.json texts
done
esscher sparse --model modernbert --text long --preset paper --context 10 --quiet
echo "rc=$?"
esscher sparse --model modernbert --text long --context 64 --layer 1 --head 0 --policy top --keys 3 --csv --quiet | wc -l
esscher probe --model big_bird-classes --text long --n 10 --block 60 --replicates 2 --query-count 8 --quiet
echo "rc=$?"
