/* SPDX-License-Identifier: Apache-2.0 */
/* encode_ids.c : token ids of the block that esscher encode runs: of a text, between what its
 * tokenizer puts around a block, or from a file as they are. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/npy.h>
#include <esscher/tokenizer.h>

#include "encode.h"
#include "talk.h"
#include "text.h"

/* ---- of a text ---- */

/* Receives tokens and stores those of the block; all are counted. */
static es_status take_tokens(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    block_ids *b = user;
    (void)err;
    for (int64_t i = 0; i < count; i++, b->total++)
        if (b->total >= b->first && b->total < b->last)
            b->ids[b->n++] = tokens[i].id;
    return ES_OK;
}

/* Feeds the text to the tokenizer in pieces. */
static es_status read_text(FILE *file, const char *name, es_token_stream *stream, int64_t *total,
                           es_error *err)
{
    static char piece[1 << 16];
    es_status status = ES_OK;
    for (bool first = true; status == ES_OK; first = false) {
        size_t bytes;
        status = cli_text_read(file, name, piece, sizeof piece, &bytes, err);
        if (status == ES_OK && bytes == 0)
            return es_token_stream_finish(stream, err);
        if (status == ES_OK && first)
            status = es_text_check(piece, bytes < 4096 ? bytes : 4096, name, err);
        if (status == ES_OK)
            status = es_token_stream_write(stream, piece, bytes, err);
        *total += (int64_t)bytes;
        if (status == ES_OK && cli_interrupted())
            status = ES_E_INTERRUPTED;
    }
    return status;
}

/* Reports bytes that were not UTF-8 and became U+FFFD. */
static void report_replaced(const cli_session *session, const es_token_stream *stream,
                            const char *path)
{
    char shown[256];
    int64_t at;
    const int64_t count = es_token_stream_replaced(stream, NULL, &at);
    if (count && !session->common.quiet)
        fprintf(stderr,
                "esscher encode: %s: byte %lld: not UTF-8, taken for U+FFFD; %lld such in the "
                "text\n",
                cli_escape(path, shown, sizeof shown), (long long)at, (long long)count);
}

/* Tokenizes the text without special tokens and keeps the ids of the block. */
static es_status tokenize(encode_job *job, const es_tokenizer *tokenizer, es_error *err)
{
    const es_encode_opts opts = {.no_specials = true,
                                 .invalid = (es_text_invalid)job->o->invalid,
                                 .vocab = job->config.vocab};
    const char *path = job->o->text;
    es_token_stream *stream;
    FILE *file;
    es_status status = cli_text_open(path, &file, err);
    if (status != ES_OK)
        return status;
    status = es_token_stream_open(tokenizer, &opts, take_tokens, &job->block, &stream, err);
    if (status == ES_OK) {
        int64_t bytes = 0, at;
        status = read_text(file, path, stream, &bytes, err);
        const int64_t count = es_token_stream_replaced(stream, NULL, &at);
        if (status == ES_OK)
            status = es_text_check_replaced(count, bytes, opts.invalid, path, at, err);
        if (status != ES_OK && !err->file[0])
            snprintf(err->file, sizeof err->file, "%s", path);
        report_replaced(job->session, stream, path);
        es_token_stream_close(stream);
    }
    fclose(file);
    return status;
}

/* Finds the block in the text and adds the special tokens around it. */
static es_status find_block(encode_job *job, const es_tokenizer *tokenizer, es_error *err)
{
    const es_tokenizer_info info = es_tokenizer_frame(tokenizer);
    block_ids *b = &job->block;
    job->capacity = job->config.positions - info.prefix_count - info.suffix_count;
    if (job->capacity < 1)
        return cli_fail(err, ES_E_FORMAT, job->folder, "encode.positions",
                        "is max_position_embeddings of config.json right?",
                        "the model has no position for a token of text");
    b->ids = cli_alloc_array((size_t)job->config.positions, sizeof *b->ids);
    b->first = job->o->block * job->capacity;
    b->last = b->first + job->capacity;
    for (int i = 0; i < info.prefix_count; i++)
        b->ids[b->n++] = info.prefix[i];
    const es_status status = tokenize(job, tokenizer, err);
    if (status != ES_OK)
        return status;
    for (int i = 0; i < info.suffix_count; i++)
        b->ids[b->n++] = info.suffix[i];
    if (b->total == 0)
        return cli_fail(err, ES_E_EMPTY, job->o->text, "text.empty", "give a text with words in it",
                        "there are no tokens: the text is empty, or holds only white space and "
                        "control characters");
    const int64_t blocks = (b->total + job->capacity - 1) / job->capacity;
    if (job->o->block >= blocks)
        return cli_fail(err, ES_E_ARGUMENT, job->o->text, "encode.block", "blocks count from 0",
                        "--block %lld: the text has %lld tokens, its last block is %lld",
                        (long long)job->o->block, (long long)b->total, (long long)blocks - 1);
    if (blocks > 1 && !job->session->common.quiet)
        fprintf(stderr,
                "esscher encode: the text has %lld tokens, %lld blocks; this is block %lld\n",
                (long long)b->total, (long long)blocks, (long long)job->o->block);
    return ES_OK;
}

