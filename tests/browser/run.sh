#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh MAKE_RUNS ESSCHER WEB MAKE_MODEL : open reports in a real browser and use them.
#
# WEB is the folder with node_modules, where CMake has fetched them. Without a browser or what drives it the test is
# skipped (exit code 77). ESSCHER_QUICK_TESTS leaves most cells of the large run out.
set -eu
make_runs=$1
esscher=$2
web=$3
make_model=$4
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $*"
    exit 77
}
command -v node >/dev/null || skip "there is no node (Debian package nodejs)"
[ -d "$web/node_modules/playwright-core" ] || skip "npm could not fetch playwright-core when the build was configured"
"$esscher" report --help >/dev/null || exit 1
browser=
for candidate in chromium chromium-browser google-chrome; do
    command -v "$candidate" >/dev/null && browser=$(command -v "$candidate") && break
done
[ -n "$browser" ] || skip "there is no Chromium (Debian package chromium)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cells=200000
[ -z "${ESSCHER_QUICK_TESTS-}" ] || cells=1000
"$make_runs" "$work" "$cells"
cd "$work"
"$esscher" converge --scales 0.5,1,3 --n 100..800*4 --replicates 8 --predict --quiet --out converge.run >/dev/null
"$esscher" regimes --dim 3 --n 1e2,1e6 --b 0.1,1,10 --replicates 50 --quiet --out regimes.run >/dev/null
"$esscher" collapse --phase --curves --n 1000 --replicates 0 --quiet --out collapse.run >/dev/null
"$esscher" heat --n 1000 --beta 10,100 --replicates 2 --particles 200 --steps 6 --quiet --out heat.run >/dev/null
"$esscher" sink --replicates 20 --quiet --out sink.run >/dev/null
"$esscher" picture --query-count 40 --n 16,64,256 --perplexity 15 --steps 200 --quiet --out picture.run >/dev/null
"$esscher" rope --quiet --out rope.run >/dev/null
"$esscher" depth --synthetic --n 50,100,200 --replicates 4 --reference 256 --quiet --out depth.run >/dev/null
printf 'context,loss\n1,5.72\n4,3.46\n16,2.41\n64,1.88\n256,1.6\n1024,1.474\n4096,1.405\n' >loss.csv
"$esscher" context-fit loss.csv --at 1e5 --quiet --out context-fit.run >/dev/null
"$esscher" measure --q q.npy --k k.npy --v v.npy --scale 1 --output y.npy --quiet >/dev/null
"$esscher" sparse --q q.npy --k k.npy --v v.npy --query-count 4 --simulations 4 --quiet --out sparse.run >/dev/null
"$esscher" measure --q q.npy --k k.npy --v v.npy --compare y.npy --quiet --out measure.run >/dev/null 2>&1 || [ $? = 1 ]
mkdir model && "$make_model" model
awk 'BEGIN { for (i = 0; i < 20; i++) { for (w = 0; w < 4 + i % 7; w++) printf "word%d ", 15 + (i * 5 + w * w * 3) % 16; print "\t" i % 2 } }' >tasks.tsv
"$esscher" downstream --model model --tasks tasks.tsv --policy random,top,window --keep 0.25,0.5 --strata --text-strata --ablate --quiet --out downstream.run >/dev/null
"$esscher" probe --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --block 256 \
    --pool 1024 --quiet --out decoder.run >/dev/null
"$esscher" probe --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --look far --block 256 \
    --pool 2048 --forecast 512 --verify --quiet --out far.run >/dev/null
"$esscher" probe --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --block 256 \
    --pool 1024 --forecast 512,1024 --quiet --out forecast.run >/dev/null
"$esscher" budget --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --context 64 --blocks 2 \
    --query-count 2 --evict ideal --ratio 0.25 --no-query-scores --frontier 0.125,0.5 --verify "$here/../../models/pebble/alice.txt" \
    --verify-blocks 2 --verify-frontier --rivals --quiet --out budget.run >/dev/null
"$esscher" budget --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --context 64 --blocks 2 \
    --query-count 2 --ratio 0.25 --policy stream,h2o --quiet --out cache.run >/dev/null
"$esscher" loss --model "$here/../../models/pebble" --text "$here/../../models/pebble/alice.txt" --rope none,ntk:2,linear:2 \
    --reference 64 --context 32,64,128 --blocks 2 --quiet --out loss.run >/dev/null
page() {
    out=$1
    shift
    "$esscher" report "$@" -o "$out.html" >/dev/null
}
page all claims.run converge.run hardmax.run ball.run regimes.run collapse.run heat.run exponent.run sink.run rope.run context-fit.run probe.run tails.run selfcheck.run measure.run depth.run picture.run
page sparse sparse.run
page budget budget.run
page cache cache.run
page downstream downstream.run
page loss loss.run
page decoder decoder.run
page far far.run
page forecast forecast.run
page measure measure.run
page regimes regimes.run
page twice probe.run probe.run
"$esscher" converge --scales 0.5,1,3 --n 100..800*4 --replicates 8 --seed 1 --quiet --out seed1.run >/dev/null
page both converge.run seed1.run --compare
page odd odd.run
page few empty.run one.run unfinished.run
PAGES=$work WEB=$web BROWSER=$browser node --test "$here/page.test.mjs"
page hostile hostile.run constructor.run --title '</title><script>window.owned=1</script>'
page large large.run
PAGES=$work WEB=$web BROWSER=$browser ESSCHER=$esscher node --test "$here/palette.test.mjs" "$here/stills.test.mjs" \
    "$here/figures.test.mjs" "$here/report.test.mjs"
