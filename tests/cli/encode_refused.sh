# SPDX-License-Identifier: Apache-2.0
# encode: what cannot be done is refused with the right exit code, and why.
mkdir model && make_model model
echo 'the cat' >text
: >empty
try() {
    esscher encode --quiet "$@"
    echo "rc=$?"
}
try --text text
try --model model
try --model nowhere/none --text text
try --model text --text text
# ST36: a zip, and weights without their folder
printf 'PK\003\004' >model.zip && try --model model.zip --text text
try --model model/model.safetensors --text text
try --model model --text missing
try --model model --text empty
try --model model --text text --layer 4
try --model model --text text --layer last
try --model model --text text --block 1
try --model model --text text --max-memory 1M
: >H.npy
try --model model --text text --out H.npy
# TX04
printf '\037\213\010\000' >text.gz && try --model model --text text.gz
# CF03, CF06, CF05, CF01
sed 's/"vocab_size":31/"vocab_size":32/' model/config.json >c && mkdir other && cp model/* other && cp c other/config.json
try --model other --text text
cp model/config.json other/config.json && echo more >>other/vocab.txt
try --model other --text text
sed 's/"gelu"/"relu"/' model/config.json >other/config.json
try --model other --text text
rm other/config.json
try --model other --text text
# ST02, ST36
cp model/config.json model/vocab.txt other && head -c 100 model/model.safetensors >other/model.safetensors
try --model other --text text
printf 'GGUF\003\000\000\000' >other/model.safetensors
try --model other --text text
rm other/model.safetensors && printf '\200\002' >other/pytorch_model.bin
try --model other --text text
# ST18: bytes after the last tensor
cp model/* other && printf x >>other/model.safetensors
try --model other --text text
esscher encode --model other --text text --allow-trailing 2>&1 >/dev/null | grep -c 'bytes follow'
