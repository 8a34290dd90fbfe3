# probe: killed while it makes the pool or draws, and resumed, it gives the bytes of a run left alone (FS01).
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -1500 >text
run() { exec esscher probe --model model --text text --n 100,300,1000 --replicates 6 --queries 64 --csv --quiet --pool-dir "$@"; }
(run pool >alone) || exit 1
# killed while it makes the pool: there is no run file yet, and --resume begins it
for try in 1 2 3 4 5 6 7 8; do
    rm -rf parts part.run
    (run parts --out part.run --resume >/dev/null 2>&1) &
    while [ ! -e parts/layer-2.npy ] && kill -0 $! 2>/dev/null; do :; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    [ $? = 137 ] && [ ! -e part.run ] && ! cmp -s pool/layer-2.npy parts/layer-2.npy &&
        echo "killed while it makes the pool" && break
done
kill_twice probe --model model --text text --n 100,300,1000 --replicates 6 --queries 64 --csv --quiet --pool-dir parts 2>/dev/null || exit 1
(run parts --out part.run --threads 2 --resume >part)
cmp alone part && echo same
for layer in 0 1 2; do cmp pool/layer-$layer.npy parts/layer-$layer.npy && echo same; done
# a finished run needs no drawing; one with other parameters is refused, before a pool is made
(run parts --out part.run --resume >again) && cmp alone again && echo same
(run none --out part.run 2>&1 >/dev/null) | head -1
ls none 2>/dev/null
(run parts --out part.run --resume --seed 5 2>&1 >/dev/null) | head -1
cp model/vocab.txt vocab && sed 's/word30/word31/' vocab >model/vocab.txt
(run parts --out part.run --resume 2>&1 >/dev/null) | head -1 | cut -c 1-60
cp vocab model/vocab.txt
# a layer that is gone is not made up
rm parts/layer-1.npy
(run parts >/dev/null 2>err)
echo "rc=$?"
cat err
esscher export part.run --csv | head -1
