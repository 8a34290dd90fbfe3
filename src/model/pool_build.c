/* SPDX-License-Identifier: Apache-2.0 */
/* pool_build.c : texts, through the model, into the files of a pool. */
#include "model/pool.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <esscher/executor.h>
#include <esscher/run.h>

#include "base/error.h"
#include "base/executor.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/model.h"
#include "model/pool_files.h"
#include "store/file.h"
#include "store/run.h"

/* Everything one build works on. */
typedef struct build {
    const es_pool_spec *spec;
    const es_model_config *config;
    es_exec exec;
    int rank;
    es_pool_text text;
    es_arena arena;     /* holds the arrays below */
    es_pool_kept *kept; /* (layers) of a sparse pool; NULL: all rows */
    es_run *run;        /* of rank 0 */
    int64_t stage, sums_stage;
    int64_t seen, sums;  /* numbers of a batch: statistics, checksums */
    int64_t *missing;    /* (batches) their numbers */
    int64_t length;      /* ids of a full block */
    int64_t finished;    /* batches */
    es_npy_rows *layers; /* (config->layers) */
    int64_t together;    /* blocks of a batch that are computed at a time */
    int64_t before;      /* blocks of the batch that were computed before these */
    int64_t of_batch;    /* blocks of the batch */
    float *inputs;       /* (together, layers, length, hidden) */
    double *raw;         /* (ES_POOL_BATCH, ES_POOL_SEEN, layers, heads), as forward gives them */
} build;

/* Returns the number of batches of blocks. */
static int64_t batches_of(const build *b) { return es_pool_batches(b->text.blocks.count); }

/* Returns the first row of a block. */
static int64_t row_of(const build *b, int64_t block) { return es_pool_text_row(&b->text, block); }

/* ---- what determines the numbers ---- */

/* Adds the stage of checksums, with a column for each layer. */
static es_status add_sums(build *b, es_error *err)
{
    enum { NAME = 32 };
    const int64_t L = b->config->layers;
    char *names;
    const char **columns;
    es_arena arena = {.budget = b->exec.budget};
    es_status status = ES_ARENA_NEW_2D(&arena, names, L, NAME, "names", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&arena, columns, L, "names", err);
    for (int64_t l = 0; l < L && status == ES_OK; l++) {
        columns[l] = names + l * NAME;
        snprintf(names + l * NAME, NAME, "layer-%lld", (long long)l);
    }
    if (status == ES_OK)
        status =
            es_run_add_stage(b->run, ES_POOL_SUMS, b->sums / L, L, columns, &b->sums_stage, err);
    es_arena_free(&arena);
    return status;
}

/* Resumes a run. A run of another version and one with other parameters give different errors. */
static es_status resume_run(const char *path, const es_run_spec *spec, es_run **out, es_error *err)
{
    es_run *before;
    ES_TRY(es_run_open(path, &before, err));
    const es_status status = es_pool_check_format(before, path, err);
    es_run_close(before, NULL);
    return status == ES_OK ? es_run_resume(path, spec, out, err) : status;
}

enum { MOST_PARAMS = 13, TEXT = 96 };

typedef struct params {
    es_run_pair pairs[MOST_PARAMS];
    char texts[MOST_PARAMS][TEXT];
    int count;
} params;

/* Adds a text to the parameters of the run. */
static void add_text(params *p, const char *key, const char *text)
{
    snprintf(p->texts[p->count], TEXT, "%s", text);
    p->pairs[p->count] = (es_run_pair){key, p->texts[p->count]};
    p->count++;
}

/* Adds a hash to the parameters of the run. */
static void add_hash(params *p, const char *key, uint64_t hash)
{
    char text[TEXT];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    add_text(p, key, text);
}

/* Hashes the bytes of all text files, those of a mixture's parts included. */
static es_status hash_texts(const es_pool_spec *s, uint64_t *out, es_error *err)
{
    *out = 0;
    ES_TRY(es_pool_hash_texts(s->texts, s->n_texts, out, err));
    for (int64_t i = 0; i < s->n_parts; i++)
        ES_TRY(es_pool_hash_texts(s->parts[i].texts, s->parts[i].n_texts, out, err));
    return ES_OK;
}

