# SPDX-License-Identifier: Apache-2.0
# tokenize and encode wait for a FIFO; a signal that stops them is no failure of the file. First nobody has opened it for
# writing, then somebody has, and has written a line.
mkdir model && make_model model
mkfifo pipe
# Until SIGTERM has a handler and the process waits for the pipe. (Where the kernel hides what it waits for: until it waits.)
waits() {
    grep -Eq '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' "/proc/$pid/status" || return 1
    case $(cat "/proc/$pid/wchan") in
    *pipe* | *partner*) return 0 ;;
    0 | '') grep -q '^State:[[:space:]]*S' "/proc/$pid/status" ;;
    *) return 1 ;;
    esac
}
stop() { # SIGNAL COMMAND...
    signal=$1
    shift
    "$@" >out 2>err &
    pid=$!
    until waits; do sleep 0.02; done
    kill -"$signal" $pid
    wait $pid
    echo "rc=$?"
    cat err
}
for open in no yes; do
    [ $open = no ] || { exec 3<>pipe && echo 'the cat sat' >&3; }
    stop TERM esscher tokenize --model model pipe
    stop HUP esscher tokenize --model model pipe
    stop INT esscher encode --quiet --model model --text pipe --out h.npy
done
exec 3>&-
# one that comes before the waiting ends it, too
KILL_AFTER_OPEN=vocab.txt kill_after 0 none esscher tokenize --model model pipe >out 2>err
echo "rc=$?"
cat err
# one that does not stop a run does not disturb it
esscher tokenize --model model pipe >out 2>err &
pid=$!
until waits; do sleep 0.02; done
kill -STOP $pid && kill -CONT $pid
echo 'the cat sat' >pipe
wait $pid
echo "rc=$?"
wc -l <out | tr -d ' '
