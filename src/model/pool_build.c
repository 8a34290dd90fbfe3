/* pool_build.c : texts, through the model, into the files of a pool. */
#include <esscher/pool.h>

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <esscher/run.h>

#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "model/pool_files.h"
#include "model/model_inside.h"
#include "store/file.h"
#include "store/npy_rows.h"

/* Everything one build works on. */
typedef struct build {
    const es_pool_spec *spec;
    const es_model_config *config;
    es_exec exec;
    es_blocks blocks;
    es_text_used parts[ES_TEXT_PARTS];
    int64_t prefix, suffix; /* rows at either end of a block that are left out */
    int64_t rows;           /* of each layer's file */
    es_run *run;
    int64_t stage, sums_stage;
    es_npy_rows *layers; /* (config->layers) */
    float *hidden;       /* (ES_POOL_BATCH, layers + 1, length, hidden) */
    double *seen;        /* (ES_POOL_BATCH, layers, heads, ES_POOL_SEEN), as a cell is */
    double *raw;         /* (ES_POOL_BATCH, ES_POOL_SEEN, layers, heads), as forward gives them */
    double *sums;        /* (ES_POOL_BATCH * length, layers), bits of checksums */
} build;

/* ---- what is asked ---- */

static int64_t rows_of(const build *b, int64_t block)
{
    return b->blocks.start[block + 1] - b->blocks.start[block] - b->prefix - b->suffix;
}

/* First row of a block in the pool's files. */
static int64_t row_of(const build *b, int64_t block)
{
    return b->blocks.start[block] - block * (b->prefix + b->suffix);
}

/* `counted`: as in es_blocks_spec. */
static es_status read_blocks(build *b, bool counted, es_error *err)
{
    const es_pool_spec *s = b->spec;
    const es_tokenizer_info info = es_tokenizer_describe(s->tokenizer);
    const es_blocks_spec spec = {.tokenizer = s->tokenizer,
                                 .texts = s->texts,
                                 .n_texts = s->n_texts,
                                 .length = b->config->positions,
                                 .tokens = s->tokens,
                                 .repeat = s->repeat,
                                 .invalid = s->invalid,
                                 .counted = counted,
                                 .shuffle = s->shuffle,
                                 .seed = s->seed};
    ES_TRY(es_model_check_vocab(s->model, info.size, err));
    ES_TRY(s->n_parts ? es_blocks_mix(&spec, s->parts, s->n_parts, b->exec.budget, &b->blocks,
                                      b->parts, err)
                      : es_blocks_read(&spec, b->exec.budget, &b->blocks, err));
    b->prefix = s->drop_specials ? info.prefix_count : 0;
    b->suffix = s->drop_specials ? info.suffix_count : 0;
    b->rows = row_of(b, b->blocks.count);
    return ES_OK;
}

/* A batch is what is computed and written at a time: large enough for all threads, small enough
 * to be lost in a crash. */
static int64_t batches_of(const build *b)
{
    return (b->blocks.count + ES_POOL_BATCH - 1) / ES_POOL_BATCH;
}

/* With its small products and element-wise work the forward pass runs at two thirds of the speed at
 * which operations are counted on to be done. */
#define SLOWNESS 1.5

/* The text is tokenized for it, which takes seconds where the pool takes minutes; guessing
 * tokens from bytes is off by a factor of two between languages. */
