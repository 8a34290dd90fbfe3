/* SPDX-License-Identifier: Apache-2.0 */
/* rank_messages.c : messages between ranks: a head and a body. All ranks run the same file on the
 * same kind of machine, which they check first, so that structs are sent as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "ranks/ranks_inside.h"

static const uint32_t magic = 0x31527345; /* "EsR1": version of the message format */

const char *es_rank_name(const es_ranks *r, int rank, char *out, size_t size)
{
    snprintf(out, size, "rank %d on %.60s", rank, r->fabric->host(r->fabric, rank));
    return out;
}

/* ---- sending ---- */

es_status es_rank_send_buffer(es_ranks *r, int to, es_message_header head, void *bytes, size_t size,
                              es_error *err)
{
    head.magic = magic;
    head.round = r->round;
    memcpy(bytes, &head, sizeof head);
    return r->fabric->send(r->fabric, to, bytes, size, err);
}

es_status es_rank_send(es_ranks *r, int to, es_message_header head, const void *body, size_t size,
                       es_error *err)
{
    char *whole;
    ES_TRY(ES_MEM_BYTES(NULL, whole, sizeof head + size, "a message", err));
    if (size)
        memcpy(whole + sizeof head, body, size);
    const es_status status = es_rank_send_buffer(r, to, head, whole, sizeof head + size, err);
    es_mem_free(NULL, whole);
    return status;
}

/* ---- receiving ---- */

void es_rank_message_free(es_rank_message *message)
{
    free(message->memory);
    *message = (es_rank_message){0};
}

/* Splits a message into head and body; fails if it comes from another version of the program. */
static es_status parse_message(const es_ranks *r, const es_message *message, es_rank_message *out,
                               es_error *err)
{
    char name[96];
    *out = (es_rank_message){.from = message->from, .memory = message->bytes};
    if (message->size >= sizeof out->head)
        memcpy(&out->head, message->bytes, sizeof out->head);
    if (out->head.magic != magic) {
        es_rank_message_free(out);
        return es_fail(err, ES_E_UNSUPPORTED, "ranks.message",
                       "use the same version of the program on all machines",
                       "%s runs another version of this program",
                       es_rank_name(r, message->from, name, sizeof name));
    }
    out->body = (const char *)message->bytes + sizeof out->head;
    out->size = message->size - sizeof out->head;
    return ES_OK;
}

/* Returns true for a message that reports a failure to all ranks. */
static bool reports_failure(const es_rank_message *l)
{
    return (l->head.kind == ES_MESSAGE_MEET || l->head.kind == ES_MESSAGE_VERDICT) &&
           l->head.status != ES_OK;
}

/* Removes a stored message whose round has begun; returns false if there is none. */
static bool take_early(es_ranks *r, es_rank_message *out)
{
    for (int64_t i = 0; i < r->n_early; i++)
        if (r->early[i].head.round <= r->round) {
            *out = r->early[i];
            memmove(r->early + i, r->early + i + 1, (size_t)(--r->n_early - i) * sizeof *r->early);
            return true;
        }
    return false;
}

/* Stores a message for a later step. */
static es_status store_early(es_ranks *r, es_rank_message *message, es_error *err)
{
    const es_status status =
        ES_MEM_GROW(NULL, r->early, &r->early_capacity, r->n_early + 1, "messages", err);
    if (status != ES_OK)
        es_rank_message_free(message);
    else
        r->early[r->n_early++] = *message;
    return status;
}

es_status es_rank_receive(es_ranks *r, double seconds, es_rank_message *out, es_error *err)
{
    const double until = es_seconds() + seconds;
    *out = (es_rank_message){0};
    if (take_early(r, out))
        return ES_OK;
    for (double left = seconds;; left = until - es_seconds()) {
        es_message message = {0};
        es_rank_message got;
        ES_TRY(r->fabric->receive(r->fabric, left > 0.0 ? left : 0.0, &message, err));
        if (!message.bytes)
            return ES_OK;
        ES_TRY(parse_message(r, &message, &got, err));
        if (got.head.round == r->round || reports_failure(&got)) {
            *out = got;
            return ES_OK;
        }
        if (got.head.round < r->round)
            es_rank_message_free(&got);
        else
            ES_TRY(store_early(r, &got, err));
    }
}

es_status es_rank_message_error(const es_ranks *r, const es_rank_message *message, es_error *err)
{
    const size_t skip = message->head.kind == ES_MESSAGE_FAILED ? sizeof(es_rank_piece) : 0;
    char name[96], text[sizeof err->message];
    es_error reported = {0};
    if (message->size >= skip + sizeof reported)
        memcpy(&reported, message->body + skip, sizeof reported);
    reported.code = (es_status)message->head.status;
    if (message->from != r->fabric->rank && message->head.kind != ES_MESSAGE_VERDICT) {
        memcpy(text, reported.message, sizeof text);
        snprintf(reported.message, sizeof reported.message, "%s: %.200s",
                 es_rank_name(r, message->from, name, sizeof name), text);
    }
    if (err)
        *err = reported;
    return reported.code;
}
