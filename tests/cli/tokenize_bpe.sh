# SPDX-License-Identifier: Apache-2.0
# tokenize: byte pairs, from a folder that holds nothing but a tokenizer.json; special tokens left out.
mkdir model
cat >model/tokenizer.json <<'END'
{"added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}, {"id": 1, "content": "<end>", "lstrip": true}],
 "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
 "pre_tokenizer": null, "decoder": {"type": "Fuse"},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                    "special_tokens": {"<s>": {"ids": [0]}}},
 "model": {"type": "BPE", "unk_token": "<s>", "byte_fallback": true, "merges": ["▁ a", ["▁a", "b"], "a b"],
           "vocab": {"<s>": 0, "<end>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "▁ab": 6, "ab": 7, "<0xC3>": 8, "<0xA9>": 9}}}
END
printf 'ab ab\n\nbab  <end>a\303\251\n' >text
esscher tokenize --model model text
esscher tokenize --model model --no-special text
esscher tokenize --model model/tokenizer.json --no-special text | wc -l | tr -d ' '
echo 'ab <end>' | esscher tokenize --model model --csv
# BP01, BP03, BP05: refused, and told why
try() {
    sed "$1" model/tokenizer.json >bad.json
    esscher tokenize --model bad.json text
    echo "rc=$?"
}
try 's/"a b"/"a c"/'
try 's/"String": " "/"Regex": "("/'
try 's/"Fuse"/"Rot13"/'
