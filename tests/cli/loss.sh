# SPDX-License-Identifier: Apache-2.0
# loss: a decoder's loss by position and by window; the same bytes for any number of threads; run files; the JSON that
# DESIGN promises.
model=$(dirname "$0")/../../models/pebble
text=$(dirname "$0")/../golden/pebble/alice-line.txt
ask() { esscher loss --model "$model" --text "$text" --block 96 --seed 3 --quiet "$@"; }
ask --json >answer
get_json answer command setting tokens start_id rows.0.from rows.0.to rows.0.count rows.1.from rows.1.to text.bytes text.blocks
get_json answer nll nll_se bits_per_byte rows.0.nll rows.0.nll_se >/dev/null && echo numbers
ask | head -1
# one window: the answer is about it; several: about the model as it is, and each is a row
ask --window 16 --sinks 4 --json >answer
get_json answer setting settings.2.window settings.2.sinks settings.0.setting
ask --window 4,8,16,32 --sinks 0,2 --json >answer
get_json answer setting settings.8.setting enough.1.sinks fits.1.of fits.2.sinks positions.2.setting positions.2.from
# context is what a window costs with the first keys kept; what is lost with them is the sink's
ask --window 4,8,16,48 --json >answer
get_json answer windows.0.window windows.0.sinks settings.5.setting
get_json answer windows.0.cost windows.0.sink windows.0.bare windows.0.fresh windows.0.verdict >/dev/null && echo windows
get_json answer windows.3.fresh # half a block has none: it would be the block
ask --window 4,8,16,48 >text
sed '/^$/,$d' text | tr -d '\n' | tr -s ' ' | grep -o 'With the first 4 tokens kept, context beyond 4 tokens is worth\|This is about the next token, not about retrieval\|Reading only the last [0-9]* to'
# blocks evenly from all of the text, or from its start
some() { esscher loss --model "$model" --text "$text" --block 40 --blocks 4 --quiet "$@"; }
some --json >answer
get_json answer text.blocks text.of text.apart
get_json answer text.neighbours text.neighbours_se >/dev/null && echo neighbours
some --csv >even
some --blocks-from start --csv | cmp -s - even || echo "not the first"
# threads, run files
ask --window 8,16 --threads 1 --csv >one
ask --window 8,16 --threads 3 --csv | cmp - one && echo same
ask --window 8,16 --out l.run --csv | cmp - one && ask --window 8,16 --out l.run --resume --csv | cmp - one && echo again
esscher export l.run --table settings --csv | cut -d, -f1
head -1 one
# policies and scales
ask --policy top,random --keys 4,16 --score-scale none,log --json >answer
get_json answer settings.1.setting settings.2.setting settings.8.setting settings.2.scale settings.1.keys_asked
ask --score-scale yarn,1.5 | grep -c "Multiplying scores by"
# the loss of every token; ids instead of text
ask --per-token nll.npy --json >answer && esscher info >/dev/null && ls nll.npy
ask --per-token nll.npy 2>/dev/null
echo "rc=$?"
make_npy ids.npy f64 2x40 index
esscher loss --model "$model" --ids ids.npy --quiet --json >answer
get_json answer tokens text.blocks rows.0.count
get_json answer bits_per_byte 2>/dev/null || echo "no bytes"
esscher loss --model "$model" --ids ids.npy --block 16 --quiet --json >answer
get_json answer text.blocks tokens
ask --dry-run --csv | head -1
# an observation window is as long as asked, in the memory that is promised for it
make_npy long.npy f64 1x1500 index
observed() { esscher loss --model "$model" --ids long.npy --policy observe --keys 8 --span 1490 --threads 1 --quiet --csv "$@"; }
bytes=$(observed --dry-run | tail -1 | cut -d, -f7)
observed --max-memory $((${bytes%.*} + 1)) >/dev/null && echo observed
