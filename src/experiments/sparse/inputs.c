/* inputs.c : where the queries, keys and values of a head come from.
 *
 * Files hold them as they are. A model makes them from the hidden states of its own text: N
 * consecutive tokens of a pool are a context, and the head's matrices do the rest. Without either,
 * for the papers' protocol, tokens are normal and the head is drawn. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/budget/budget.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/array_source.h"
#include "experiments/sparse/question.h"
#include "linalg/linalg.h"
#include "model/model.h"
#include "random/experiment.h"

enum {
    ADDRESS_QUERIES = ES_EXPERIMENT_SPARSE + 3, /* cell: context; token: which of them */
    ADDRESS_TOKENS = ES_EXPERIMENT_SPARSE + 4,  /* cell: context */
    ADDRESS_HEAD = ES_EXPERIMENT_SPARSE + 5
};

/* Queries that are asked about unless told otherwise: of a model; at most of a file. */
enum { FEW = 24, MANY = 256 };
enum { DRAWN_DIM = 64, DRAWN_KEYS = 4096 };

/* ---- files ---- */

static const char *const roles[] = {"q", "k", "v"};

static es_status inspect_file(es_job *job, int which, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    es_npy_info *info = &s->info[which];
    ES_TRY(es_source_inspect(p->paths[which], p->bf16, info, err));
    if (info->rank < 2)
        return es_fail_file(err, ES_E_SHAPE, p->paths[which], -1, "sparse.shape",
                            "use shape (n, d), (heads, n, d) or (batch, heads, n, d)",
                            "the array has 1 dimension");
    for (int i = 0; i < info->rank; i++)
        if (info->shape[i] < 1)
            return es_fail_file(err, ES_E_EMPTY, p->paths[which], -1, "sparse.empty",
                                "there must be at least one head, row and column",
                                "the array holds nothing");
    es_answer_input(job->answer, roles[which], p->paths[which], info->rank, info->shape,
                    info->descr);
    const int64_t batch = es_params_given(job->given, "batch") ? p->batch : -1;
    return measure_layout_of(info, p->layout < 0 ? MEASURE_BHND : (measure_order)p->layout, batch,
                             p->paths[which], &s->at[which], err);
}

static es_status fail_pair(const sparse_state *s, int a, int b, const char *hint, es_error *err)
{
    const measure_layout *x = &s->at[a], *y = &s->at[b];
    return es_fail_file(err, ES_E_SHAPE, s->p->paths[a], -1, "sparse.shape", hint,
                        "%lld heads of (%lld, %lld) do not fit %lld heads of (%lld, %lld) in %s",
                        (long long)x->heads, (long long)x->rows, (long long)x->cols,
                        (long long)y->heads, (long long)y->rows, (long long)y->cols,
                        s->p->paths[b]);
}

static es_status fit_files(sparse_state *s, es_error *err)
{
    const measure_layout *q = &s->at[0], *k = &s->at[1], *v = &s->at[2];
    if (q->cols != k->cols)
        return fail_pair(s, 0, 1, "queries and keys have the same last dimension", err);
    if (k->heads != v->heads || k->rows != v->rows)
        return fail_pair(s, 1, 2, "there is one value per key", err);
    if (q->heads % k->heads != 0)
        return fail_pair(s, 0, 1, "the heads of K divide those of Q", err);
    s->kv_heads = k->heads;
    s->m = q->rows;
    s->n = k->rows;
    s->d = q->cols;
    s->dv = v->cols;
    s->contexts = 1;
    s->scale = isnan(s->p->scale) ? 1.0 / sqrt((double)s->d) : s->p->scale;
    return ES_OK;
}

/* Where queries stand: as the file says; query i at i where there are as many as keys; nowhere. */
static es_status copy_positions(sparse_state *s, const es_array *array, es_error *err)
{
    es_view view;
    const char *path = s->p->positions;
    ES_TRY(es_array_view(array, 0, &view, err));
    if (array->rank > 2 || (view.rows > 1 && view.cols > 1) || view.rows * view.cols != s->m)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "sparse.positions", "one for each query",
                            "(%lld, %lld) positions of %lld queries", (long long)view.rows,
                            (long long)view.cols, (long long)s->m);
    for (int64_t i = 0; i < s->m; i++) {
        const double x = es_view_get(&view, view.rows > 1 ? i : 0, view.rows > 1 ? 0 : i);
        if (!(x >= 0.0 && x < (double)s->n) || x != floor(x))
            return es_fail_file(err, ES_E_FORMAT, path, -1, "sparse.positions",
                                "a position is the number of a key, from 0",
                                "query %lld stands at %g among %lld keys", (long long)i, x,
                                (long long)s->n);
        s->positions[i] = (int64_t)x;
    }
    return ES_OK;
}

