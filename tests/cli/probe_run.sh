# SPDX-License-Identifier: Apache-2.0
# probe: killed while it makes the pool or draws, and resumed, it gives the bytes of a run left alone (FS01).
mkdir model && make_model model
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -1500 >text
run() { # [with kill_after N FILE in `kill`] ; shellcheck disable=SC2086  # words
    exec ${kill-} esscher probe --model model --text text --n 100,300,1000 --replicates 40 --query-count 256 --csv --quiet \
        --pool-dir "$@"
}
(run pool >alone) || exit 1
# while it makes the pool: the run file is there already, and what is asked is the same with --resume
(kill='kill_after 1 layer-2.npy' && run parts --out part.run >/dev/null 2>&1)
[ $? = 137 ] && ! cmp -s pool/layer-2.npy parts/layer-2.npy && echo "killed while it makes the pool"
ls part.run
# while it draws, twice: the 20th flush of the run file comes after some of the 40 replicates
drawn=0
for _ in 1 2; do
    before=$drawn
    (kill='kill_after 20 part.run' && run parts --out part.run --threads 1 --resume >/dev/null 2>&1)
    echo "rc=$?"
    esscher export part.run --json >cells.json && drawn=$(get_json cells.json stages.1.cells)
    [ "$drawn" -gt "$before" ] && [ "$drawn" -lt 40 ] && echo "killed while it draws"
done
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
