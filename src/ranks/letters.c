/* SPDX-License-Identifier: Apache-2.0 */
/* letters.c : messages between ranks: a head and a body. All ranks run the same file on the same
 * kind of machine, which they check first, so that structs are sent as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "ranks/ranks_inside.h"

static const uint32_t magic = 0x31527345; /* "EsR1": of this form of letters */

const char *es_rank_name(const es_ranks *r, int rank, char *out, size_t size)
{
    snprintf(out, size, "rank %d on %.60s", rank, r->fabric->host(r->fabric, rank));
    return out;
}

/* ---- sending ---- */

es_status es_post_whole(es_ranks *r, int to, es_letter_head head, void *bytes, size_t size,
                        es_error *err)
{
    head.magic = magic;
    head.round = r->round;
    memcpy(bytes, &head, sizeof head);
    return r->fabric->send(r->fabric, to, bytes, size, err);
}

es_status es_post(es_ranks *r, int to, es_letter_head head, const void *body, size_t size,
                  es_error *err)
{
    char *whole;
    ES_TRY(ES_MEM_BYTES(NULL, whole, sizeof head + size, "a letter", err));
    if (size)
        memcpy(whole + sizeof head, body, size);
    const es_status status = es_post_whole(r, to, head, whole, sizeof head + size, err);
    es_mem_free(NULL, whole);
    return status;
}

/* ---- receiving ---- */

void es_letter_free(es_letter *letter)
{
    free(letter->memory);
    *letter = (es_letter){0};
}

/* Splits a message into head and body; fails if it comes from another version of the program. */
static es_status open_letter(const es_ranks *r, const es_message *message, es_letter *out,
                             es_error *err)
{
    char name[96];
    *out = (es_letter){.from = message->from, .memory = message->bytes};
    if (message->size >= sizeof out->head)
        memcpy(&out->head, message->bytes, sizeof out->head);
    if (out->head.magic != magic) {
        es_letter_free(out);
        return es_fail(err, ES_E_UNSUPPORTED, "ranks.letter",
                       "use the same version of the program on all machines",
                       "%s runs another version of this program",
                       es_rank_name(r, message->from, name, sizeof name));
    }
    out->body = (const char *)message->bytes + sizeof out->head;
    out->size = message->size - sizeof out->head;
    return ES_OK;
}

/* Returns true for a message that reports a failure to all ranks. */
static bool tells_of_failure(const es_letter *l)
{
    return (l->head.kind == ES_LETTER_MEET || l->head.kind == ES_LETTER_VERDICT) &&
           l->head.status != ES_OK;
}

/* One that was early and whose round has come. */
static bool take_early(es_ranks *r, es_letter *out)
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
static es_status put_aside(es_ranks *r, es_letter *letter, es_error *err)
{
    const es_status status =
        ES_MEM_GROW(NULL, r->early, &r->room_early, r->n_early + 1, "letters", err);
    if (status != ES_OK)
        es_letter_free(letter);
    else
        r->early[r->n_early++] = *letter;
    return status;
}

es_status es_fetch(es_ranks *r, double seconds, es_letter *out, es_error *err)
{
    const double until = es_seconds() + seconds;
    *out = (es_letter){0};
    if (take_early(r, out))
        return ES_OK;
    for (double left = seconds;; left = until - es_seconds()) {
        es_message message = {0};
        es_letter letter;
        ES_TRY(r->fabric->receive(r->fabric, left > 0.0 ? left : 0.0, &message, err));
        if (!message.bytes)
            return ES_OK;
        ES_TRY(open_letter(r, &message, &letter, err));
        if (letter.head.round == r->round || tells_of_failure(&letter)) {
            *out = letter;
            return ES_OK;
        }
        if (letter.head.round < r->round)
            es_letter_free(&letter);
        else
            ES_TRY(put_aside(r, &letter, err));
    }
}

es_status es_letter_error(const es_ranks *r, const es_letter *letter, es_error *err)
{
    const size_t skip = letter->head.kind == ES_LETTER_FAILED ? sizeof(es_rank_piece) : 0;
    char name[96], message[sizeof err->message];
    es_error told = {0};
    if (letter->size >= skip + sizeof told)
        memcpy(&told, letter->body + skip, sizeof told);
    told.code = (es_status)letter->head.status;
    if (letter->from != r->fabric->rank && letter->head.kind != ES_LETTER_VERDICT) {
        memcpy(message, told.message, sizeof message);
        snprintf(told.message, sizeof told.message, "%s: %.200s",
                 es_rank_name(r, letter->from, name, sizeof name), message);
    }
    if (err)
        *err = told;
    return told.code;
}
