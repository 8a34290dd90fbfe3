#!/bin/sh
# check_experiments.sh : no two purposes share an experiment number, and none is used that include/esscher/experiment.h
# does not name: the same address would be the same random numbers.
set -eu
cd "$(dirname "$0")/.."
list=include/esscher/experiment.h
numbers=$(sed -n 's/^ *ES_EXPERIMENT_[A-Z_]* = \([0-9a-fx]*\).*/\1/p' $list)
[ "$(printf '%s\n' "$numbers" | wc -l)" -ge 10 ] || { echo "FAIL: $list has no list" >&2; exit 1; }
twice=$(printf '%s\n' "$numbers" | sort | uniq -d)
[ -z "$twice" ] || { echo "FAIL: $list gives $twice to two" >&2; exit 1; }
if grep -nE '(experiment|EXPERIMENT) = (0x)?[0-9]' src/*/*.[ch] cli/*.[ch]; then
    echo "FAIL: a number that is not in $list" >&2
    exit 1
fi
# The same behind a name: an enumerator that an address takes, with a number of its own.
for file in src/*/*.[ch] cli/*.[ch]; do
    for name in $(grep -ohE '(^|[^a-z_])experiment = [A-Z_]+' "$file" | sed 's/.*= //' | sort -u); do
        if grep -HnE "(^|[^A-Z_])$name = (0x)?[0-9]" "$file"; then
            echo "FAIL: $name is a number that is not in $list" >&2
            exit 1
        fi
    done
done
# An address without a number has number 0, which belongs to nobody.
for file in src/*/*.[ch] cli/*.[ch]; do
    if tr '\n' ' ' <"$file" | grep -oE 'es_address [a-z_]+ = \{[^;]*;|\(es_address\)\{[^}]*\}' | grep -v experiment; then
        echo "FAIL: $file has an address without an experiment" >&2
        exit 1
    fi
done
echo "$(printf '%s\n' "$numbers" | wc -l) numbers, all different"
