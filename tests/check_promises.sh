#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_promises.sh : every test that docs/TRUST.md names as the keeper of a promise exists.
#
# The second column of its table of promises reads `test`: case, case; `test`: ... A case is a function listed in
# tests/*/test_NAME.c, or, like NP01, the beginning of several.
set -eu
cd "$(dirname "$0")/.."
sed -n '/^| promise | test |/,/^$/p' docs/TRUST.md | sed 1,2d | grep '^|' >/dev/null || { echo "FAIL: no table" >&2; exit 1; }

sed -n '/^| promise | test |/,/^$/p' docs/TRUST.md | sed 1,2d | awk -F'|' 'NF { print $3 }' | tr ';' '\n' |
    while IFS= read -r entry; do
        # shellcheck disable=SC2016  # backquotes of Markdown
        test=$(printf '%s' "$entry" | sed -n 's/[^`]*`\([a-z_]*\)`.*/\1/p')
        [ -n "$test" ] || { echo "FAIL: no test is named in: $entry" >&2; exit 1; }
        file=
        for candidate in tests/*/"test_$test.c" "tests/fuzz/$test.c" "tests/check_$test.sh"; do
            [ -e "$candidate" ] && file=$candidate
        done
        [ -n "$file" ] || { echo "FAIL: there is no test called $test" >&2; exit 1; }
        for word in $(printf '%s' "${entry#*\`*\`}" | tr ',:' '  '); do
            case $word in
            *_* | [A-Z][A-Z][0-9]*) grep -qE "(cmocka_unit|optional)_test[a-z_]*\($word" "$file" ||
                { echo "FAIL: $file has no $word" >&2; exit 1; } ;;
            esac
        done
        echo "kept by $test"
    done
