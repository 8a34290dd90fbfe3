#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ranks.sh ESSCHER MPI BUILD : the program under a real mpirun, that of Open MPI or of MPICH (MPI: openmpi, mpich).
#
# MP01 to MP09 of docs/dev/HARDENING.md. BUILD has the plugins, and the library few_threads_MPI.so.
set -u
esscher=$1
mpi=$2
build=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1
mkdir pids

skip() {
    echo "skipped: $*"
    exit 77
}
failures=0
fail() {
    echo "FAIL: $*"
    head -n 12 err 2>/dev/null
    failures=$((failures + 1))
}

mpirun=mpirun.$mpi
command -v "$mpirun" >/dev/null || skip "there is no $mpirun (Debian packages openmpi-bin, mpich)"
# Root may start it, more processes than there are processors, on this machine only.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm_rsh_agent=sh OMPI_MCA_odls_base_sigkill_timeout=0
export OMPI_MCA_orte_tmpdir_base="$work"
unset ESSCHER_ISA ESSCHER_NO_MPI ESSCHER_MPI_PLUGIN OMP_NUM_THREADS
# The time limit is for safety only: a job that hangs fails.
run() { timeout -k 2 120 "$mpirun" "$@" </dev/null; }
# MPICH's launcher dies of SIGPIPE one time in ten if rank 0 ends before it has handed it its input. So a rank 0 that never
# calls MPI reads its input to the end first.
cat >kept.sh <<'END'
[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" != 0 ] || cat >/dev/null
exec "$@"
END
run -n 2 sh kept.sh true >/dev/null 2>err || skip "$mpirun starts nothing here: $(head -n 1 err)"

began=$(date +%s)
took() { echo "$1: $(($(date +%s) - began)) s since the start"; }

# expect CODE WORDS... : how the last command ended, and what it said on stderr, once.
expect() {
    code=$1
    shift
    [ "$code" = "$last" ] || fail "$what: exit code $last, not $code"
    for words in "$@"; do
        count=$(grep -cF "$words" err)
        [ "$count" = 1 ] || fail "$what: said $count times: $words"
    done
}
try() {
    what=$1
    shift
    run "$@" >out 2>err
    last=$?
}

# ---- the same answer

small="converge --dim 8 --n 500..3000*3 --replicates 12 --scales 1,3"
# provenance names threads and ranks; all else has the same bits
numbers() { sed '/^  "provenance": {/,/^  }/d' "$1"; }
# shellcheck disable=SC2086  # options are words
{
    "$esscher" $small --json --quiet >one.json || fail "one process"
    numbers one.json >one
    for ranks in 2 7; do # MP04
        try "MP04 $ranks ranks" -n $ranks "$esscher" $small --json
        expect 0 "$ranks ranks on 1 machine by" "memory bound"
        numbers out >many
        cmp one many || fail "MP04: $ranks ranks give other numbers than one process"
        grep -q "\"ranks\": $ranks," out || fail "MP04: provenance does not name $ranks ranks"
    done
    try "another seed" -n 2 "$esscher" $small --json --seed 8
    numbers out | cmp -s one - && fail "MP04: another seed gives the same numbers"
    try "MP05 more ranks than cells" -n 5 "$esscher" converge --dim 4 --n 100,200 --replicates 2 --scales 1 --csv --quiet
    expect 0
    "$esscher" converge --dim 4 --n 100,200 --replicates 2 --scales 1 --csv --quiet | cmp - out || fail MP05
}
took "the same answer"

# ---- who talks (MP08)

try "a command that is no study" -n 3 sh kept.sh "$esscher" --version
expect 0
[ "$(grep -c '^esscher [0-9]' out)" = 1 ] || fail "MP08: --version is printed by several ranks"
try "one that is unknown" -n 2 sh kept.sh "$esscher" konverge
expect 2 'unknown command "konverge"'
# each into a file of its own: mpirun may print one's lines in the middle of the other's
try "each for itself" -n 2 sh kept.sh sh -c '"$0" "$@" >"answer.$$"' "$esscher" converge --dim 4 --n 100,200 --replicates 2 --scales 1 \
    --csv --quiet --no-mpi
expect 0
[ "$(cat answer.* | grep -c '^scale,')" = 2 ] || fail "--no-mpi: not two answers"
took "who talks"

# ---- ranks that do not belong together

# shellcheck disable=SC2086  # options are words
{
    small="$small --csv --quiet"
    try "MP02 as many ranks as expected" -n 2 "$esscher" $small --expect-ranks 5
    expect 2 "expected 5 ranks" "mpi.ranks"
    other=openmpi
    [ $mpi = openmpi ] && other=mpich
    if [ -e "$build/libesscher-mpi-$other.so" ]; then
        try "MP02 another MPI than the launcher's" -n 1 sh kept.sh env "ESSCHER_MPI_PLUGIN=$build/libesscher-mpi-$other.so" \
            "$esscher" $small : -n 1 true
        expect 2 "started 2 processes, but" "mpi.launcher"
    fi
    try "MP03 another seed" -n 1 "$esscher" $small : -n 1 "$esscher" $small --seed 8
    expect 2 "rank 1 on" "seed: 8" "ranks.differ"
    try "MP07 other kernels" -n 1 env ESSCHER_ISA=avx2 "$esscher" $small : -n 1 env ESSCHER_ISA=portable "$esscher" $small
    if grep -q avx2.*portable err; then
        expect 2 "ranks.differ" "--isa"
    else
        [ "$last" -ne 0 ] || fail "MP07: a rank without AVX2 was not noticed"
    fi
    try "MP07 the same kernels asked for" -n 1 "$esscher" $small --isa portable : -n 1 env ESSCHER_ISA=portable "$esscher" $small --isa portable
    expect 0
    try "MP09 no threads" -n 2 env "LD_PRELOAD=$build/tests/few_threads_$mpi.so" "$esscher" $small
    expect 2 "MPI_THREAD_SINGLE instead of MPI_THREAD_FUNNELED" "mpi.threads"
}
took "ranks that do not belong together"

# ---- ranks that are stopped, silent, killed

cat >rank.sh <<'END'
echo $$ >"pids/${OMPI_COMM_WORLD_RANK-$PMI_RANK}"
exec "$@"
END
large="converge --dim 8 --n 500..3000*3 --scales 1,3 --csv --quiet --out x.run"
# await COMMAND... : waits until it is true; fails if the job ends before. The pause decides nothing.
await() {
    until "$@"; do
        kill -0 $job 2>/dev/null || return 1
        sleep 0.02
    done
}
has_begun() { [ -s x.run ] && [ -s "pids/$hit" ] && catches_term; }
# catches_term : true once rank $hit handles SIGTERM, which is bit 14 of SigCgt. The run file is rank 0's: another rank may still be
# starting when it appears, and SIGTERM would end it.
catches_term() { grep -Eq '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' "/proc/$(cat "pids/$hit")/status"; }
has_grown() { [ "$(wc -c <x.run)" -gt "$size" ]; }
# ticks : how much processor time the rank has used, in units of the system.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$(cat "pids/$hit")/stat"; }
has_worked() { [ "$(ticks)" != "$before" ]; }
# get_cells : has cells of other ranks written while rank $hit is stopped: the run cannot end without it, however fast it is. A
# rank that was stopped before it met the others is let go for a moment of its own processor time; they wait for it.
get_cells() {
    size=$(wc -c <x.run)
    looks=0
    kill -STOP "$(cat "pids/$hit")"
    until has_grown; do
        kill -0 $job 2>/dev/null || return 1
        looks=$((looks + 1))
        sleep 0.02
        [ $((looks % 150)) = 0 ] || continue
        before=$(ticks)
        kill -CONT "$(cat "pids/$hit")"
        await has_worked
        kill -STOP "$(cat "pids/$hit")"
    done
}
# hurt SIGNAL RANK RANKS options : sends a signal into a run of RANKS ranks that stores cells.
hurt() {
    signal=$1
    hit=$2
    ranks=$3
    shift 3
    what="SIG$signal to rank $hit"
    rm -f pids/* x.run*
    # shellcheck disable=SC2086  # options are words
    run -n "$ranks" sh rank.sh "$esscher" $large "$@" >out 2>err &
    job=$!
    await has_begun || fail "$what: the job ended before it was sent"
    [ "$signal" != KILL ] || get_cells || fail "$what: the job ended before cells were written"
    kill -"$signal" "$(cat "pids/$hit")"
    wait $job
    last=$?
}
hurt TERM 0 3 --replicates 3000 # more than it ever comes to
expect 7 "interrupted after" # MP06
hurt TERM 2 3 --replicates 3000
expect 7 "interrupted after" # MP06
# Two ranks: no other can be silent for so long on a busy machine.
hurt STOP 1 2 --replicates 3000 --rank-timeout 5
[ "$last" -ne 0 ] || fail "$what: the job ended well"
grep -q 'rank 1 on .* (pid [0-9]*): nothing heard for 5 s \[rule ranks.lost\]' err || fail "$what: not said as it should be"
took "stopped"
hurt KILL 1 3 --replicates 100
[ "$last" -ne 0 ] || fail "MP01: a rank was killed, and the job ended well"
"$esscher" export x.run --csv >/dev/null 2>err || fail "MP01: the run file is invalid"
# shellcheck disable=SC2086  # options are words
{
    try "to the end" -n 2 "$esscher" $large --replicates 100 --resume
    expect 0
    rm x.run
    "$esscher" $large --replicates 100 >whole
}
cmp whole out || fail "MP01: a run that was killed and resumed gives other numbers"
took "all"
[ $failures = 0 ]