es_status es_pool_cost_of(const es_pool_spec *spec, const es_exec *exec, es_pool_cost *out,
                          es_error *err)
{
    build b = {.spec = spec, .config = es_model_config_of(spec->model)};
    b.exec = exec ? *exec : (es_exec){0};
    ES_TRY(read_blocks(&b, true, err));
    const es_model_config *c = b.config;
    const double H = (double)c->hidden, L = (double)c->layers;
    const double n = (double)b.blocks.start[b.blocks.count], longest = (double)c->positions;
    const double item = spec->store == ES_POOL_F16 ? 2.0 : 4.0;
    double squares = 0.0, matrices = 0.0; /* tokens of blocks, squared; numbers of a layer */
    for (es_stack s = {0}; es_stack_next(spec->model->arch, c, true, &s);)
        matrices += s.part->kind == ES_PART_NORM ? 0.0 : (double)(s.rows * s.cols);
    for (int64_t i = 0; i < b.blocks.count; i++)
        squares += pow((double)(b.blocks.start[i + 1] - b.blocks.start[i]), 2.0);
    const double cells = (double)(batches_of(&b) * ES_POOL_BATCH) * L *
                         (longest + (double)(c->heads * ES_POOL_SEEN)) * sizeof(double);
    const double threads = exec && exec->threads ? exec->threads : es_threads_available();
    *out = (es_pool_cost){
        .tokens = b.rows,
        .flops = SLOWNESS * (2.0 * n * L * matrices + 4.0 * squares * L * H),
        .disk_bytes = (double)b.rows * H * L * item + cells,
        .run_bytes = cells,
        .held_bytes = 8.0 * L * (double)b.rows,
        /* hidden states and sums of a batch; per thread what a block needs, generously; ids, and
         * what shuffling them takes */
        .bytes = (size_t)(ES_POOL_BATCH * longest * ((L + 1.0) * H * 4.0 + L * 8.0) +
                          threads * longest * (10.0 * H + 2.0 * (double)c->intermediate) * 4.0 +
                          16e6 * threads + (spec->shuffle ? 40.0 : 16.0) * n)};
    memcpy(out->parts, b.parts, sizeof out->parts);
    const es_status status = es_blocks_facts(&b.blocks, spec->tokenizer, &out->text, err);
    es_blocks_free(&b.blocks);
    return status;
}

/* ---- what determines the numbers ---- */

enum { PARAMS = 10, TEXT = 96 };

/* A column for each layer. */
static es_status add_sums(build *b, es_error *err)
{
    enum { NAME = 32 };
    const int64_t L = b->config->layers;
    char(*names)[NAME] = NULL;
    const char **columns = NULL;
    es_budget *budget = b->exec.budget;
    es_status status = es_mem_array(budget, L, 1, NAME, "names", (void **)&names, err);
    if (status == ES_OK)
        status = es_mem_array(budget, L, 1, sizeof *columns, "names", (void **)&columns, err);
    for (int64_t l = 0; l < L && status == ES_OK; l++) {
        snprintf(names[l], NAME, "layer-%lld", (long long)l);
        columns[l] = names[l];
    }
    if (status == ES_OK)
        status = es_run_add_stage(b->run, ES_POOL_SUMS, ES_POOL_BATCH * b->config->positions, L,
                                  columns, &b->sums_stage, err);
    es_mem_free(budget, columns);
    es_mem_free(budget, names);
    return status;
}

/* One of another version is told from one of other parameters. */
static es_status resume_run(const char *path, const es_run_spec *spec, es_run **out, es_error *err)
{
    es_run *before;
    ES_TRY(es_run_open(path, &before, err));
    const es_status status = es_pool_check_format(before, path, err);
    es_run_close(before, NULL);
    return status == ES_OK ? es_run_resume(path, spec, out, err) : status;
}

/* Whatever the rows depend on is a parameter of the run, as a hash where it is large: a pool
 * that was made of something else is refused rather than continued. */
