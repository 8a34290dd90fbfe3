/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c : processes that share the work of one run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "ranks/ranks_inside.h"

static const double wait_seconds = 0.5; /* time limit of one receive; the caller repeats it */

/* ---- verdicts ---- */

/* Records the failure that ends the run on this rank; every later call returns it. */
static es_status end_all(es_ranks *r, es_status status, const es_error *err)
{
    r->over = true;
    r->status = status;
    r->error = *err;
    return status;
}

/* Returns the failure that ended the run. If the caller has the same status, its own error stays,
 * because it may say more. */
static es_status still_over(const es_ranks *r, es_status status, es_error *err)
{
    if (status != r->status)
        *err = r->error;
    return r->status;
}

/* Sends the common verdict to all other ranks. */
static es_status send_verdicts(es_ranks *r, es_status status, const es_error *verdict,
                               es_error *err)
{
    es_status all = ES_OK;
    for (int to = 1; to < r->fabric->ranks; to++) {
        const es_status sent =
            es_rank_send(r, to, (es_message_header){.kind = ES_MESSAGE_VERDICT, .status = status},
                         verdict, sizeof *verdict, err);
        all = all == ES_OK ? sent : all;
        if (sent != ES_OK && status == ES_OK)
            break;
    }
    return all;
}

/* Sends the verdict to all ranks. If a success does not reach all of them, it becomes a failure. */
es_status es_verdict_send(es_ranks *r, es_status status, es_error *err)
{
    es_error verdict = {0}, ignored;
    if (status != ES_OK)
        verdict = *err;
    else if ((status = send_verdicts(r, ES_OK, &verdict, err)) == ES_OK)
        return ES_OK;
    else
        verdict = *err;
    send_verdicts(r, status, &verdict, &ignored);
    return end_all(r, status, &verdict);
}

es_status es_verdict_take(es_ranks *r, const es_rank_message *message, es_error *err)
{
    if (message->head.status == ES_OK)
        return ES_OK;
    es_rank_message_error(r, message, err);
    return end_all(r, (es_status)message->head.status, err);
}

/* ---- agreeing ---- */

/* Finds the first line in which two texts differ: its key and both values. */
static void first_difference(const char *here, const char *there, char key[48], char mine[96],
                             char theirs[96])
{
    size_t start = 0;
    for (size_t i = 0; here[i] && here[i] == there[i]; i++)
        start = here[i] == '\n' ? i + 1 : start;
    const char *const line[2] = {here + start, there + start};
    char *const out[2] = {mine, theirs};
    snprintf(key, 48, "%.*s", (int)strcspn(line[0], ":\n"), line[0]);
    for (int i = 0; i < 2; i++) {
        const size_t all = strcspn(line[i], "\n"), name = strcspn(line[i], ":\n");
        const size_t skip = name + 2 <= all ? name + 2 : all;
        snprintf(out[i], 96, "%.*s", (int)(all - skip), line[i] + skip);
    }
}

/* Compares the parameters of another rank with those of rank 0; the error names the first
 * difference. */
static es_status compare(const es_ranks *r, const char *same, const es_rank_message *l,
                         es_error *err)
{
    char name[96], key[48], mine[96], theirs[96];
    const bool ends = l->size > sizeof(es_error) && l->body[l->size - 1] == '\0';
    const char *there = ends ? l->body + sizeof(es_error) : "";
    if (strcmp(same, there) == 0)
        return ES_OK;
    first_difference(same, there, key, mine, theirs);
    const char *hint =
        strcmp(key, "kernels") == 0   ? "choose those that all machines have: --isa"
        : strcmp(key, "program") == 0 ? "use the same version of the program on all machines"
        : strcmp(key, "blas") == 0    ? "machines of one kind, or OPENBLAS_CORETYPE on all of them"
                                      : "start all ranks with the same arguments and files";
    return es_fail(err, ES_E_ARGUMENT, "ranks.differ", hint, "%s has another %s: %s; rank 0 has %s",
                   es_rank_name(r, l->from, name, sizeof name), key, theirs[0] ? theirs : "none",
                   mine[0] ? mine : "none");
}

/* The failure of the lowest rank that failed or differs. */
typedef struct meeting {
    int here;  /* number of ranks that have arrived */
    int worst; /* the lowest rank that failed or differs; the number of ranks if none did */
    es_status status;
    es_error error;
} meeting;

/* Compares the status and parameters of a rank with those of rank 0; stores the failure of the
 * lowest rank. */
static void compare_rank(es_ranks *r, const char *same, const es_rank_message *l, meeting *m)
{
    es_error err = {0};
    const es_status status =
        l->head.status != ES_OK ? es_rank_message_error(r, l, &err) : compare(r, same, l, &err);
    m->here++;
    if (status == ES_OK || l->from >= m->worst)
        return;
    m->worst = l->from;
    m->status = status;
    m->error = err;
}