/* Lists all that the rows depend on as parameters of the run, as a hash where it is large: a pool
 * that was made of something else is refused instead of continued. The last four are listed only
 * if they differ from their defaults (unchanged text, all rows, the longest blocks, blocks with
 * their first tokens), because older pools do not have them. */
static es_status list_params(const build *b, params *out, es_error *err)
{
    static const char *const shuffles[] = {"none", "word", "sentence", "block"};
    const es_pool_spec *s = b->spec;
    char text[TEXT];
    uint64_t texts, model;
    ES_TRY(hash_texts(s, &texts, err));
    ES_TRY(es_pool_hash_model(s->model, &b->exec, &model, err));
    out->count = 0;
    add_hash(out, ES_POOL_MODEL_KEY, model);
    add_hash(out, "texts", texts);
    add_hash(out, ES_POOL_IDS_KEY, es_pool_text_hash(&b->text));
    snprintf(text, sizeof text, "%lld", (long long)b->text.rows);
    add_text(out, "tokens", text);
    add_text(out, "specials", s->drop_specials ? "dropped" : "kept");
    add_text(out, "store", s->store == ES_POOL_F16 ? "f16" : "f32");
    add_text(out, "repeat", s->repeat ? "yes" : "no");
    add_text(out, "precision", es_dtype_name(es_model_precision(s->model)));
    add_text(out, ES_POOL_FORMAT_KEY, ES_POOL_FORMAT);
    snprintf(text, sizeof text, "%s, seed %llu", shuffles[s->shuffle], (unsigned long long)s->seed);
    if (s->shuffle)
        add_text(out, "shuffle", text);
    if (b->kept)
        add_hash(out, "keep", es_pool_kept_hash(b->kept, b->config->layers));
    snprintf(text, sizeof text, "%lld", (long long)b->length);
    if (b->length < b->config->positions)
        add_text(out, "length", text);
    snprintf(text, sizeof text, "%lld", (long long)s->skip);
    if (s->skip)
        add_text(out, "skip", text);
    return ES_OK;
}

/* Creates the folder of the pool if it does not exist. */
static es_status make_folder(const char *folder, es_error *err)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return es_file_fail(err, folder, "file.create", "does the folder above it exist?",
                            "make the folder", errno);
    return ES_OK;
}

/* Creates or resumes pool.run, which holds parameters, finished batches and checksums. */
static es_status open_run(build *b, es_error *err)
{
    static const char *const columns[ES_POOL_SEEN] = {"entropy", "top_weight", "sum_squares",
                                                      "ess"};
    char path[ES_POOL_PATH];
    struct stat there;
    params p;
    ES_TRY(list_params(b, &p, err));
    const es_run_pair facts[] = {{"version", es_version()},
                                 {"folder", es_model_folder(b->spec->model)}};
    const es_run_spec spec = {"pool", p.pairs, p.count, facts, sizeof facts / sizeof facts[0]};
    ES_TRY(make_folder(b->spec->folder, err));
    es_pool_run_path(b->spec->folder, path);
    ES_TRY(stat(path, &there) == 0 ? resume_run(path, &spec, &b->run, err)
                                   : es_run_create(path, &spec, false, &b->run, err));
    ES_TRY(es_run_add_stage(b->run, ES_POOL_STAGE, b->seen / ES_POOL_SEEN, ES_POOL_SEEN, columns,
                            &b->stage, err));
    return add_sums(b, err);
}

/* ---- the folder ---- */

/* Fails unless all ranks use the same folder. Rank 0 writes a random number into it and the others
 * look for it; a network file system may take a moment. */
static uint64_t draw_nonce(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t when = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    return es_pool_chain(when, (uint64_t)getpid());
}

/* Writes a random number into the folder of the pool, for check_shared(). */
static es_status leave_nonce(const build *b, uint64_t nonce, es_error *err)
{
    char path[ES_POOL_PATH];
    es_pool_nonce_path(b->spec->folder, path);
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(&nonce, sizeof nonce, 1, f) == 1;
    if ((f && fclose(f) != 0) || !written)
        return es_file_fail(err, path, "file.create", "is the folder writable?", "write", errno);
    return ES_OK;
}

/* Returns whether the number of rank 0 appears in this machine's folder. Network file systems
 * show new files with a delay, hence several tries. */