static es_status find_positions(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    es_array array = {0};
    if (!p->positions && s->m == s->n)
        return ES_OK;
    if (!p->positions && p->causal)
        return es_refuse(err, "sparse.positions", "--positions P.npy, one for each query",
                         "%lld queries over %lld keys: which keys does a causal query see?",
                         (long long)s->m, (long long)s->n);
    ES_TRY(ES_JOB_NEW(job, s->positions, s->m, err));
    for (int64_t i = 0; i < s->m; i++)
        s->positions[i] = -1;
    if (!p->positions)
        return ES_OK;
    es_status status =
        es_npy_load_as(p->positions, ES_NPY_RAW_WHOLE, job->exec.budget, &array, err);
    if (status == ES_OK)
        status = copy_positions(s, &array, err);
    es_array_free(&array);
    return status;
}

static es_status open_files(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    s->source = SPARSE_FILES;
    s->causal = p->causal;
    if (!p->paths[0] || !p->paths[1] || !p->paths[2])
        return es_refuse(err, "sparse.options", "esscher sparse --q Q.npy --k K.npy --v V.npy",
                         "--q, --k and --v are needed together");
    if (p->pool.model || p->pool.texts.count || p->context)
        return es_refuse(err, "sparse.options", "one or the other",
                         "--q, --k and --v go without a model, a text and --context");
    for (int i = 0; i < 3; i++)
        ES_TRY(inspect_file(job, i, err));
    ES_TRY(fit_files(s, err));
    return find_positions(job, err);
}

/* ---- a model ---- */

/* Decoders may take more tokens than there is patience for. */
static int64_t usual_context(const es_model_config *config)
{
    const int64_t most = 2048;
    return config->causal && config->positions > most ? most : config->positions;
}

static es_status check_context(const es_job *job, const es_model_config *config, es_error *err)
{
    const sparse_state *s = job->state;
    if (!config->causal)
        return ES_OK;
    if (sparse_is_paper(job))
        return es_refuse(err, "sparse.options", "an encoder, or no model at all",
                         "the papers' protocol is not causal, and the model is");
    if (s->n > config->positions)
        return es_refuse(err, "sparse.context", "a shorter context",
                         "--context %lld: the model has %lld positions", (long long)s->n,
                         (long long)config->positions);
    if (config->window && s->n > config->window)
        return es_refuse(err, "sparse.context", "a context that is no longer than the window",
                         "--context %lld: the model's own tokens see %lld only", (long long)s->n,
                         (long long)config->window);
    return ES_OK;
}

static es_status open_model(es_job *job, es_error *err)
{
    sparse_params *p = job->params;
    sparse_state *s = job->state;
    char path[4096];
    es_model_config config;
    s->source = SPARSE_MODEL;
    if (p->causal || p->positions)
        return es_refuse(err, "sparse.options", "leave it out",
                         "--causal and --positions are for files: a model has its own");
    if (!p->pool.texts.count)
        return es_refuse(err, "sparse.options", "--text FILE", "a model needs a text");
    ES_TRY(es_model_locate(p->pool.model, path, sizeof path, err));
    ES_TRY(es_model_config_load(path, &config, err));
    s->causal = config.causal;
    s->n = s->m = p->context             ? p->context
                  : sparse_is_paper(job) ? DRAWN_KEYS
                                         : usual_context(&config);
    s->contexts = p->contexts;
    ES_TRY(check_context(job, &config, err));
    p->pool.tokens = s->n * s->contexts;
    if (s->causal) /* a context is a block: its keys stand where the model has put them */
        p->pool.block = s->n;
    else if (s->n > config.positions)
        p->pool.from = ES_BLOCKS_START; /* contexts are consecutive blocks */
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    s->d = s->dv = config.head_dim;
    s->scale = 1.0 / sqrt((double)s->d);
    if (s->n > config.positions)
        es_log(ES_LOG_WARN,
               "a context of %lld tokens is several blocks of %lld, in which the model's positions "
               "repeat",
               (long long)s->n, (long long)config.positions);
    return ES_OK;
}

/* ---- drawn tokens ---- */

