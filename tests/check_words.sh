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

metaphors='rooms?|[a-z_]+_rooms?|courier|workbench|clerk|desk|es_letter|goes home|signs? of life'
people='nobody|somebody|everybody|whoever|(is|are|was|were) told|told (of|apart)|as .* tells|so many'
if grep -rniwE "$metaphors|$people" src cli include --include='*.[ch]'; then
    echo "say it in the words of the field: message, queue, rank, caller, reports, number of, scratch, capacity"
    status=1
fi
exit $status