static es_status open_run(build *b, es_error *err)
{
    const es_pool_spec *s = b->spec;
    char path[ES_POOL_PATH], text[PARAMS][TEXT];
    uint64_t texts = 0;
    ES_TRY(es_pool_hash_texts(s->texts, s->n_texts, &texts, err));
    for (int64_t i = 0; i < s->n_parts; i++)
        ES_TRY(es_pool_hash_texts(s->parts[i].texts, s->parts[i].n_texts, &texts, err));
    const uint64_t ids =
        es_crc(0, b->blocks.ids, (size_t)b->blocks.start[b->blocks.count] * sizeof *b->blocks.ids);
    snprintf(text[0], TEXT, "%016llx", (unsigned long long)es_pool_hash_model(s->model));
    snprintf(text[1], TEXT, "%016llx", (unsigned long long)texts);
    snprintf(text[2], TEXT, "%016llx", (unsigned long long)ids);
    snprintf(text[3], TEXT, "%lld", (long long)b->rows);
    snprintf(text[4], TEXT, "%s", s->drop_specials ? "dropped" : "kept");
    snprintf(text[5], TEXT, "%s", s->store == ES_POOL_F16 ? "f16" : "f32");
    snprintf(text[6], TEXT, "%s", s->repeat ? "yes" : "no");
    snprintf(text[7], TEXT, "%s", es_dtype_name(es_model_precision(s->model)));
    snprintf(text[8], TEXT, "%s", ES_POOL_FORMAT);
    static const char *const shuffles[] = {"none", "word", "sentence", "block"};
    snprintf(text[9], TEXT, "%s, seed %llu", shuffles[s->shuffle], (unsigned long long)s->seed);
    static const char *const keys[PARAMS] = {
        "model", "texts",  "ids",       "tokens",           "specials",
        "store", "repeat", "precision", ES_POOL_FORMAT_KEY, "shuffle"};
    /* the last is left out of a text as it is: pools were made before it could be shuffled */
    const int params_count = s->shuffle ? PARAMS : PARAMS - 1;
    es_run_pair params[PARAMS];
    for (int i = 0; i < PARAMS; i++)
        params[i] = (es_run_pair){keys[i], text[i]};
    const es_run_pair facts[] = {{"version", es_version()}, {"folder", es_model_folder(s->model)}};
    const es_run_spec spec = {"pool", params, params_count, facts, sizeof facts / sizeof facts[0]};
    es_pool_run_path(s->folder, path);
    struct stat there;
    if (mkdir(s->folder, 0777) != 0 && errno != EEXIST)
        return es_file_fail(err, s->folder, "file.create", "does the folder above it exist?",
                            "make the folder", errno);
    ES_TRY(stat(path, &there) == 0 ? resume_run(path, &spec, &b->run, err)
                                   : es_run_create(path, &spec, false, &b->run, err));
    static const char *const columns[ES_POOL_SEEN] = {"entropy", "top_weight", "sum_squares",
                                                      "ess"};
    ES_TRY(es_run_add_stage(b->run, ES_POOL_STAGE,
                            ES_POOL_BATCH * b->config->layers * b->config->heads, ES_POOL_SEEN,
                            columns, &b->stage, err));
    return add_sums(b, err);
}

/* ---- one batch ---- */

/* All layers' files have their full length before the first row is written (holes cost nothing), so
 * that rows go to their places in any order of batches. */
static es_status make_room(build *b, es_error *err)
{
    const es_model_config *c = b->config;
    es_budget *budget = b->exec.budget;
    char path[ES_POOL_PATH];
    es_run_stage stage;
    ES_TRY(es_run_get_stage(b->run, b->stage, &stage, err));
    ES_TRY(es_mem_array(budget, ES_POOL_BATCH * (c->layers + 1), c->positions * c->hidden,
                        sizeof(float), "hidden states", (void **)&b->hidden, err));
    ES_TRY(es_mem_array(budget, ES_POOL_BATCH * ES_POOL_SEEN, c->layers * c->heads, sizeof(double),
                        "attention statistics", (void **)&b->seen, err));
    ES_TRY(es_mem_array(budget, ES_POOL_BATCH * ES_POOL_SEEN, c->layers * c->heads, sizeof(double),
                        "attention statistics", (void **)&b->raw, err));
    ES_TRY(es_mem_array(budget, ES_POOL_BATCH * c->positions, c->layers, sizeof *b->sums,
                        "checksums", (void **)&b->sums, err));
    ES_TRY(
        es_mem_array(budget, c->layers, 1, sizeof *b->layers, "layers", (void **)&b->layers, err));
    for (int64_t l = 0; l < c->layers; l++)
        b->layers[l].fd = -1;
    for (int64_t l = 0; l < c->layers; l++) {
        es_pool_layer_path(b->spec->folder, l, path);
        /* a new file would be zeros where pool.run says that there are rows */
        if (stage.cells > 0 && access(path, F_OK) != 0)
            return es_fail_file(err, ES_E_FORMAT, path, -1, "pool.damaged",
                                "remove the pool's folder and make it anew",
                                "the file is gone, but pool.run says it was begun");
        ES_TRY(es_npy_rows_create(path, b->rows, c->hidden, b->spec->store == ES_POOL_F16,
                                  &b->layers[l], err));
    }
    return ES_OK;
}

