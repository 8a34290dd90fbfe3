#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_example.sh PROGRAM SOURCE : run an example (by EMULATOR, if it is set); it must succeed and print the table in its source's first comment.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
sed -n '1{/SPDX-License-Identifier/d;}; /\*\//q; s/^ \*     //p' "$2" >"$work/promised"
[ -s "$work/promised" ] || { echo "FAIL: no table in the first comment of $2" >&2; exit 1; }
# shellcheck disable=SC2086  # what runs a program of another CPU, with its options
${EMULATOR-} "$1" >"$work/printed"
diff "$work/promised" "$work/printed" || { echo "FAIL: $2 promises (<) what it does not print (>)" >&2; exit 1; }
cat "$work/printed"
