/* SPDX-License-Identifier: Apache-2.0 */
/* few_threads.c : an MPI that has no threads (MP09), for LD_PRELOAD. */
#include <mpi.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    *provided = MPI_THREAD_SINGLE;
    return code;
}
