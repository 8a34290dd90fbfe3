# SPDX-License-Identifier: Apache-2.0
# probe --mix: one pool of several texts in proportions, however they are written; what is refused says why.
mkdir model && make_model model
export OMP_NUM_THREADS=1
yes 'the cat sat on the mat, word20 word25 unaffable.' | head -120 >text
yes 'word16 word17 the word18, word19 cat word21 word22' | head -60 >other
probe() { esscher probe --model model --domain a=text --domain b=other --n 20,50 --replicates 2 --query-count 16 --control 0 --quiet "$@"; }
probe --mix a=0.75 b=0.25 --pool 800 --json >a.json || exit 1
get_json a.json pools.0.domain pools.0.tokens pools.1.domain pools.1.tokens pools.1.share pools.2.domain pools.2.tokens pools.2.repeats layers.2.layer differences
for form in '--mix a=0.75,b=0.25' '--mix a=0.75 --mix b=0.25' '--mix=b=0.25 a=0.75'; do
    probe $form --pool 800 --csv >b.csv && [ -e a.csv ] || cp b.csv a.csv
    cmp a.csv b.csv && echo same
done
# a part that is too short, read again
probe --mix a=0.2 b=0.8 --pool 1000 --repeat --json >c.json && get_json c.json pools.0.repeats pools.2.repeats
for wrong in 'a=0.2 b=0.8' 'a=0.5 b=0.4' 'a=0.5' 'a=0.5 c=0.5' 'a=0.5 a=0.5' 'a=half b=0.5' 'a=2 b=-1'; do
    probe --mix $wrong --pool 1000
    echo "rc=$?"
done
esscher probe --model model --text text --mix a=1