static bool sees_nonce(const build *b, uint64_t nonce)
{
    enum { TRIES = 50 }; /* a tenth of a second each */
    char path[ES_POOL_PATH];
    es_pool_nonce_path(b->spec->folder, path);
    for (int i = 0; i < TRIES; i++) {
        uint64_t found = 0;
        FILE *f = fopen(path, "rb");
        const bool read = f && fread(&found, sizeof found, 1, f) == 1;
        if (f)
            fclose(f);
        if (read && found == nonce)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return false;
}

/* Fails unless all ranks write into the same folder. Without this check each machine would fill
 * its own, and the pool of rank 0 would have holes. */
static es_status check_shared(const build *b, es_error *err)
{
    uint64_t nonce = draw_nonce();
    char path[ES_POOL_PATH];
    es_status status = ES_OK;
    if (es_executor_of(&b->exec)->ranks < 2)
        return ES_OK;
    if (b->rank == 0)
        status = leave_nonce(b, nonce, err);
    ES_TRY(es_work_agree(&b->exec, status, "", err));
    ES_TRY(es_work_share(&b->exec, &nonce, sizeof nonce, err));
    if (!sees_nonce(b, nonce))
        status = es_fail(err, ES_E_IO, "pool.shared",
                         "use --pool-dir DIR on a file system that all machines share",
                         "folder %s is not the folder that rank 0 uses", b->spec->folder);
    status = es_work_agree(&b->exec, status, "", err);
    es_pool_nonce_path(b->spec->folder, path);
    if (b->rank == 0)
        unlink(path);
    return status;
}

/* Opens the files of all layers with their full length (holes cost nothing), so that rows can be
 * written in any order of batches. */
static es_status open_files(build *b, es_error *err)
{
    const es_model_config *c = b->config;
    char path[ES_POOL_PATH];
    es_run_stage stage = {0};
    if (b->run)
        ES_TRY(es_run_get_stage(b->run, b->stage, &stage, err));
    for (int64_t l = 0; l < c->layers; l++) {
        es_pool_layer_path(b->spec->folder, l, path);
        /* a new file would be zeros where pool.run says that there are rows */
        if (stage.cells > 0 && access(path, F_OK) != 0)
            return es_fail_file(err, ES_E_FORMAT, path, -1, "pool.damaged",
                                "remove the pool's folder and build it again",
                                "the file is missing, but pool.run says that it was started");
        ES_TRY(es_npy_rows_create(path, b->kept ? b->kept[l].count : b->text.rows, c->hidden,
                                  b->spec->store == ES_POOL_F16, &b->layers[l], err));
    }
    return ES_OK;
}

/* Allocates the hidden states and statistics of one batch and the list of layers' files. */
static es_status allocate(build *b, es_error *err)
{
    const es_model_config *c = b->config;
    es_arena *arena = &b->arena;
    b->together =
        es_pool_together(c, c->layers, b->length, es_parallel_threads(&b->exec, INT64_MAX));
    ES_TRY(ES_ARENA_NEW_2D(arena, b->inputs, b->together * c->layers, b->length * c->hidden,
                           "hidden states", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, b->raw, ES_POOL_BATCH * ES_POOL_SEEN, c->layers * c->heads,
                           "attention statistics", err));
    ES_TRY(ES_ARENA_NEW(arena, b->layers, c->layers, "layers", err));
    for (int64_t l = 0; l < c->layers; l++)
        b->layers[l].fd = -1;
    return ES_ARENA_NEW(arena, b->missing, batches_of(b), "batches", err);
}

/* ---- one batch ---- */

/* Writes one block of one layer, and the checksums of its rows from row `at` of the batch on. */
static es_status write_block(build *b, int64_t layer, int64_t block, int64_t at, float *rows,
                             double *sums, es_error *err)
{
    const int64_t first = row_of(b, block), count = row_of(b, block + 1) - first;
    const int64_t H = b->config->hidden;
    for (int64_t i = 0; b->spec->store == ES_POOL_F16 && i < count * H; i++)
        rows[i] = es_half_to_float(es_half_from_float(rows[i]));
    for (int64_t i = 0; i < count; i++) {
        const uint64_t sum = es_pool_sum(rows + i * H, H);
        memcpy(&sums[(at + i) * b->config->layers + layer], &sum, sizeof sum);
    }
    return es_npy_rows_write(&b->layers[layer], first, count, rows, err);
}

/* Writes the rows that a sparse pool has of one block, after moving them to the beginning of
 * `rows`. */
static es_status write_kept(build *b, int64_t layer, int64_t block, float *rows, uint64_t *chain,
                            es_error *err)
{
    const es_pool_kept *kept = &b->kept[layer];
    const int64_t first = row_of(b, block), H = b->config->hidden;
    const int64_t from = es_pool_kept_find(kept, first);
    const int64_t to = es_pool_kept_find(kept, row_of(b, block + 1));
    for (int64_t i = from; i < to; i++) {
        float *row = rows + (i - from) * H;
        memmove(row, rows + (kept->rows[i] - first) * H, (size_t)H * sizeof *row);
        for (int64_t j = 0; b->spec->store == ES_POOL_F16 && j < H; j++)
            row[j] = es_half_to_float(es_half_from_float(row[j]));
        *chain = es_pool_chain(*chain, es_pool_sum(row, H));
    }
    return to > from ? es_npy_rows_write(&b->layers[layer], from, to - from, rows, err) : ES_OK;
}

/* Writes `count` blocks of the batch that begins with block `first`, from block first + b->before
 * on, layer by layer; `sums` are those of the batch so far. */
static es_status write_layers(build *b, int64_t first, int64_t count, double *sums, es_error *err)
{
    const es_model_config *c = b->config;
    const int64_t per_block = c->layers * b->length * c->hidden;
    const int64_t *start = b->text.blocks.start;
    for (int64_t l = 0; l < c->layers; l++) {
        uint64_t chain;
        memcpy(&chain, &sums[l], sizeof chain); /* of rows that are kept */
        for (int64_t i = 0; i < count; i++) {
            const int64_t block = first + b->before + i, n = start[block + 1] - start[block];
            float *rows = b->inputs + i * per_block + (l * n + b->text.prefix) * c->hidden;
            ES_TRY(b->kept ? write_kept(b, l, block, rows, &chain, err)
                           : write_block(b, l, block, row_of(b, block) - row_of(b, first), rows,
                                         sums, err));
        }
        if (b->kept)
            memcpy(&sums[l], &chain, sizeof chain);
    }
    return ES_OK;
}

/* Reorders statistics from (block, statistic, head) to (block, head, statistic); blocks beyond the
 * last are NaN. */
static void arrange(const build *b, int64_t count, double *seen)
{
    const int64_t heads = b->config->layers * b->config->heads;
    for (int64_t i = 0; i < ES_POOL_BATCH; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t s = 0; s < ES_POOL_SEEN; s++)
                seen[(i * heads + h) * ES_POOL_SEEN + s] =
                    i < count ? b->raw[(i * ES_POOL_SEEN + s) * heads + h] : (double)NAN;
}

/* Progress of a batch as part of that of all: 99 hundredths are the model's, the rest writing. */
static bool batch_progress(void *user, double done, double total)
{
    const build *b = user;
    const double blocks = (double)b->before + (total > 0.0 ? done : 0.0);
    const double part = 0.99 * blocks / (double)b->of_batch;
    return b->exec.progress(b->exec.progress_user, (double)b->finished + part,
                            (double)batches_of(b));
}

/* Reports the number of finished batches; fails if the caller wants to stop. */
static es_status report_finished(const build *b, es_error *err)
{
    if (b->exec.progress &&
        b->exec.progress(b->exec.progress_user, (double)b->finished, (double)batches_of(b)))
        return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "asked to stop");
    return ES_OK;
}

