# SPDX-License-Identifier: Apache-2.0
# --text - reads standard input: the same answer as from a file, for a pipe and for a redirection, and the provenance says
# what was read.
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
ask() { esscher loss --model "$model" --block 96 --seed 3 --quiet "$@"; }
ask --text "$text" --csv >file
cat "$text" | ask --text - --csv >pipe && cmp file pipe && echo "a pipe is the same"
ask --text - --csv <"$text" >redirected && cmp file redirected && echo "a redirection is the same"
# run files know a text by its contents: what was begun with a pipe goes on with the file
cat "$text" | ask --text - --json --out a.run >answer
get_json answer provenance.stdin
ask --text "$text" --csv --out a.run --resume | cmp - file && echo "resumed with the file"
# a text is refused under its name, and read once
printf '' | ask --text -
echo "rc=$?"
ask --text - --text - </dev/null
echo "rc=$?"
# tokenize and encode
esscher tokenize --model "$model" "$text" >ids
esscher tokenize --model "$model" - <"$text" | cmp - ids && echo "tokenize reads it"
esscher encode --model "$model" --text "$text" --out a.npy --quiet >nothing
cat "$text" | esscher encode --model "$model" --text - --out b.npy --quiet >nothing && cmp a.npy b.npy && echo "encode reads it"
