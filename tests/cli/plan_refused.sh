# SPDX-License-Identifier: Apache-2.0
# Plans that are none, or not of this model, context or mode: refused by rule and place (PL01 to PL04, KV01).
root=$(dirname "$0")/../..
text=$root/tests/golden/pebble/alice-line.txt
plan=$root/examples/plan/pebble.ideal.json
cache=$root/examples/plan/pebble.plan.json
run() {
    esscher loss --model "$root/models/pebble" --text "$text" --block 96 --quiet --plan "$@" >/dev/null
    echo "rc=$?"
}
try() {
    sed "$1" "$plan" >bad.json
    cmp -s bad.json "$plan" && echo "nothing was changed by $1"
    run bad.json
}
run missing.json
run "$text"
run "$plan" --policy top
run "$plan" --keys 64
# PL01
try 's/"llama"/"mistral"/'
try 's/"layers": 4/"layers": 5/'
try 's/"hidden": 192/"hidden": 384/'
try 's/"vocab": 4096/"vocab": 4097/'
try 's/"context": 2048/"context": 1024/'
try 's/esscher-plan\/2/esscher-plan\/9/'
try 's/"window": 128, //'
# PL02
try 's/"keys": 64/"keys": 0/'
try 's/"keys": 64/"keys": -64/'
try 's/"keys": 64/"keys": 4096/'
try 's/"stream"/"steam"/'
# PL03
try 's/"risk": null/"risk": NaN/'
try 's/"sinks"/"sink"/'
try 's/"keys_kept": 4032/"keys_kept": 4000/'
try 's/"window": 60/"window": 600/'
# PL04
try 's/"heavy", "keys": 256, "window": 128/"linformer", "keys": 256/'
head -c 700 "$plan" >bad.json && run bad.json
# KV01: a plan of a cache on another checkpoint, with options that would say it again, in a command of another mode, on blocks
# that are too short
long() {
    esscher loss --model "$root/models/pebble" --text "$text" --block 256 --quiet --plan "$@" >/dev/null
    echo "rc=$?"
}
sed 's/4c1ac25629d06dad/0123456789abcdef/' "$cache" >bad.json && long bad.json
run "$cache"
long "$cache" --evict ideal
long "$cache" --prompt 32
long "$cache" --kv-type q8_0
run "$plan" --prompt 32
esscher sparse --model "$root/models/pebble" --text "$text" --repeat --context 64 --quiet --plan "$cache" >/dev/null
echo "rc=$?"
encode() {
    esscher encode --model "$root/models/pebble" --text "$text" --quiet "$@" >/dev/null
    echo "rc=$?"
}
encode --plan bad.json
encode --plan "$plan"
encode --plan "$cache" --keys 16
