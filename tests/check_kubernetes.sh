#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_kubernetes.sh ESSCHER : what the containers of examples/kubernetes do, done here.
#
# The commands of both Jobs are taken out of the files and run, a shard per index, in another order than that of the
# indices; the merged run must say what one process says. The rest of the files is looked at for what Kubernetes would
# refuse or do wrong: numbers of shards that differ, a restart policy that podFailurePolicy does not allow.
set -eu
esscher=$1
examples=$(cd "$(dirname "$0")/../examples/kubernetes" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
mkdir "$work/bin" "$work/runs"
ln -s "$esscher" "$work/bin/esscher"
PATH=$work/bin:$PATH

fail() {
    echo "FAIL: $*"
    exit 1
}
# value FILE KEY : of the only line `KEY: value`.
value() {
    [ "$(grep -c "^ *$2: " "$1")" = 1 ] || fail "$1 has not one $2"
    sed -n "s/^ *$2: //p" "$1"
}
# variable FILE NAME : the value of an environment variable.
variable() { grep -A 1 "name: $2\$" "$1" | sed -n 's/^ *value: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p'; }
# command FILE : the lines of its block `- |`.
command() { awk '/^ *- \|$/ { on = 1; depth = index($0, "-"); next } on && match($0, /[^ ]/) <= depth { exit } on' "$1"; }

job=$examples/indexed-job.yaml
merge=$examples/merge-job.yaml
for file in "$job" "$merge"; do
    ! grep -n "$(printf '\t')" "$file" || fail "$file has tabs, which YAML does not allow"
    [ "$(value "$file" restartPolicy)" = Never ] || fail "$file: a pod that fails must end, to be replaced"
    [ "$(value "$file" apiVersion) $(value "$file" kind)" = "batch/v1 Job" ] || fail "$file is no Job"
done
[ "$(value "$job" completionMode)" = Indexed ] || fail "pods have no index"
[ "$(variable "$job" SHARDS)" = "$(value "$job" completions)" ] || fail "SHARDS is not the number of completions"
[ "$(variable "$job" RUNS)" = "$(value "$job" mountPath)" ] || fail "RUNS is not on the volume"
[ "$(variable "$merge" RUNS)" = "$(value "$merge" mountPath)" ] || fail "RUNS of the merge is not on the volume"

STUDY="converge --dim 4 --n 100..400*3 --replicates 8 --quiet"
SHARDS=3 THREADS=1 RUNS=$work/runs
export STUDY SHARDS THREADS RUNS
without_provenance() { sed '/^  "provenance": {$/,/^  },$/d'; }
for index in 2 0 1; do JOB_COMPLETION_INDEX=$index sh -c "$(command "$job")" >"$work/log" || fail "shard $index"; done
sh -c "$(command "$merge")" >"$work/log" || fail "merging"
# shellcheck disable=SC2086  # STUDY is words
esscher $STUDY --json | without_provenance >"$work/whole.json"
# shellcheck disable=SC2086
esscher $STUDY --out "$RUNS/all.run" --resume --json | without_provenance >"$work/merged.json"
[ -s "$work/whole.json" ] || fail "one process gives no answer"
diff "$work/whole.json" "$work/merged.json" || fail "shards of pods give another answer than one process"
