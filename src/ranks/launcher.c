/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.c : finds from the environment which launcher started this process. */
#include <stdlib.h>

#include "ranks/launcher.h"

/* Returns the value of an environment variable that is a whole number in [0, 2^30], or -1. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    const long n = strtol(text, &end, 10);
    return *end == '\0' && n <= 1 << 30 ? (int)n : -1;
}

/* The innermost launcher comes first: mpirun starts its processes through srun, so that they see
 * the variables of both. Variables of a Slurm job (SLURM_NTASKS) are also set for a script that
 * runs alone; only those of a step prove that this process is part of one. */
static const struct {
    const char *name, *ranks, *rank, *local;
    es_launcher_kind kind;
} known[] = {
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK", ES_LAUNCHER_OPENMPI},
    {"mpirun of MPICH", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", ES_LAUNCHER_PMI},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", ES_LAUNCHER_SLURM},
};

es_launcher es_launcher_find(es_launcher_kind *kind)
{
    *kind = ES_LAUNCHER_NONE;
    const char *never = getenv("ESSCHER_NO_MPI");
    for (size_t i = 0; !(never && *never) && i < sizeof known / sizeof *known; i++) {
        const int ranks = number_of(known[i].ranks), rank = number_of(known[i].rank);
        if (rank < 0 || ranks <= rank)
            continue;
        *kind = known[i].kind;
        if (*kind == ES_LAUNCHER_SLURM)
            *kind = getenv("PMIX_RANK")  ? ES_LAUNCHER_PMIX
                    : getenv("PMI_RANK") ? ES_LAUNCHER_PMI
                                         : ES_LAUNCHER_SLURM;
        const int local = number_of(known[i].local);
        return (es_launcher){.name = known[i].name,
                             .rank = rank,
                             .ranks = ranks,
                             .local_rank = local < 0 ? rank : local};
    }
    return (es_launcher){.ranks = 1};
}

es_launcher es_launcher_seen(void)
{
    es_launcher_kind kind;
    const es_launcher found = es_launcher_find(&kind);
    return found.ranks > 1 ? found : (es_launcher){.ranks = 1};
}