/* ---- ids from a file ---- */

/* How many there are, before any is read: integers, no more of them than the model has places. */
static es_status inspect_ids(encode_job *job, es_error *err)
{
    const es_model_config *c = &job->config;
    const int64_t positions = c->positions;
    es_npy_info info;
    const es_status status = es_npy_inspect_as(job->o->ids, ES_NPY_RAW_WHOLE, &info, err);
    if (status != ES_OK)
        return status;
    if (!strchr("iu", info.descr[1]))
        return cli_fail(err, ES_E_UNSUPPORTED, job->o->ids, "encode.ids", "save them as int64",
                        "token ids are whole numbers; the file has %.8s", info.descr);
    if (info.rank > 2 || (info.rank == 2 && info.shape[0] != 1))
        return cli_fail(err, ES_E_SHAPE, job->o->ids, "encode.ids", "one block: (n) or (1, n)",
                        "an array of %d dimensions, the first of %lld", info.rank,
                        (long long)info.shape[0]);
    job->most = info.shape[info.rank - 1];
    if (job->most < 1)
        return cli_fail(err, ES_E_EMPTY, job->o->ids, "encode.ids", "a block has at least one id",
                        "there are no ids");
    /* longer than what attention supports but not than the table: the forward pass says why */
    if (job->most > positions && job->most > c->position_rows - c->first_position)
        return cli_fail(err, ES_E_SHAPE, job->o->ids, "encode.length", "cut them into blocks",
                        "%lld ids; the model has %lld positions", (long long)job->most,
                        (long long)positions);
    return ES_OK;
}

/* Fails for an id that the model does not have, with its place: it would be read from beyond a
 * table. */
static es_status load_ids(encode_job *job, es_error *err)
{
    const int64_t vocab = job->config.vocab;
    block_ids *b = &job->block;
    es_array array;
    const es_status status =
        es_npy_load_as(job->o->ids, ES_NPY_RAW_WHOLE, &job->session->budget, &array, err);
    if (status != ES_OK)
        return status;
    if (array.dtype != ES_F64 || array.shape[array.rank - 1] != job->most) {
        es_array_free(&array);
        return cli_fail(err, ES_E_IO, job->o->ids, "file.changed", "run again",
                        "the file changed while it was read");
    }
    const double *values = array.data; /* whole numbers become f64 */
    int64_t wrong = -1;
    b->ids = cli_alloc_array((size_t)job->most, sizeof *b->ids);
    for (; b->n < job->most && wrong < 0; b->n++)
        if (values[b->n] >= 0.0 && values[b->n] < (double)vocab)
            b->ids[b->n] = (int32_t)values[b->n];
        else
            wrong = b->n;
    const double value = wrong < 0 ? 0.0 : values[wrong];
    es_array_free(&array);
    if (wrong >= 0)
        return cli_fail(err, ES_E_FORMAT, job->o->ids, "encode.id",
                        "are they of this model's tokenizer?",
                        "token %lld (counted from 0) has id %.0f; the vocabulary has ids 0 to %lld",
                        (long long)wrong, value, (long long)vocab - 1);
    return ES_OK;
}

/* ---- of either ---- */

/* Ids that a block may have: no token is made of less than a byte, but for those around a text or
 * its first character, and what a normalizer writes in two. */
es_status encode_ids_most(encode_job *job, es_error *err)
{
    struct stat st;
    job->most = job->config.positions;
    if (job->o->ids)
        return inspect_ids(job, err);
    if (stat(job->o->text, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < (off_t)1 << 40) {
        const int64_t bound = 4 * (int64_t)st.st_size + 64;
        job->most = bound < job->most ? bound : job->most;
    }
    return ES_OK;
}

/* Finds the ids of the block: from a file, or from the text with the model's tokenizer. */
es_status encode_ids_find(encode_job *job, es_error *err)
{
    es_tokenizer *tokenizer;
    if (job->o->ids)
        return load_ids(job, err);
    es_status status = es_tokenizer_open(job->folder, &job->session->budget, &tokenizer, err);
    if (status != ES_OK)
        return status;
    status = es_model_check_tokenizer(&job->config, job->folder, tokenizer, err);
    if (status == ES_OK)
        status = find_block(job, tokenizer, err);
    es_tokenizer_free(tokenizer);
    return status;
}
