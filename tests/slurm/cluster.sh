# SPDX-License-Identifier: Apache-2.0
# cluster.sh : a Slurm of one node, in a folder of its own, for as long as a test lasts. To be sourced.
#
#   cluster_start FOLDER     munged, slurmctld and slurmd with their own key, sockets, ports and files, all in FOLDER;
#                            returns once a job could start. Fails if it cannot; cluster_why then tells
#   cluster_why              why, in a line, and the daemons' last words
#   cluster_stop             ends jobs and daemons; fails if a process is left. Harmless without a cluster
#   cluster_ended JOB[,JOB]  waits until jobs have ended (of an array every task), at most CLUSTER_PATIENCE seconds
#   cluster_field JOB NAME   what `scontrol show job` says of NAME, a line per job
#
# The node claims more processors than it has (config_overrides), so that a few tasks run side by side anywhere. Nobody
# needs systemd, cgroups or a database, but Slurm starts jobs as their users, so that it needs root.
# shellcheck shell=sh

CLUSTER_PATIENCE=60
cluster_folder=
cluster_daemons=

# cluster_port : a port that nobody listens at, below those the system hands out by itself.
cluster_port() {
    while :; do
        port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
        # shellcheck disable=SC2046  # one of the files may be missing
        grep -qi "^ *[0-9]*: [0-9a-f]*:$(printf %04x $port) " $(ls /proc/net/tcp /proc/net/tcp6 2>/dev/null) || break
    done
    echo "$port"
}

# A requeued job waits until its credential has expired (cred_expire: 120 s by default), and is then found by the
# scheduler when it looks next (sched_interval: 60 s): both are what a test cannot wait for. PMIx and Open MPI name
# files by job and step alone: two clusters on one machine had better not count from the same number.
cluster_configure() {
    node=$(uname -n)
    node=${node%%.*}
    cat >"$cluster_folder/slurm.conf" <<END
ClusterName=esscher
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(cluster_port)
SlurmdPort=$(cluster_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster_folder/munge.sock,cred_expire=5
StateSaveLocation=$cluster_folder/state
SlurmdSpoolDir=$cluster_folder/spool
TmpFS=$cluster_folder/tmp
FirstJobId=$((1000 + 1000 * $(od -An -N2 -tu2 /dev/urandom)))
SlurmctldPidFile=$cluster_folder/slurmctld.pid
SlurmdPidFile=$cluster_folder/slurmd.pid
SlurmctldLogFile=$cluster_folder/slurmctld.log
SlurmdLogFile=$cluster_folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=pmix
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=$node NodeAddr=127.0.0.1 CPUs=64 RealMemory=65536 State=UNKNOWN
PartitionName=usual Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL State=UP PriorityTier=2
END
}

# cluster_daemon NAME COMMAND... : started here, its id noted.
cluster_daemon() {
    name=$1
    shift
    "$@" >"$cluster_folder/$name.out" 2>&1 </dev/null &
    cluster_daemons="$! $cluster_daemons"
}

# cluster_dead : has a daemon ended?
cluster_dead() {
    for daemon in $cluster_daemons; do
        kill -0 "$daemon" 2>/dev/null || return 0
    done
    return 1
}

cluster_start() {
    cluster_folder=$1
    mkdir -p "$cluster_folder/state" "$cluster_folder/spool" "$cluster_folder/tmp"
    chmod 755 "$cluster_folder" # munged wants its socket to be reached by everybody
    # A test may itself be part of a job of another Slurm.
    # shellcheck disable=SC2046  # names are words
    unset $(env | sed -n 's/^\(\(SLURM\|SBATCH\|SRUN\|PMIX\)_[A-Za-z0-9_]*\)=.*/\1/p')
    # PMIx and MPI keep files of their own, and leave them in /dev/shm when they are killed, if not told of another place.
    export TMPDIR="$cluster_folder/tmp" SLURM_CONF="$cluster_folder/slurm.conf"
    export OMPI_MCA_btl_vader_backing_directory="$TMPDIR" UCX_POSIX_DIR="$TMPDIR"
    cluster_configure
    (umask 077 && head -c 128 /dev/urandom >"$cluster_folder/munge.key")
    cluster_daemon munged munged --foreground --force --num-threads=2 --key-file="$cluster_folder/munge.key" \
        --socket="$cluster_folder/munge.sock" --pid-file="$cluster_folder/munged.pid" \
        --seed-file="$cluster_folder/munge.seed"
    for _ in $(seq 50); do [ ! -S "$cluster_folder/munge.sock" ] || break; sleep 0.1; done
    cluster_daemon slurmctld slurmctld -D -i -f "$SLURM_CONF"
    cluster_daemon slurmd slurmd -D -f "$SLURM_CONF"
    end=$(($(date +%s) + 30))
    while [ "$(date +%s)" -lt $end ] && ! cluster_dead; do
        case $(timeout 5 sinfo --noheader --format=%T --partition=usual 2>/dev/null) in
        idle) return 0 ;;
        esac
        sleep 0.2
    done
    return 1
}

cluster_why() {
    if cluster_dead; then why="a daemon has ended"; else why="not in 30 s"; fi
    echo "a Slurm of one node does not come up here: $why. The last words of its daemons:"
    for log in munged slurmctld slurmd; do
        echo "---- $log"
        tail -n 15 "$cluster_folder/$log.out"
    done
}

# Whatever belongs to the cluster, daemons and jobs, has its configuration in the environment.
cluster_left() {
    for process in /proc/[0-9]*; do
        [ "$process" = "/proc/$$" ] ||
            ! { tr "\0" "\n" <"$process/environ"; } 2>/dev/null | grep -qxF "SLURM_CONF=$cluster_folder/slurm.conf" ||
            echo "${process#/proc/}"
    done
}

cluster_stop() {
    [ -n "$cluster_folder" ] || return 0
    timeout 5 scancel --user=root >/dev/null 2>&1
    end=$(($(date +%s) + 10))
    while [ "$(date +%s)" -lt $end ] && [ -n "$(timeout 5 squeue --noheader 2>/dev/null)" ]; do sleep 0.2; done
    for daemon in $cluster_daemons; do # slurmd first, munged last
        kill "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    done
    cluster_daemons=
    for _ in $(seq 20); do # what watches a job ends a moment after it
        left=$(cluster_left)
        [ -n "$left" ] || break
        sleep 0.3
    done
    cluster_folder=
    [ -n "$left" ] || return 0
    echo "left running by Slurm, and killed:"
    for process in $left; do
        echo "$process $({ tr '\0' ' ' <"/proc/$process/cmdline"; } 2>/dev/null)"
        kill -9 "$process" 2>/dev/null
    done
    return 1
}

cluster_field() {
    scontrol --oneliner show job "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p"
}

cluster_ended() {
    end=$(($(date +%s) + CLUSTER_PATIENCE))
    until waiting=$(squeue --noheader --jobs="$1" 2>/dev/null) && [ -z "$waiting" ]; do
        if [ "$(date +%s)" -ge $end ]; then
            echo "job $1 has not ended in $CLUSTER_PATIENCE s:"
            scontrol show job "$1"
            return 1
        fi
        sleep 0.3
    done
}
