# SPDX-License-Identifier: Apache-2.0
# downstream: what cannot be done is refused with the right exit code, and why. TX05
mkdir model && make_model model
printf 'the cat\t1\nthe mat\t0\n' >tasks.tsv
try() {
    esscher downstream --quiet "$@" >/dev/null
    echo "rc=$?"
}
try --tasks tasks.tsv
try --model model
try --model model --tasks tasks.tsv --text tasks.tsv
try --model model --tasks tasks.tsv --policy topp
try --model model --tasks tasks.tsv --policy bigbird+twice
try --model model --tasks tasks.tsv --policy linformer
try --model model --tasks tasks.tsv --layer 3
try --model model --tasks tasks.tsv --concat 2
try --model model --tasks tasks.tsv --strata-layer 1
try --model model --tasks tasks.tsv --text-strata --strata-layer 3
try --model model --tasks tasks.tsv --text-strata
try --model model --tasks tasks.tsv --replicates 0
try --model model --tasks missing.tsv
: >empty.tsv
try --model model --tasks empty.tsv
printf 'the cat\t1\nthe mat\n' >bad.tsv && try --model model --tasks bad.tsv
printf 'the cat\t1\nthe mat\t2\n' >bad.tsv && try --model model --tasks bad.tsv
printf 'the cat\t1\nthe mat\tneutral\n' >bad.tsv && try --model model --tasks bad.tsv
printf 'the cat\t1\n\t0\n' >bad.tsv && try --model model --tasks bad.tsv
printf 'the cat\t1\nthe \377mat\t0\n' >bad.tsv && try --model model --tasks bad.tsv
printf '\037\213\010\000' >bad.tsv && try --model model --tasks bad.tsv
truncate -s 1G bad.tsv && try --model model --tasks bad.tsv
try --model model --text tasks.tsv --concat 2
try --model model --tasks tasks.tsv --max-memory 10K