static es_status open_drawn(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const es_address at = {.seed = job->seed, .experiment = ADDRESS_HEAD};
    if (!sparse_is_paper(job))
        return es_refuse(err, "sparse.options",
                         "--q Q.npy --k K.npy --v V.npy, or --model MODEL --text FILE",
                         "there are no queries, keys and values");
    s->source = SPARSE_DRAWN;
    s->n = s->m = p->context ? p->context : DRAWN_KEYS;
    s->contexts = p->contexts;
    s->d = s->dv = DRAWN_DIM;
    ES_TRY(es_head_draw(ES_HEAD_RANDOM, &at, DRAWN_DIM, job->exec.budget, &s->drawn, err));
    s->scale = es_head_unit(&s->drawn.head);
    return ES_OK;
}

/* ---- heads and queries ---- */

static es_status check_choice(const es_grid *grid, int64_t count, const char *name, es_error *err)
{
    for (int64_t i = 0; i < grid->count; i++)
        if (grid->counts[i] >= count)
            return es_refuse(err, "sparse.heads", "count from 0", "--%s %lld, and there are %lld",
                             name, (long long)grid->counts[i], (long long)count);
    return ES_OK;
}

static es_status find_places(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const bool model = s->source == SPARSE_MODEL;
    const int64_t layers = model ? s->pools.config->layers : 1;
    const int64_t heads = model                       ? s->pools.config->heads
                          : s->source == SPARSE_FILES ? s->at[0].heads
                                                      : 1;
    const int64_t L = p->layers.count ? p->layers.count : layers;
    const int64_t H = p->heads.count ? p->heads.count : heads;
    ES_TRY(check_choice(&p->layers, layers, "layer", err));
    ES_TRY(check_choice(&p->heads, heads, "head", err));
    s->n_places = L * H;
    ES_TRY(ES_JOB_NEW_2D(job, s->places, L, H, err));
    for (int64_t i = 0; i < s->n_places; i++) {
        const int64_t l = i / H, h = i % H;
        s->places[i] = (sparse_place){p->layers.count ? p->layers.counts[l] : l,
                                      p->heads.count ? p->heads.counts[h] : h};
    }
    return ES_OK;
}

/* Returns the first query of a context that may be asked about. Early queries of a decoder see
 * fewer keys than policies keep, so its queries are late ones. Files hold the queries of somebody's
 * choice. */
static int64_t first_query(const sparse_state *s)
{
    return s->source == SPARSE_MODEL ? es_late_begin(s->pools.config, s->m) : 0;
}

/* Notes how many keys the chosen queries see. */
static void count_seen(sparse_state *s)
{
    const int64_t count = s->contexts * s->queries;
    s->seen[0] = s->n;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = s->which[i], at = s->positions ? s->positions[row] : row;
        const int64_t seen = s->causal ? at + 1 : s->n;
        s->seen[0] = seen < s->seen[0] ? seen : s->seen[0];
        s->seen[1] = seen > s->seen[1] ? seen : s->seen[1];
        s->mean_seen += (double)seen / (double)count;
    }
}

/* Draws one query from each of so many equal stretches of those that may be asked about. */
static es_status choose_queries(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t few = sparse_is_paper(job) ? s->m : s->source == SPARSE_FILES ? MANY : FEW;
    const int64_t asked = p->queries ? p->queries : few;
    const int64_t begin = first_query(s), m = s->m - begin;
    s->queries = asked < m ? asked : m;
    ES_TRY(ES_JOB_NEW_2D(job, s->which, s->contexts, s->queries, err));
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const int64_t from = i * m / s->queries, to = (i + 1) * m / s->queries;
            const es_address at = {.seed = job->seed,
                                   .experiment = ADDRESS_QUERIES,
                                   .cell = (uint64_t)c,
                                   .token = (uint64_t)i};
            s->which[c * s->queries + i] =
                begin + from + (int64_t)(es_uniform_at(&at) * (double)(to - from));
        }
    count_seen(s);
    return ES_OK;
}

es_status sparse_inputs_open(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    s->pools.scratch.fd = -1;
    const bool files = p->paths[0] || p->paths[1] || p->paths[2];
    ES_TRY((files ? open_files : p->pool.model ? open_model : open_drawn)(job, err));
    ES_TRY(find_places(job, err));
    return choose_queries(job, err);
}