/* One block of one layer: `rows` as they will be read back, and their sums from row `at` of the
 * batch on. */
static es_status write_block(build *b, int64_t layer, int64_t block, int64_t at, float *rows,
                             es_error *err)
{
    const int64_t count = rows_of(b, block), H = b->config->hidden;
    for (int64_t i = 0; b->spec->store == ES_POOL_F16 && i < count * H; i++)
        rows[i] = es_half_to_float(es_half_from_float(rows[i]));
    for (int64_t i = 0; i < count; i++) {
        const uint64_t sum = es_pool_sum(rows + i * H, H);
        memcpy(&b->sums[(at + i) * b->config->layers + layer], &sum, sizeof sum);
    }
    return es_npy_rows_write(&b->layers[layer], row_of(b, block), count, rows, err);
}

/* Layer by layer rather than block by block: each file is synced once per batch. */
static es_status write_layers(build *b, int64_t first, int64_t count, es_error *err)
{
    const es_model_config *c = b->config;
    const int64_t room = (c->layers + 1) * c->positions * c->hidden;
    memset(b->sums, 0, (size_t)(ES_POOL_BATCH * c->positions * c->layers) * sizeof *b->sums);
    for (int64_t l = 0; l < c->layers; l++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t n = b->blocks.start[first + i + 1] - b->blocks.start[first + i];
            ES_TRY(write_block(b, l, first + i, row_of(b, first + i) - row_of(b, first),
                               b->hidden + i * room + (l * n + b->prefix) * c->hidden, err));
        }
        ES_TRY(es_npy_rows_sync(&b->layers[l], err)); /* before the run file says it is there */
    }
    return ES_OK;
}

/* From (block, statistic, head) to (block, head, statistic); rows of no block are NaN. */
static void arrange(build *b, int64_t count)
{
    const int64_t heads = b->config->layers * b->config->heads;
    for (int64_t i = 0; i < ES_POOL_BATCH; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t s = 0; s < ES_POOL_SEEN; s++)
                b->seen[(i * heads + h) * ES_POOL_SEEN + s] =
                    i < count ? b->raw[(i * ES_POOL_SEEN + s) * heads + h] : (double)NAN;
}

/* Progress of a batch as part of that of all: 99 hundredths are the model's, the rest writing. */
typedef struct relay {
    const es_exec *exec;
    double batch, batches;
} relay;

static bool relay_progress(void *user, double done, double total)
{
    const relay *r = user;
    return r->exec->progress(r->exec->progress_user, r->batch + 0.99 * done / total, r->batches);
}

/* Rows are on disk before their sums, and sums before the statistics, whose cell is what says
 * that the batch is done: a crash in between repeats it, and loses nothing that was claimed. */