/* Computes and writes `count` blocks of the batch that begins with block `first`, from block first
 * + b->before on. */
static es_status run_blocks(build *b, int64_t first, int64_t count, const es_exec *exec,
                            double *sums, es_error *err)
{
    const es_model_config *c = b->config;
    const es_blocks *text = &b->text.blocks;
    const int64_t heads = c->layers * c->heads;
    es_model_block blocks[ES_POOL_BATCH];
    for (int64_t i = 0; i < count; i++) {
        const int64_t *start = text->start + first + b->before + i;
        double *raw = b->raw + (b->before + i) * ES_POOL_SEEN * heads;
        blocks[i] = (es_model_block){.ids = text->ids + start[0],
                                     .n = start[1] - start[0],
                                     .inputs = b->inputs + i * c->layers * b->length * c->hidden,
                                     .entropy = raw,
                                     .top_weight = raw + heads,
                                     .sum_squares = raw + 2 * heads,
                                     .ess = raw + 3 * heads};
    }
    ES_TRY(es_model_forward(b->spec->model, blocks, count, exec, err));
    return write_layers(b, first, count, sums, err);
}

/* Computes one batch of blocks: hidden states go to the files of the layers, statistics and
 * checksums into `out`. Each file is synced once per batch. */
static es_status run_batch(void *user, int64_t batch, const es_exec *exec, double *out,
                           es_error *err)
{
    build *b = user;
    const int64_t first = batch * ES_POOL_BATCH, left = b->text.blocks.count - first;
    double *sums = out + b->seen;
    b->of_batch = left < ES_POOL_BATCH ? left : ES_POOL_BATCH;
    memset(sums, 0, (size_t)b->sums * sizeof *sums);
    for (b->before = 0; b->before < b->of_batch; b->before += b->together) {
        const int64_t rest = b->of_batch - b->before;
        ES_TRY(run_blocks(b, first, rest < b->together ? rest : b->together, exec, sums, err));
    }
    for (int64_t l = 0; l < b->config->layers; l++) /* before the run file says it is there */
        ES_TRY(es_npy_rows_sync(&b->layers[l], err));
    arrange(b, b->of_batch, out);
    return ES_OK;
}

