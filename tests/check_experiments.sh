#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_experiments.sh : no two purposes share an experiment number, and none is used that src/random/experiment.h
# does not name: the same address would be the same random numbers.
set -eu
cd "$(dirname "$0")/.."
list="src/random/experiment.h include/esscher/random.h"
numbers=$(sed -n 's/^ *ES_EXPERIMENT_[A-Z_]* = \([0-9a-fx]*\).*/\1/p' $list)
[ "$(printf '%s\n' "$numbers" | wc -l)" -ge 10 ] || { echo "FAIL: $list has no list" >&2; exit 1; }
twice=$(printf '%s\n' "$numbers" | sort | uniq -d)
[ -z "$twice" ] || { echo "FAIL: $list gives $twice to two" >&2; exit 1; }
if grep -nE '(experiment|EXPERIMENT) = (0x)?[0-9]' src/*/*.[ch] src/*/*/*.[ch] cli/*.[ch]; then
    echo "FAIL: a number that is not in $list" >&2
    exit 1
fi
# The same behind a name: an enumerator that an address takes, with a number of its own.
hidden=$(awk '
    function tell(name) { for (name in taken) if (name in given) print file ": " name " = " given[name]; split("", taken); split("", given) }
    FNR == 1 { tell(); file = FILENAME }
    {
        for (rest = $0; match(rest, /experiment = [A-Z_]+/); rest = substr(rest, RSTART + RLENGTH))
            taken[substr(rest, RSTART + 13, RLENGTH - 13)]
        for (rest = $0; match(rest, /[A-Z_]+ = (0x)?[0-9]+/); rest = substr(rest, RSTART + RLENGTH)) {
            split(substr(rest, RSTART, RLENGTH), part, " = ")
            given[part[1]] = part[2]
        }
    }
    END { tell() }' src/*/*.[ch] src/*/*/*.[ch] cli/*.[ch])
[ -z "$hidden" ] || { echo "FAIL: not in $list: $hidden" >&2; exit 1; }
# An address without a number has number 0, which belongs to nobody.
for file in src/*/*.[ch] src/*/*/*.[ch] cli/*.[ch]; do
    if tr '\n' ' ' <"$file" | grep -oE 'es_address [a-z_]+ = \{[^;]*;|\(es_address\)\{[^}]*\}' | grep -v experiment; then
        echo "FAIL: $file has an address without an experiment" >&2
        exit 1
    fi
done
echo "$(printf '%s\n' "$numbers" | wc -l) numbers, all different"
