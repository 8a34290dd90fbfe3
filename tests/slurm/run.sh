#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh ESSCHER [MPI...] : examples/slurm under a real Slurm of one node, which is started here and stopped at the end.
#
# Three shards of a study (array.sbatch) and two MPI jobs of the same (mpi.sbatch) are stopped in the middle, with some of
# their cells on disk and not all, each in its own way (MP06):
#
#   shard 2         its program is killed (SIGKILL): the task fails, is requeued by hand, and goes on
#   shards 1, 3     preempted: SIGTERM, exit code 7, the script requeues itself, and goes on
#   first MPI job   cancelled: SIGTERM, exit code 7, stays cancelled; submitted again it goes on
#   second MPI job  preempted, as the shards
#
# Then merge.sbatch, which waits for the array. Every answer must be that of one process that was left alone, provenance
# apart. MPI is openmpi or mpich, of which the program has plugins: the first job is of the first of them, the second of
# the last. Without any the shards are tested alone, and the test counts as skipped. Where Slurm is missing or does not come up (it needs root, and containers differ) it is skipped altogether.
set -u
esscher=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
examples=$(cd "$here/../../examples/slurm" && pwd)
. "$here/cluster.sh"

skip() {
    echo "skipped: $*"
    exit 77
}
[ -z "${ESSCHER_QUICK_TESTS-}" ] || skip "ESSCHER_QUICK_TESTS is set"
[ "$(id -u)" = 0 ] || skip "a Slurm of our own needs root"
for program in munged:munge slurmctld:slurmctld slurmd:slurmd srun:slurm-client; do
    command -v "${program%:*}" >/dev/null || skip "there is no ${program%:*} (Debian package ${program#*:})"
done

work=$(mktemp -d)
failed=no
fail() {
    echo "FAIL: $*"
    failed=yes
}
# finish CODE : nothing of ours goes on after the test, however it ends.
finish() {
    trap - EXIT
    trap '' INT TERM HUP
    cluster_stop || set -- 1
    rm -rf "$work"
    exit "$1"
}
trap 'finish $?' EXIT
trap 'finish 1' INT TERM HUP

# ---- what the study is, and what one process says

STUDY="converge --dim 8 --n 500..3000*3 --replicates 150 --scales 1,3 --quiet"
RUNS=$work
export STUDY RUNS
cells=150
# The jobs' program stands still before it begins, until there is a file named go, so that all jobs are in place before one
# works. What was started before go then stops itself at the $stop-th flush of its run file. The first flush makes the
# file, so that some cells are on disk, and most are still to be done, however fast the machine is.
stop=6
ESSCHER=$work/esscher
export ESSCHER
cat >"$ESSCHER" <<END
#!/bin/sh
[ ! -e "$work/go" ] || exec "$esscher" "\$@"
kill -STOP \$\$
KILL_AFTER_SIGNAL=STOP exec "$here/../cli/kill_after" $stop .run "$esscher" "\$@"
END
chmod +x "$ESSCHER"

# answer RUN : what a finished run file says, without who has computed it.
answer() {
    # shellcheck disable=SC2086  # STUDY is words
    "$esscher" $STUDY --out "$1" --resume --json | without_provenance
}
without_provenance() { sed '/^  "provenance": {$/,/^  },$/d'; }

# cells_of RUN : prints how many cells it has.
cells_of() {
    found=$("$esscher" export "$1" --json 2>/dev/null | sed -n 's/^ *"cells": \([0-9][0-9]*\).*/\1/p' | head -n 1)
    echo "${found:-0}"
}

# way MPI : how its processes find each other.
way() { case $1 in mpich) echo pmi2 ;; *) echo pmix ;; esac; }

# submit RUN PROCESSES MPI : an MPI job; prints its number.
submit() { RUN=$1 MPI=$(way "$3") sbatch --parsable --ntasks="$2" --cpus-per-task=1 "$examples/mpi.sbatch"; }

# ---- jobs in the middle

# programs JOB : process ids of the program in its first step.
programs() { scontrol listpids "$(cluster_field "$1" JobId).0" 2>/dev/null | awk 'NR > 1 && $1 > 0 { print $1 }'; }

# stopped JOB COUNT : waits until COUNT of its processes stand still. The 120 s are for safety only.
stopped() {
    for _ in $(seq 1200); do
        still=0
        for process in $(programs "$1"); do
            ! grep -q '^State:[[:space:]]*T' "/proc/$process/status" || still=$((still + 1))
        done
        [ $still != "$2" ] || return 0
        sleep 0.1
    done
    fail "job $1 has not stopped in 120 s"
}

