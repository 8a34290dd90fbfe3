#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_words.sh [ROOT] : plain English, and one vocabulary for how many keys share the weight.
#
# Words that comments and names no longer have: private metaphors, and people where code acts.
#
# The words averaging, selective and single-key are in one list, es_regime_name() in src/theory/key_weights.c. A second
# list would soon have other cut-offs. (Comments may quote them.)
set -eu
cd "${1:-$(dirname "$0")/..}"
list=src/theory/key_weights.c
found=$(grep -rlE '^[^*]*"(selective|single-key)"' src cli web/*.js web/figures || :)
status=0
if [ "$found" != "$list" ]; then
    echo "these words belong in $list alone, and are in:"
    echo "${found:-no file}"
    status=1
fi

# Metaphors, people where code acts, and words with a plainer one.
metaphors='rooms?|[a-z_]+_rooms?|courier|workbench|clerk|desk|drawer|es_letter|es_pen|es_book|goes home|signs? of life'
people='nobody|somebody|everybody|whoever|whom|told|as .* tells|so many'
verbs='lacks|shared? out|shares out|is said of|its kin'
words="$metaphors|$people|$verbs"
if grep -rniwE "$words" src cli include --include='*.[ch]' --exclude=gguf_grids.c ||
    grep -rniwE "$words" python/esscher cmake --include='*.py' --include='*.cmake' --include='*.awk' ||
    grep -rniwE "$words" web --include='*.js' --exclude-dir=node_modules; then
    echo "say it in the words of the field: message, queue, rank, caller, reports, number of, scratch, capacity"
    status=1
fi

# Functions report, and comments say what a function returns or when it fails: they ask nothing.
if grep -rnE '(^|[^f])tell(_[a-z_]+)?\(' src cli include --include='*.[ch]'; then
    echo "a function reports, or adds a finding"
    status=1
fi
if grep -rnE '(/\*!?|\(\) :) (Is|Does|Do|Are|Has|Have|Can|May|Was|Were|Would|is|does|do|are|has|can|may|was|were|would) [^.;:]*\?' \
    src cli include --include='*.[ch]'; then
    echo "say what it returns, or when it fails, instead of asking"
    status=1
fi
exit $status
