# tokenize and encode wait for a FIFO; a signal that stops them is no failure of the file. First nobody has opened it for
# writing, then somebody has, and has written a line.
mkdir model && make_model model
mkfifo pipe
stop() { # SIGNAL COMMAND...
    signal=$1
    shift
    "$@" >out 2>err &
    pid=$!
    until grep -Eq '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' "/proc/$pid/status"; do sleep 0.02; done # SIGTERM has a handler
    sleep 0.7
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
# one that does not stop a run does not disturb it
(sleep 1 && echo 'the cat sat') >pipe &
esscher tokenize --model model pipe >out 2>err &
pid=$!
sleep 0.3
kill -STOP $pid && kill -CONT $pid
wait $pid
echo "rc=$?"
wc -l <out | tr -d ' '
