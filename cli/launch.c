/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c : joins the processes that mpirun or srun started, and decides which of them prints. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "talk.h"

bool cli_speaks(const cli_common *common) { return common->no_mpi || es_launcher_seen().rank == 0; }

void cli_leave_last(void)
{
    const struct timespec half = {.tv_nsec = 500000000};
    nanosleep(&half, NULL);
}

/* Without MPI there is one rank, whatever was expected. */
static es_status check_alone(const cli_common *common, es_error *err)
{
    if (common->expect_ranks <= 1)
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, NULL, "mpi.ranks",
                    "start it with mpirun -n or srun -n; --mpi if yours is another launcher",
                    "--expect-ranks %lld, but this process runs alone",
                    (long long)common->expect_ranks);
}

es_status cli_ranks_join(cli_session *s, es_error *err)
{
    const cli_common *common = &s->common;
    if (common->mpi && common->no_mpi)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict", "choose one",
                        "--mpi and --no-mpi exclude each other");
    if (common->no_mpi || (!common->mpi && es_launcher_seen().ranks == 1))
        return check_alone(common, err);
    const es_fabric_opts opts = {.timeout = common->rank_timeout,
                                 .expect = (int)common->expect_ranks};
    es_status status = es_fabric_load(&opts, &s->fabric, err);
    if (status == ES_OK)
        status = es_ranks_new(s->fabric, &s->executor, err);
    else if (status == ES_E_UNSUPPORTED) /* whatever is not installed, it was asked for */
        status = err->code = ES_E_ARGUMENT;
    if (s->fabric)
        s->silent = s->fabric->rank > 0;
    return status;
}

/* Returns true if this rank prints the error. Normally only rank 0 prints errors. Two errors are
 * local and are printed once per machine: a missing MPI plugin and the loss of rank 0. */
bool cli_ranks_says(const cli_session *s, const es_error *err)
{
    const bool own = strcmp(err->rule, "mpi.plugin") == 0 ||
                     (strcmp(err->rule, "ranks.lost") == 0 && !strncmp(err->message, "rank 0 ", 7));
    return !s->silent ||
           (own && (es_launcher_seen().local_rank == 0 || (s->fabric && s->fabric->rank == 1)));
}

int cli_ranks_threads(const cli_session *s)
{
    const int all = es_threads_available();
    const char *said = getenv("OMP_NUM_THREADS");
    if (!s->fabric || s->fabric->sharing < 2 || (said && *said))
        return all;
    return all > s->fabric->sharing ? all / s->fabric->sharing : 1;
}

/* Names of machines, each once, in the order of ranks; returns how many. The list is allocated. */
static int machines(const es_fabric *fabric, const char ***out)
{
    int count = 0;
    *out = cli_alloc_array((size_t)fabric->ranks, sizeof **out);
    for (int r = 0; r < fabric->ranks; r++) {
        const char *host = fabric->host(fabric, r);
        bool seen = false;
        for (int i = count - 1; i >= 0 && !seen; i--) /* most often it is the last */
            seen = strcmp((*out)[i], host) == 0;
        if (!seen)
            (*out)[count++] = host;
    }
    return count;
}

void cli_ranks_say(const cli_session *s)
{
    const char **hosts;
    if (!s->fabric || s->silent || s->common.quiet)
        return;
    const int count = machines(s->fabric, &hosts);
    fprintf(stderr, "esscher %s: %d rank%s on %d machine%s by %s, %d thread%s here\n",
            s->command->name, s->fabric->ranks, s->fabric->ranks == 1 ? "" : "s", count,
            count == 1 ? "" : "s", s->fabric->name, s->exec.threads,
            s->exec.threads == 1 ? "" : "s");
    free(hosts);
}

void cli_ranks_facts(const cli_session *s, es_answer *answer)
{
    const char **hosts;
    if (!s->fabric)
        return;
    const int count = machines(s->fabric, &hosts);
    es_answer_provenance_count(answer, "ranks", s->fabric->ranks);
    es_answer_provenance_list(answer, "machines", hosts, count);
    es_answer_provenance(answer, "mpi", s->fabric->name);
    free(hosts);
}

void cli_ranks_leave(cli_session *s, bool well, int code)
{
    es_ranks_free(s->executor);
    if (!s->fabric)
        return;
    fflush(NULL); /* it may be the last thing this process does */
    s->fabric->exit_code = code;
    s->fabric->close(s->fabric, well);
    s->fabric = NULL;
}
