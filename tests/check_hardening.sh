#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_hardening.sh [ROOT] : docs/dev/HARDENING.md and the tests agree.
#
# The last column of its tables names the tests that keep a case, in backquotes: each must exist and mention the case (a
# fuzzer need not). A column with other words in it is prose, and is believed. Every case that a test function is named
# after (ST01_...) must have a row.
set -eu
cd "${1:-$(dirname "$0")/..}"
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT INT TERM

# file_of TEST : where the test is written.
file_of() {
    case $1 in
    browser) echo tests/browser/report.test.mjs ;;
    cli_*) echo "tests/cli/${1#cli_}.sh" ;;
    fuzz_*) echo "tests/fuzz/$1.c" ;;
    mpi_openmpi | mpi_mpich) echo tests/mpi/ranks.sh ;;
    python_*) echo "python/tests/test_${1#python_}.py" ;;
    slurm) echo tests/slurm/run.sh ;;
    install | reproducible) echo "tests/check_$1.sh" ;;
    *) find tests -mindepth 2 -maxdepth 2 -name "test_$1.c" ;;
    esac
}

rows() { sed -n 's/^| \([A-Z][A-Z][0-9][0-9]\) | .* | \([^|]*\) |$/\1 \2/p' docs/dev/HARDENING.md; }

rows | while read -r case kept; do
    # shellcheck disable=SC2016  # backquotes of Markdown
    prose=$(printf '%s' "$kept" | sed 's/`[a-z_0-9]*`//g; s/[, ]//g')
    [ -z "$prose" ] || continue # "not yet", or how it is kept otherwise
    [ -n "$kept" ] || echo "$case: nothing is said of who keeps it"
    for test in $(printf '%s' "$kept" | tr -d '`,'); do
        file=$(file_of "$test")
        if [ ! -f "$file" ]; then
            echo "$case: there is no test $test (${file:-tests/*/test_$test.c})"
        elif [ "${test#fuzz_}" = "$test" ] && ! grep -q "$case" "$file"; then
            echo "$case: $file does not mention it"
        fi
    done
done >"$failures"
count=$(rows | wc -l)
[ "$count" -gt 100 ] || echo "only $count cases were found" >>"$failures"
for case in $(grep -ohE '_test[a-z_]*\([A-Z]{2}[0-9]{2}_' tests/*/test_*.c | sed 's/.*(//; s/_$//' | sort -u); do
    rows | grep -q "^$case " || echo "$case: tests are named after it, but it has no row" >>"$failures"
done
if [ -s "$failures" ]; then
    sed 's/^/FAIL: /' "$failures" >&2
    exit 1
fi
echo "$count cases, $(rows | grep -c 'not yet$') of them not yet"
