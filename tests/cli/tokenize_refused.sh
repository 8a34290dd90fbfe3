# SPDX-License-Identifier: Apache-2.0
# tokenize: what cannot be read is refused with the right exit code, and why.
mkdir model empty
printf '%s\n' '[UNK]' '[CLS]' '[SEP]' a >model/vocab.txt
printf 'a\n' >text
try() {
    esscher tokenize "$@"
    echo "rc=$?"
}
try text
try --model
try --model nowhere text
try --model empty text
try --model model missing
try --model model model
try --model model --invalid maybe text
# TK02, TK03
printf '[CLS]\n[SEP]\n' >bad.txt && try --model bad.txt text
echo '{"model": {"type": "WordLevel"}}' >wordlevel.json && try --model wordlevel.json text
echo '{"model": {' >cut.json && try --model cut.json text
# TX20: an eighth of the text is no UTF-8; TK09: the byte is counted in the file
printf 'a\na\377a\na\n' >latin
try --model model latin
try --model model --invalid replace-all latin
try --model model --invalid error latin
# TK11, TX04
printf '' | try --model model
printf ' \n\001\n' | try --model model
try --model model <&-
printf '\037\213\010\000\000\000' >text.gz && try --model model text.gz
printf '\377\376h\000i\000' >wide && try --model model wide
