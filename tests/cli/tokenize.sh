# SPDX-License-Identifier: Apache-2.0
# tokenize: ids line by line, tokens and offsets as JSON and CSV.
mkdir model
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' un '##aff' '##able' hello , world '"' é e >model/vocab.txt
printf 'Hello, world\n\nunaffable xyz\r\n[MASK] h\303\251llo' >text
esscher tokenize --model model text
esscher tokenize --model model text >ids && esscher tokenize -m model/vocab.txt <text | cmp - ids && echo same
echo 'unaffable, "' | esscher tokenize --model model --csv
printf '\303\251 hello\n' | esscher tokenize --model model --json >answer
get_json answer lines.0.ids lines.0.tokens lines.0.offsets command
echo '{"strip_accents": false}' >model/tokenizer_config.json
printf '\303\251\n' | esscher tokenize --model model
# TK09: what is no UTF-8 is replaced, and it is said where
printf 'hello\nhello \377\376 world\n' | esscher tokenize --model model --invalid replace-all 2>&1 >/dev/null
# a long line without a newline is read in pieces
head -c 300000 /dev/zero | tr '\0' , | esscher tokenize --model model | wc -w | tr -d ' '
head -c 300000 /dev/zero | tr '\0' a | esscher tokenize --model model
