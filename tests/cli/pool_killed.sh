# SPDX-License-Identifier: Apache-2.0
# A pool that is not kept leaves nothing behind: stopped by SIGTERM or SIGHUP while it is made, or while it is looked at;
# after kill -9 the next run removes what is left, but never the pool of a run that is alive.
mkdir model tmp && make_model model
export TMPDIR="$PWD/tmp"
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -500 >long
head -100 long >short
# shellcheck disable=SC2086  # words
tails() { exec ${held-} esscher tails --model model --principal 1 --random 1 --query-count 1 --control 4 --quiet --csv --text "$@"; }
# begun : a run in the background that stands still in the middle of its pool, until `goes_on`.
begun() {
    (held='kill_after 1 layer-2.npy' && export KILL_AFTER_SIGNAL=STOP && tails long >out 2>err) &
    pid=$!
    until grep -q '^State:[[:space:]]*T' "/proc/$pid/status"; do sleep 0.02; done
}
goes_on() { kill -CONT $pid; }
for signal in TERM HUP; do
    begun
    kill -$signal $pid
    goes_on
    wait $pid
    echo "rc=$?"
    sed 's/[0-9][0-9]* of [0-9]*/N of N/' err
    wc -c <out
    ls tmp
done
# nohup is respected
trap '' HUP
(tails short >/dev/null) &
trap - HUP
kill -HUP $!
wait $!
echo "rc=$?"
# once it is open, the pool has no names: nothing that a kill could leave
begun
goes_on
while [ "$(ls tmp)" ]; do sleep 0.05; done
kill -9 $pid
wait $pid 2>/dev/null
# killed while the pool is made: the folder stays, until somebody makes the next one
begun
kill -9 $pid
wait $pid 2>/dev/null
[ "$(ls tmp)" ] && echo left
# what only looks like ours is nobody's business, nor is ours with something else in it
ours=$(ls -d tmp/*)
like=tmp/esscher-pool-$(uname -n)-
mkdir "${like}public" && mkdir -m 0700 "${like}backup" "${like}forged"
echo chapter >"${like}backup/thesis.txt"
cp -Rp "$ours" "${like}filled" && echo chapter >"${like}filled/text/thesis.txt"
cp -Rp "$ours" "${like}beside" && echo chapter >"${like}beside/thesis.txt"
cp -Rp "$ours" "${like}linked" && ln -s ../../long "${like}linked/text/layer-9.npy"
cp -Rp "$ours/text" "${like}forged" && echo 'esscher scratch folder' >"${like}forged/.esscher-scratch"
(umask 077 && tails short --pool-dir "${like}keptit" >/dev/null)
find tmp ! -path "$ours*" | sort >before
(tails short >/dev/null) && find tmp | sort | cmp - before && grep -c text/thesis.txt before && echo untouched
rm -r tmp/esscher-pool-*
# a living run's folder stays: the second run ends, the first finds its pool
begun
(tails short >/dev/null)
ls tmp | wc -l | tr -d ' '
kill -TERM $pid
goes_on
wait $pid
echo "rc=$?"
ls tmp