# middle JOB RUN CELLS : lets it work until the process that writes RUN has stopped itself, with some of CELLS on disk, not
# all. That process is in the middle of a flush, so the cells are counted in a copy of the file and its journal.
middle() {
    # shellcheck disable=SC2046  # ids are words
    kill -CONT $(programs "$1")
    stopped "$1" 1
    rm -rf copy
    mkdir copy
    cp "$2"* copy
    now=$(cells_of "copy/$2")
    echo "job $1 stopped with $now of $3 cells on disk"
    if [ "$now" -eq 0 ] || [ "$now" -ge "$3" ]; then fail "that is not in the middle"; fi
}

# field JOB NAME VALUE : it must have been so.
field() {
    found=$(cluster_field "$1" "$2")
    [ "$found" = "$3" ] || fail "job $1 has $2=$found, not $3"
}

# same WHAT FILE : as one process says.
same() {
    if cmp -s "$work/whole.json" "$2"; then echo "$1: same"; else
        fail "$1: another answer than of one process"
        diff "$work/whole.json" "$2" | head -n 10
    fi
}

# finished WHAT RUN : it has all cells, and says what one process says.
finished() {
    [ "$(cells_of "$2")" = $cells ] || fail "$1: $2 has $(cells_of "$2") of $cells cells"
    answer "$2" >"$work/answer.json"
    same "$1" "$work/answer.json"
}

# ---- the test

cd "$work" || exit 1
# shellcheck disable=SC2086  # STUDY is words
"$esscher" $STUDY --json | without_provenance >whole.json &
whole=$!
cluster_start "$work/slurm" || skip "$(cluster_why)"
mpi=yes
[ $# -gt 0 ] || mpi="the program was built without MPI"
for kind in "$@"; do
    srun --mpi=list 2>&1 | grep -qw "$(way "$kind")" ||
        mpi="this Slurm has no $(way "$kind") (Debian package slurm-wlm-basic-plugins)"
done
wait $whole
[ -s whole.json ] || fail "one process alone gives no answer"

array=$(sbatch --parsable --array=0-2 --cpus-per-task=1 "$examples/array.sbatch")
merge=$(sbatch --parsable --dependency="afterany:$array" "$examples/merge.sbatch")
for i in 0 1 2; do stopped "${array}_$i" 1; done
if [ "$mpi" = yes ]; then
    for last in "$@"; do :; done
    first=$(submit first.run 3 "$1")
    second=$(submit second.run 2 "$last")
    stopped "$first" 3
    stopped "$second" 2
fi
touch go
for i in 0 1 2; do middle "${array}_$i" shard-$((i + 1))-of-3.run $((cells / 3)); done
[ "$mpi" != yes ] || { middle "$first" first.run $cells && middle "$second" second.run $cells; }

# shellcheck disable=SC2046  # ids are words
kill -9 $(programs "${array}_1")
[ "$mpi" != yes ] || scancel "$first"
urgent=$(sbatch --parsable --partition=urgent --exclusive --output=/dev/null --wrap true)
cluster_ended "$urgent" || fail "nobody was preempted"
field "${array}_1" JobState FAILED
field "${array}_1" ExitCode 137:0
scontrol requeue "${array}_1"
if [ "$mpi" = yes ]; then
    field "$first" JobState CANCELLED
    field "$first" ExitCode 7:0
    again=$(submit first.run 3 "$1")
    for kind in "$@"; do
        # shellcheck disable=SC2086  # STUDY is words
        srun --ntasks=3 --mpi="$(way "$kind")" "$esscher" $STUDY --json | without_provenance >three.json
        same "srun --ntasks=3, $kind" three.json
    done
fi

cluster_ended "$array" || fail "the array has not ended"
cluster_ended "$merge" || fail "the shards were not merged"
for i in 0 1 2; do
    field "${array}_$i" Restarts 1
    field "${array}_$i" ExitCode 0:0
done
field "$merge" ExitCode 0:0
finished "shards, one killed and two preempted, merged" all.run
if [ "$mpi" = yes ]; then
    cluster_ended "$again,$second" || fail "the MPI jobs have not ended"
    field "$again" ExitCode 0:0
    finished "MPI job, cancelled and submitted again" first.run
    field "$second" Restarts 1
    field "$second" ExitCode 0:0
    finished "MPI job, preempted" second.run
fi

if [ $failed = yes ]; then
    tail -n 20 ./*.log
    tail -n 80 slurm/slurmctld.log slurm/slurmd.log
    exit 1
fi
[ "$mpi" = yes ] || skip "what is about MPI, the rest has passed: $mpi"
