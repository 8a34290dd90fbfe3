# SPDX-License-Identifier: Apache-2.0
# CL06: output that does not arrive is exit code 4: a full disk, a closed stdout. A reader that left has seen enough: the
# program ends quietly, with the run file complete.
esscher info >/dev/full; echo "rc=$?" >&2
esscher info >&-; echo "rc=$?" >&2
esscher info --json >/dev/full; echo "rc=$?" >&2
esscher --help >/dev/full; echo "rc=$?" >&2
esscher --version >&-; echo "rc=$?" >&2
mkfifo gone && exec 3<>gone 4>gone 3<&- # 4 is a pipe whose reader has left
esscher help measure >&4; echo "rc=$?" >&2
converge='esscher converge --n 10..100*3 --replicates 4 --quiet'
$converge --out x.run >&4; echo "rc=$?" >&2
$converge --out y.run >/dev/null
esscher export x.run --table rows --csv >x.txt && esscher export y.run --table rows --csv | cmp - x.txt && echo "the same run file" >&2
# more than a pipe holds, and without an end: the program ends when head does
mkdir base
make_model base
yes 'some words and more of them' | { esscher tokenize --model base; echo "rc=$?" >&2; } | head -1 >/dev/null
$converge >/dev/full; echo "rc=$?" >&2
make_npy q.npy f32 4x3 normal 1
esscher measure --q q.npy --k q.npy --v q.npy --output y.npy --quiet >&- 2>&-; echo "rc=$?" >&2