static es_status run_batch(build *b, int64_t batch, es_error *err)
{
    const es_model_config *c = b->config;
    const int64_t first = batch * ES_POOL_BATCH, heads = c->layers * c->heads;
    const int64_t left = b->blocks.count - first;
    const int64_t count = left < ES_POOL_BATCH ? left : ES_POOL_BATCH;
    es_model_block blocks[ES_POOL_BATCH];
    relay part = {&b->exec, (double)batch, (double)batches_of(b)};
    es_exec exec = b->exec;
    for (int64_t i = 0; i < count; i++) {
        double *raw = b->raw + i * ES_POOL_SEEN * heads;
        blocks[i] =
            (es_model_block){.ids = b->blocks.ids + b->blocks.start[first + i],
                             .n = b->blocks.start[first + i + 1] - b->blocks.start[first + i],
                             .hidden = b->hidden + i * (c->layers + 1) * c->positions * c->hidden,
                             .entropy = raw,
                             .top_weight = raw + heads,
                             .sum_squares = raw + 2 * heads,
                             .ess = raw + 3 * heads};
    }
    exec.progress = b->exec.progress ? relay_progress : NULL;
    exec.progress_user = &part;
    ES_TRY(es_model_forward(b->spec->model, blocks, count, &exec, err));
    ES_TRY(write_layers(b, first, count, err));
    arrange(b, count);
    ES_TRY(es_run_put_cell(b->run, b->sums_stage, batch, b->sums, err));
    return es_run_put_cell(b->run, b->stage, batch, b->seen, err);
}

/* ---- all of it ---- */

/* Batches that a former run finished are passed over; they count as progress all the same. */
static es_status run_batches(build *b, es_error *err)
{
    const int64_t batches = batches_of(b);
    const es_exec *exec = &b->exec;
    es_status status = ES_OK;
    int64_t finished = 0;
    while (finished < batches && status == ES_OK) {
        bool done, summed;
        ES_TRY(es_run_has_cell(b->run, b->stage, finished, &done, err));
        ES_TRY(es_run_has_cell(b->run, b->sums_stage, finished, &summed, err));
        if (!done || !summed)
            status = run_batch(b, finished, err);
        if (status == ES_OK)
            finished++;
        if (status == ES_OK && exec->progress &&
            exec->progress(exec->progress_user, (double)finished, (double)batches))
            status = ES_E_INTERRUPTED;
    }
    if (status == ES_E_INTERRUPTED)
        return es_fail(err, status, "pool.interrupted", "the same folder goes on where it stopped",
                       "interrupted after %lld of %lld batches of the pool", (long long)finished,
                       (long long)batches);
    return status;
}

/* Where blocks begin in the files, and where the last one ends. */
static es_status put_starts(build *b, es_error *err)
{
    const int64_t count = b->blocks.count + 1;
    double *starts;
    ES_TRY(es_mem_array(b->exec.budget, count, 1, sizeof *starts, "blocks", (void **)&starts, err));
    for (int64_t i = 0; i < count; i++)
        starts[i] = (double)row_of(b, i);
    const es_run_column column = {"first_row", ES_RUN_REAL, starts, NULL};
    const es_run_table table = {
        .name = ES_POOL_BLOCKS, .rows = count, .cols = 1, .columns = &column};
    const es_status status = es_run_put_table(b->run, &table, err);
    es_mem_free(b->exec.budget, starts);
    return status;
}

/* The table that makes the pool a finished one. */
static es_status seal(build *b, es_error *err)
{
    const double values[] = {(double)b->rows,
                             (double)b->config->hidden,
                             (double)b->config->layers,
                             (double)b->config->heads,
                             (double)b->blocks.count,
                             (double)b->config->positions,
                             (double)!b->spec->drop_specials,
                             (double)(b->prefix + b->suffix),
                             (double)b->blocks.repeats};
    static const char *const names[] = {"tokens", "hidden",   "layers",  "heads",  "blocks",
                                        "length", "specials", "dropped", "repeats"};
    enum { COLS = sizeof values / sizeof values[0] };
    es_run_column columns[COLS];
    for (int i = 0; i < COLS; i++)
        columns[i] = (es_run_column){names[i], ES_RUN_REAL, &values[i], NULL};
    const es_run_table table = {.name = ES_POOL_TABLE, .rows = 1, .cols = COLS, .columns = columns};
    return es_run_put_table(b->run, &table, err);
}

