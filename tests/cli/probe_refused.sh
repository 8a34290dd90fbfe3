# SPDX-License-Identifier: Apache-2.0
# probe: what cannot be done is refused with the right exit code, and why; nothing is left behind.
mkdir model tmp && make_model model
export TMPDIR="$PWD/tmp"
yes 'the cat sat on the mat.' | head -20 >text
: >empty
printf '\037\213\010\000' >text.gz
printf '\377\376t\000h\000e\000' >wide
try() {
    esscher probe --quiet "$@" >/dev/null
    echo "rc=$?"
}
try --text text
try --model nowhere --text text
try --model model
try --model model --text text --domain a=text
try --model model --domain text
try --model model --domain ../a=text
try --model model --domain ..=text
try --model model --text missing
try --model model --text empty
# TX01, TX04
try --model model --text text --pool 5000
try --model model --text text.gz
try --model model --text wide
try --model model --text text --n 10,200 --draw without
try --model model --text text --n 1,10
# at most half of the pool unless more is asked for, or a tenth
printf 'the cat sat on the mat.\nthe mat, the cat.\n' >few && echo 'the cat sat' >three
try --model model --text three
try --model model --text few --draw contiguous
esscher probe --model model --text few --replicates 2 --quiet --csv | cut -d, -f3 | sort -n | tail -1
try --model model --text text --pool-dir no/such
try --model model --text text --max-memory 1M
try --model model --text text --resume
: >there.run
try --model model --text text --out there.run
ls tmp
# another model than those that are known: what works today, and it does
mkdir falcon
echo '{"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 64}' >falcon/config.json
esscher probe --model falcon --text text; echo "rc=$?"
for name in Q K V; do make_npy $name.npy f32 16x4 normal 1; done
esscher measure --q Q.npy --k K.npy --v V.npy --quiet >nothing; echo "rc=$?"