/* Stores a batch: rows are on disk before their checksums, and these before the statistics, whose
 * cell marks the batch as finished. After a crash in between the batch is repeated. */
static es_status keep_batch(void *user, int64_t batch, const double *numbers, es_error *err)
{
    build *b = user;
    ES_TRY(es_run_put_cell(b->run, b->sums_stage, batch, numbers + b->seen, err));
    ES_TRY(es_run_put_cell(b->run, b->stage, batch, numbers, err));
    b->finished++;
    return report_finished(b, err);
}

/* ---- all of it ---- */

/* Counts the batches that an earlier run did not finish; finished ones count as progress. */
static es_status find_missing(build *b, int64_t *count, es_error *err)
{
    *count = 0;
    for (int64_t i = 0; i < batches_of(b); i++) {
        bool done, summed;
        ES_TRY(es_run_has_cell(b->run, b->stage, i, &done, err));
        ES_TRY(es_run_has_cell(b->run, b->sums_stage, i, &summed, err));
        if (!done || !summed)
            b->missing[(*count)++] = i;
        else
            b->finished++;
    }
    return b->finished ? report_finished(b, err) : ES_OK;
}

/* Computes the batches that are missing, on all ranks. Rank 0 knows which they are. */
static es_status run_batches(build *b, es_error *err)
{
    es_work work = {.noun = "batches",
                    .pieces = b->missing,
                    .numbers = b->seen + b->sums,
                    .user = b,
                    .compute = run_batch,
                    .done = keep_batch};
    es_status status = b->rank == 0 ? find_missing(b, &work.count, err) : ES_OK;
    ES_TRY(es_work_agree(&b->exec, status, "", err));
    es_exec exec = b->exec;
    exec.progress = exec.progress ? batch_progress : NULL;
    exec.progress_user = b;
    status = es_work_run(&work, &exec, err);
    if (status == ES_E_INTERRUPTED)
        return es_fail(err, status, "pool.interrupted",
                       "run again with the same folder to continue",
                       "interrupted after %lld of %lld batches of the pool", (long long)b->finished,
                       (long long)batches_of(b));
    return status;
}

/* Stores where blocks begin in the files, and where the last one ends. */
static es_status put_starts(build *b, es_error *err)
{
    const int64_t count = b->text.blocks.count + 1;
    double *starts;
    ES_TRY(ES_MEM_NEW(b->exec.budget, starts, count, "blocks", err));
    for (int64_t i = 0; i < count; i++)
        starts[i] = (double)row_of(b, i);
    const es_run_column column = {"first_row", ES_RUN_REAL, starts, NULL};
    const es_run_table table = {
        .name = ES_POOL_BLOCKS, .rows = count, .cols = 1, .columns = &column};
    const es_status status = es_run_put_table(b->run, &table, err);
    es_mem_free(b->exec.budget, starts);
    return status;
}

