/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.h : the program that started this process: mpirun, srun or none. */
#ifndef ES_RANKS_LAUNCHER_H
#define ES_RANKS_LAUNCHER_H

#include <esscher/executor.h>

typedef enum es_launcher_kind {
    ES_LAUNCHER_NONE = 0,
    ES_LAUNCHER_OPENMPI, /* its own mpirun */
    ES_LAUNCHER_PMI,     /* MPICH's mpirun, or srun --mpi=pmi2 */
    ES_LAUNCHER_PMIX,    /* srun --mpi=pmix */
    ES_LAUNCHER_SLURM    /* srun without PMI */
} es_launcher_kind;

/*! es_launcher_find() : returns the launcher and its kind, also if it started one process only. */
es_launcher es_launcher_find(es_launcher_kind *kind);

#endif