static es_status build_all(build *b, es_error *err)
{
    ES_TRY(read_blocks(b, false, err));
    ES_TRY(open_run(b, err));
    ES_TRY(make_room(b, err));
    ES_TRY(run_batches(b, err));
    ES_TRY(put_starts(b, err));
    return seal(b, err);
}

/* Memory is given back in every case. What closing the run file says matters only if all else
 * went well. */
es_status es_pool_build(const es_pool_spec *spec, const es_exec *exec, es_error *err)
{
    build b = {.spec = spec, .config = es_model_config_of(spec->model)};
    b.exec = exec ? *exec : (es_exec){0};
    if (es_model_precision(spec->model) != ES_F32)
        return es_fail(err, ES_E_ARGUMENT, "pool.precision", "open the model in f32",
                       "pools are made by f32 models");
    es_status status = build_all(&b, err);
    for (int64_t l = 0; b.layers && l < b.config->layers; l++)
        es_npy_rows_close(&b.layers[l]);
    es_mem_free(b.exec.budget, b.layers);
    es_mem_free(b.exec.budget, b.sums);
    es_mem_free(b.exec.budget, b.raw);
    es_mem_free(b.exec.budget, b.seen);
    es_mem_free(b.exec.budget, b.hidden);
    es_blocks_free(&b.blocks);
    es_error closing;
    const es_status closed = es_run_close(b.run, &closing);
    if (status == ES_OK && closed != ES_OK) {
        *err = closing;
        status = closed;
    }
    return status;
}

/* ---- what a pool is made of, as numbers that tell one model and one text from another ---- */

/* The bytes themselves, not name or date: a text that was moved is the same text. */
static es_status hash_file(const char *path, uint64_t *crc, es_error *err)
{
    unsigned char bytes[65536];
    es_file file;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    for (uint64_t at = 0; at < file.size && status == ES_OK;) {
        const uint64_t left = file.size - at;
        const size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
        status = es_file_read(&file, at, bytes, size, err);
        if (status == ES_OK)
            *crc = es_crc(*crc, bytes, size);
        at += size;
    }
    es_file_close(&file);
    return status;
}

/* One chain over all files: their order matters, as it does for the pool. */
es_status es_pool_hash_texts(const char *const *texts, int64_t count, uint64_t *out, es_error *err)
{
    for (int64_t i = 0; i < count; i++)
        ES_TRY(hash_file(texts[i], out, err));
    return ES_OK;
}

/* One multiplication per number, since there are many: weights that differ are told apart, nothing
 * more is asked. */
static uint64_t mix(uint64_t h, const float *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

/* Of a part as it lies in memory: the weights, then the biases. */
static uint64_t mix_stack(uint64_t h, const es_linear *part, const es_stack *s)
{
    /* blocks are single texts: of their types only the first is used */
    const int64_t rows = s->part->rows == ES_CONFIG(types) ? 1 : s->rows;
    h = mix(h, part->w, rows * s->cols);
    return s->part->kind == ES_PART_TABLE ? h : mix(h, part->b, rows);
}

/* As the weights were loaded: how the checkpoint was cut into files, or what else is in them, does
 * not matter. */
uint64_t es_pool_hash_model(const es_model *m)
{
    const es_model_config *c = &m->config;
    const double about[] = {(double)c->heads, c->layer_norm_eps};
    uint64_t h = es_crc(0, about, sizeof about);
    for (es_stack s = {0}; es_stack_next(m->arch, c, false, &s);)
        h = mix_stack(h, es_model_place(m, s.part, -1), &s);
    for (int64_t l = 0; l < c->layers; l++)
        for (es_stack s = {0}; es_stack_next(m->arch, c, true, &s);)
            h = mix_stack(h, es_model_place(m, s.part, l), &s);
    return h;
}