es_status sparse_inputs_begin(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    if (s->source == SPARSE_MODEL)
        return es_pools_build(job, &s->pools, err);
    es_job_phase(job, "loading", 0.0);
    for (int i = 0; i < 3 && s->source == SPARSE_FILES; i++) {
        ES_TRY(es_source_load(p->paths[i], p->bf16, job->exec.budget, &s->arrays[i], err));
        ES_TRY(measure_scan(&s->arrays[i], &s->at[i], p->paths[i], err));
    }
    return ES_OK;
}

void sparse_inputs_close(sparse_state *s)
{
    for (int i = 0; i < 3; i++)
        es_array_free(&s->arrays[i]);
    es_head_data_free(&s->drawn);
    es_pools_close(&s->pools);
}

/* ---- a head ---- */

/* out (n, k) = x (n, d) w'. */
static es_status project(const es_view *x, const es_view *w, es_arena *arena, es_view *out,
                         es_error *err)
{
    const es_view down = es_view_transpose(w);
    double *memory;
    ES_TRY(ES_ARENA_NEW_2D(arena, memory, x->rows, w->rows, "queries, keys and values", err));
    ES_TRY(es_mat_multiply(x, &down, arena->budget, memory, err));
    *out = es_view_f64(memory, x->rows, w->rows);
    return ES_OK;
}

/* What attention is given in a context, and what the head makes of it: where each token stands is
 * part of it in a model whose queries and keys turn. */
static es_status head_of_model(const sparse_state *s, int64_t place, int64_t context,
                               es_arena *arena, es_sparse_head *out, es_error *err)
{
    const int64_t H = s->pools.config->hidden, layer = s->places[place].layer;
    es_view *const to[3] = {&out->queries, &out->keys, &out->values};
    double *qkv[3];
    float *hidden;
    for (int i = 0; i < 3; i++) {
        ES_TRY(ES_ARENA_NEW_2D(arena, qkv[i], s->n, s->d, "queries, keys and values", err));
        *to[i] = es_view_f64(qkv[i], s->n, s->d);
    }
    ES_TRY(ES_ARENA_NEW_2D(arena, hidden, s->n, H, "hidden states", err));
    ES_TRY(es_pool_rows(s->pools.domains[0].pool, layer, context * s->n, s->n, hidden, err));
    const es_view x = es_view_f32(hidden, s->n, H);
    return es_model_head_rows(s->pools.model, layer, s->places[place].head, &x, arena->budget,
                              qkv[0], qkv[1], qkv[2], err);
}

static es_status head_of_drawn(const es_job *job, int64_t context, es_arena *arena,
                               es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    const es_address at = {
        .seed = job->seed, .experiment = ADDRESS_TOKENS, .cell = (uint64_t)context};
    double *memory;
    ES_TRY(ES_ARENA_NEW_2D(arena, memory, s->n, s->d, "tokens", err));
    ES_TRY(es_normal_rows(&at, s->n, s->d, memory, err));
    const es_view x = es_view_f64(memory, s->n, s->d);
    ES_TRY(project(&x, s->drawn.head.Wq, arena, &out->queries, err));
    ES_TRY(project(&x, s->drawn.head.Wk, arena, &out->keys, err));
    return project(&x, s->drawn.head.V, arena, &out->values, err);
}

es_status sparse_head_of(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                         es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    *out = (es_sparse_head){.positions = s->positions, .scale = s->scale, .causal = s->causal};
    if (s->source == SPARSE_MODEL)
        return head_of_model(s, place, context, arena, out, err);
    if (s->source == SPARSE_DRAWN)
        return head_of_drawn(job, context, arena, out, err);
    const int64_t head = s->places[place].head, kv = head / (s->at[0].heads / s->kv_heads);
    out->queries = measure_view(&s->arrays[0], &s->at[0], head);
    out->keys = measure_view(&s->arrays[1], &s->at[1], kv);
    out->values = measure_view(&s->arrays[2], &s->at[2], kv);
    return ES_OK;
}

static double hidden_of(const sparse_state *s)
{
    return s->source == SPARSE_MODEL   ? (double)s->pools.config->hidden
           : s->source == SPARSE_DRAWN ? (double)s->d
                                       : 0.0;
}

/* Hidden states, what es_mat_multiply() copies of them in f64, and the three results. */
double sparse_head_bytes(const sparse_state *s)
{
    const double H = hidden_of(s);
    return H > 0.0 ? (double)s->n * (12.0 * H + 32.0 * (double)(s->d + s->dv)) +
                         24.0 * H * (double)s->d + 1e6
                   : 1e6;
}

double sparse_head_flops(const sparse_state *s)
{
    return 6.0 * (double)s->n * hidden_of(s) * (double)s->d;
}