/* Stores the table that marks the pool as finished. */
static es_status seal(build *b, es_error *err)
{
    const double values[] = {(double)b->text.rows,
                             (double)b->config->hidden,
                             (double)b->config->layers,
                             (double)b->config->heads,
                             (double)b->text.blocks.count,
                             (double)b->length,
                             (double)es_pool_has_specials(b->spec),
                             (double)(b->text.prefix + b->text.suffix),
                             (double)b->text.blocks.repeats,
                             (double)(b->kept != NULL)};
    static const char *const names[] = {"tokens", "hidden",   "layers",  "heads",   "blocks",
                                        "length", "specials", "dropped", "repeats", "sparse"};
    enum { COLS = sizeof values / sizeof values[0] };
    es_run_column columns[COLS];
    for (int i = 0; i < COLS; i++)
        columns[i] = (es_run_column){names[i], ES_RUN_REAL, &values[i], NULL};
    const es_run_table table = {.name = ES_POOL_TABLE, .rows = 1, .cols = COLS, .columns = columns};
    return es_run_put_table(b->run, &table, err);
}

/* Finishes the pool on rank 0, which has the run file. */
static es_status finish(build *b, es_error *err)
{
    ES_TRY(put_starts(b, err));
    for (int64_t l = 0; b->kept && l < b->config->layers; l++)
        ES_TRY(es_pool_kept_put(b->run, l, &b->kept[l], err));
    return seal(b, err);
}

/* Reads the text, chooses the rows that are kept, allocates memory and opens the files of rank
 * 0. */
static es_status prepare(build *b, es_error *err)
{
    const es_model_config *c = b->config;
    const es_exec quiet = {.budget = b->exec.budget}; /* progress counts blocks */
    ES_TRY(es_pool_text_read(b->spec, &quiet, b->rank != 0, &b->text, err));
    if (b->spec->keep) {
        ES_TRY(ES_ARENA_NEW(&b->arena, b->kept, c->layers, "kept rows", err));
        ES_TRY(es_pool_kept_make(b->spec, &b->text, &b->arena, b->kept, err));
    }
    b->seen = ES_POOL_BATCH * c->layers * c->heads * ES_POOL_SEEN;
    b->sums = (b->kept ? 1 : ES_POOL_BATCH * b->length) * c->layers;
    ES_TRY(allocate(b, err));
    if (b->rank != 0)
        return ES_OK;
    ES_TRY(open_run(b, err));
    return open_files(b, err);
}

/* Builds the pool; every step ends with the same status on all ranks. */
static es_status build_all(build *b, es_error *err)
{
    ES_TRY(es_work_agree(&b->exec, prepare(b, err), "", err));
    ES_TRY(check_shared(b, err));
    ES_TRY(es_work_agree(&b->exec, b->rank ? open_files(b, err) : ES_OK, "", err));
    ES_TRY(run_batches(b, err));
    return b->rank == 0 ? finish(b, err) : ES_OK;
}

/* Frees the memory of a build and closes its files. */
static void release(build *b)
{
    for (int64_t l = 0; b->layers && l < b->config->layers; l++)
        es_npy_rows_close(&b->layers[l]);
    es_arena_free(&b->arena);
    es_blocks_free(&b->text.blocks);
}

/* Memory is given back in every case. What closing the run file says matters only if all else
 * went well; it is closed before others may open it. */
es_status es_pool_build(const es_pool_spec *spec, const es_exec *exec, es_error *err)
{
    build b = {
        .spec = spec, .config = es_model_config_of(spec->model), .length = es_pool_length(spec)};
    b.exec = exec ? *exec : (es_exec){0};
    b.arena.budget = b.exec.budget;
    b.rank = es_executor_of(exec)->rank;
    if (es_model_precision(spec->model) != ES_F32)
        return es_fail(err, ES_E_ARGUMENT, "pool.precision", "open the model in f32",
                       "a pool requires a model in f32");
    es_status status = build_all(&b, err);
    release(&b);
    es_error closing;
    const es_status closed = es_run_close(b.run, &closing);
    if (status == ES_OK && closed != ES_OK) {
        *err = closing;
        status = closed;
    }
    return es_work_agree(&b.exec, status, "", err);
}
