# CL08: a limit on the address space may refuse the run (5), but it neither crashes nor hangs. (A
# sanitizer needs terabytes of addresses, and there is nothing to test then.)
make_npy q.npy f32 64x8 normal 1
(ulimit -v 400000; esscher --version) >/dev/null 2>&1 || exit 0
for size in 90000 150000 400000; do
    (ulimit -v $size; esscher measure --q q.npy --k q.npy --v q.npy --quiet >/dev/null 2>&1)
    case $? in
    0 | 5 | 127) ;; # 127: not even the loader found room
    *) echo "$size KiB: exit code $?"; exit 1 ;;
    esac
done
# OpenBLAS asks for ever where it is refused addresses: commands of linear algebra say 5 instead
for size in 90000 150000; do
    (ulimit -v $size; esscher theory --dim 8 --Wq q.npy --Wk q.npy --quiet >/dev/null 2>&1)
    case $? in
    0 | 5 | 127) ;;
    *) echo "theory, $size KiB: exit code $?"; exit 1 ;;
    esac
done
# ... and so does each of our threads that calls it while others do
make_npy X.npy f64 3000x64 normal 1
tails() { timeout -k 2 20 esscher tails --tokens X.npy --draws 4 --threads 8 --quiet >/dev/null 2>&1; }
for size in 90000 250000 380000 420000 600000; do
    for threads in 1 2; do
        (ulimit -v $size; OPENBLAS_NUM_THREADS=$threads tails)
        code=$?
        case $code in
        0 | 5 | 127) ;; # 124 and 137: it hung
        *) echo "tails, $size KiB, OPENBLAS_NUM_THREADS=$threads: exit code $code"; exit 1 ;;
        esac
    done
done
make_npy big.npy f32 200000x64 constant 0.5
(ulimit -v 250000; esscher measure --q q.npy --k big.npy --v big.npy >/dev/null 2>&1) # shapes differ: 3
[ $? = 3 ] || exit 1
make_npy q.npy f32 8x64 normal 1
(ulimit -v 250000; esscher measure --q q.npy --k big.npy --v big.npy --quiet >/dev/null)
echo "rc=$?" >&2
# with a pool that is there, `probe` multiplies matrices before anything else has asked for room
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
probe() { exec esscher probe --model model --text text --pool-dir pool --n 20,50 --replicates 2 --quiet; }
(probe >/dev/null)
for size in 90000 150000; do
    (ulimit -v $size; probe >/dev/null 2>&1) &
    pid=$!
    for wait in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do kill -0 $pid 2>/dev/null && sleep 2; done
    kill -9 $pid 2>/dev/null && echo "probe, $size KiB: still at it after 30 s"
    wait $pid
    case $? in
    0 | 5 | 127) ;;
    *) echo "probe, $size KiB: exit code $?" ;;
    esac
done
