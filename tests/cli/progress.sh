# SPDX-License-Identifier: Apache-2.0
# Progress on a terminal: a line of it comes before anything else, with the phase's name; shares of the whole run never
# fall, also where a run has many phases, and where its summary is long; the line is gone in the end. Off a terminal there
# is none.
python3 -c 'import pty' 2>/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
mkdir base
make_model base
i=0
while [ $i -lt 300 ]; do
    echo "a man and a cat sat on a mat $i"
    i=$((i + 1))
done >text
echo probe
watch_terminal esscher probe --model base --text text --pool 600 --n 50,100,200 --replicates 2
echo claims
watch_terminal esscher claims --only collapse-nominal-rho --threads 2
echo regimes
watch_terminal esscher regimes --n 1e3 --replicates 40 --out a.run
# what is kept took no time, and is no reason to promise much
echo again
watch_terminal esscher regimes --n 1e3 --replicates 40 --out a.run --resume
esscher regimes --n 1e3 --replicates 40 2>&1 >nothing | grep -c ' %, ' || :
