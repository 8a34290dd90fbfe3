#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_words.sh [ROOT] : one vocabulary for how many keys share the weight.
#
# The words averaging, selective and single-key are in one list, es_regime_name() in src/theory/key_weights.c. A second
# list would soon have other cut-offs. (Comments may quote them.)
set -eu
cd "${1:-$(dirname "$0")/..}"
list=src/theory/key_weights.c
found=$(grep -rlE '^[^*]*"(selective|single-key)"' src cli web/*.js web/figures || :)
[ "$found" = "$list" ] && exit
echo "these words belong in $list alone, and are in:"
echo "${found:-no file}"
exit 1