/* Runs a meeting on rank 0: waits for all ranks, unless it failed itself, and sends the verdict. */
static es_status lead_meeting(es_ranks *r, es_status status, const char *same, es_error *err)
{
    meeting m = {.here = 1, .worst = r->fabric->ranks};
    while (status == ES_OK && m.here < r->fabric->ranks) {
        es_rank_message message;
        status = es_rank_receive(r, wait_seconds, &message, err);
        if (status == ES_OK && message.head.kind == ES_MESSAGE_MEET)
            compare_rank(r, same, &message, &m);
        es_rank_message_free(&message);
    }
    if (status == ES_OK && m.worst < r->fabric->ranks) {
        status = m.status;
        *err = m.error;
    }
    return es_verdict_send(r, status, err);
}

/* Sends status and parameters of this rank to rank 0 and waits for the verdict. */
static es_status attend_meeting(es_ranks *r, es_status status, const char *same, es_error *err)
{
    const size_t length = strlen(same) + 1, size = sizeof *err + length;
    char *body;
    ES_TRY(ES_MEM_BYTES(NULL, body, size, "a message", err));
    if (status != ES_OK) /* otherwise it is still empty */
        memcpy(body, err, sizeof *err);
    memcpy(body + sizeof *err, same, length);
    es_status sent = es_rank_send(
        r, 0, (es_message_header){.kind = ES_MESSAGE_MEET, .status = status}, body, size, err);
    es_mem_free(NULL, body);
    while (sent == ES_OK) {
        es_rank_message message;
        sent = es_rank_receive(r, wait_seconds, &message, err);
        if (sent != ES_OK || message.head.kind != ES_MESSAGE_VERDICT) {
            es_rank_message_free(&message);
            continue;
        }
        sent = es_verdict_take(r, &message, err);
        es_rank_message_free(&message);
        return sent;
    }
    return sent;
}

/* Makes all ranks continue or fail together: a collective step, called by every rank. */
static es_status agree(const es_executor *self, es_status status, const char *same, es_error *err)
{
    es_ranks *r = self->state;
    es_error own = {0};
    err = err ? err : &own;
    if (r->over)
        return still_over(r, status, err);
    r->round++;
    return self->rank == 0 ? lead_meeting(r, status, same, err)
                           : attend_meeting(r, status, same, err);
}

/* ---- sharing ---- */

/* Copies bytes along a tree: every rank that has them sends them on, so that their number doubles
 * in each step. */
static es_status receive_share(es_ranks *r, void *bytes, size_t size, es_error *err)
{
    for (;;) {
        es_rank_message message;
        ES_TRY(es_rank_receive(r, wait_seconds, &message, err));
        const uint32_t kind = message.head.kind;
        es_status status = ES_OK;
        if (kind == ES_MESSAGE_VERDICT)
            status = es_verdict_take(r, &message, err);
        else if (kind == ES_MESSAGE_SHARE && message.size != size)
            status = es_fail(err, ES_E_SHAPE, "ranks.share",
                             "use the same version of the program on all machines",
                             "received %zu bytes, expected %zu", message.size, size);
        else if (kind == ES_MESSAGE_SHARE)
            memcpy(bytes, message.body, size);
        es_rank_message_free(&message);
        if (kind == ES_MESSAGE_SHARE || status != ES_OK)
            return status;
    }
}

/* Copies bytes from rank 0 to all ranks. */
static es_status share(const es_executor *self, void *bytes, size_t size, es_error *err)
{
    es_ranks *r = self->state;
    if (r->over)
        return still_over(r, ES_OK, err);
    r->round++;
    if (self->rank > 0)
        ES_TRY(receive_share(r, bytes, size, err));
    for (int step = 1; step < self->ranks; step *= 2)
        if (self->rank < step && self->rank + step < self->ranks)
            ES_TRY(es_rank_send(r, self->rank + step, (es_message_header){.kind = ES_MESSAGE_SHARE},
                                bytes, size, err));
    return ES_OK;
}

/* ---- the executor ---- */

/* Runs a list of pieces on all ranks. Nested work inside a piece uses the threads of its process.
 */
static es_status run(const es_executor *self, const es_work *work, const es_exec *exec,
                     es_error *err)
{
    es_ranks *r = self->state;
    es_exec own = *exec;
    own.executor = NULL;
    if (r->over)
        return still_over(r, ES_OK, err);
    r->round++;
    return self->rank == 0 ? es_coordinator_run(r, work, &own, err)
                           : es_worker_run(r, work, &own, err);
}

es_status es_ranks_new(const es_fabric *fabric, es_executor **out, es_error *err)
{
    *out = NULL;
    es_ranks *r;
    ES_TRY(ES_MEM_NEW(NULL, r, 1, "ranks", err));
    r->fabric = fabric;
    r->executor = (es_executor){.name = fabric->name,
                                .rank = fabric->rank,
                                .ranks = fabric->ranks,
                                .run = run,
                                .share = share,
                                .agree = agree,
                                .state = r};
    *out = &r->executor;
    return ES_OK;
}

void es_ranks_free(es_executor *executor)
{
    es_ranks *r = executor ? executor->state : NULL;
    for (int64_t i = 0; r && i < r->n_early; i++)
        es_rank_message_free(&r->early[i]);
    es_mem_free(NULL, r ? r->early : NULL);
    es_mem_free(NULL, r);
}

es_ranks_tally es_ranks_tally_of(const es_executor *executor)
{
    return ((const es_ranks *)executor->state)->tally;
}
