/* SPDX-License-Identifier: Apache-2.0 */
/* block.c : a block of text through a model twice, once with sparse heads, and what each
 * layer does to the difference (THEORY 15).
 *
 * Layer by layer, so that two states of each model are in memory and not those of all layers:
 *
 *   1  the layer of both models, each from its own state; d_l is the difference of their states
 *   2  the sparse layer from the full model's state: its own error s_l
 *   3  the layer as it is, from the full model's state plus noise like d_l, plus d_l made small,
 *      plus d_l: its gains
 *
 * The last two show how the actual error differs from noise: it may lie in directions that tokens
 * share (along) or be too large for a linear response (far). */
#include "experiments/depth/depth.h"

#include <math.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "linalg/dense.h"
#include "model/model.h"
#include "random/experiment.h"

/* Addresses of random numbers: cells of the first two as model.h says. */
enum { RUN = ES_EXPERIMENT_DEPTH, OWN = RUN + 1, NOISE = RUN + 2 };

enum { CHUNK = 64 }; /* rows of noise that are one product */

enum { DIRECTIONS = 4 };
#define SIZE 0.01 /* f32 states are good to 1e-6 or so: differences of this size to 1e-4 */

/* One block of text that runs through the model twice. */
typedef struct work {
    const es_depth_spec *spec;
    const es_model_config *c;
    es_dtype precision;
    const es_exec *exec;
    int64_t n, block, directions;
    int64_t from;    /* the first token that counts */
    int64_t changed; /* the first token whose states may differ: before it there is no noise */
    double size;
    size_t state;        /* bytes of a hidden state */
    char *full, *sparse; /* (2, n, H) a layer's input and output, in the model's precision */
    char *pair;          /* (2, n, H) the same of another input */
    double *x, *y;       /* (n, H) a layer's input and output in the full model */
    double *error;       /* (n, H) x^S - x at its input */
    double *turned;      /* (H, n - from) the same of tokens that count, transposed */
    double *noise;       /* (n, H) */
    double *normals;     /* (CHUNK, n) */
    es_policy_spec *heads;
    es_cache cache; /* of the sparse layers, instead of heads */
    double *kept;
    int64_t *empty;
    es_arena arena;
} work;

/* Allocates hidden states of a layer: full, sparse, of another input, and buffers in f64. */
static es_status work_new(work *w, es_error *err)
{
    const int64_t rows = w->n * w->c->hidden;
    const int64_t heads = w->c->layers * w->c->heads;
    es_arena *a = &w->arena;
    ES_TRY(ES_ARENA_NEW_2D(a, w->full, 2, (int64_t)w->state, "hidden states", err));
    ES_TRY(ES_ARENA_NEW_2D(a, w->sparse, 2, (int64_t)w->state, "hidden states", err));
    ES_TRY(ES_ARENA_NEW_2D(a, w->pair, 2, (int64_t)w->state, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->x, rows, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->y, rows, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->error, rows, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->turned, rows, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->noise, rows, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->normals, CHUNK * w->n, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->heads, heads, "hidden states", err));
    ES_TRY(ES_ARENA_NEW(a, w->kept, heads, "hidden states", err));
    return ES_ARENA_NEW(a, w->empty, heads, "hidden states", err);
}

double es_depth_bytes(const es_model *model, int64_t n, int64_t span, int threads)
{
    const es_model_config *c = es_model_config_of(model);
    const double item = (double)es_dtype_size(es_model_precision(model));
    const double rows = (double)n * (double)c->hidden, heads = (double)(c->layers * c->heads);
    const double ours =
        6.0 * rows * item + 5.0 * rows * 8.0 + (double)n * CHUNK * 8.0 + heads * 96.0 + 4096.0;
    const double sparse = es_model_sparse_bytes(c, n, span);
    return ours + sparse + es_model_cost_of(c, es_model_precision(model), n, threads, false).bytes;
}

double es_depth_flops(const es_model *model, int64_t n, int64_t directions)
{
    const es_model_config *c = es_model_config_of(model);
    const es_model_cost cost = es_model_cost_of(c, es_model_precision(model), n, 1, false);
    const double passes = (double)(directions ? directions : DIRECTIONS) + 3.0 + 2.0 * 3.0;
    return passes * es_model_work(&cost); /* a sparse pass counts 3 */
}

/* ---- numbers between precisions ---- */

/* Reads a hidden state of any precision as f64. */
static void widen(const work *w, const char *from, double *to)
{
    const es_view row = {(void *)(uintptr_t)from,
                         w->precision,
                         1,
                         w->n * w->c->hidden,
                         0,
                         (int64_t)es_dtype_size(w->precision)};
    es_view_read_row(&row, 0, to);
}

/* Sets the input of w->pair to x + t d, rounded to the model's precision. */
static void set_input(work *w, const double *d, double t)
{
    const int64_t count = w->n * w->c->hidden;
    float *narrow = (float *)(void *)w->pair;
    double *wide = (double *)(void *)w->pair;
    for (int64_t i = 0; i < count; i++)
        if (w->precision == ES_F32)
            narrow[i] = (float)(w->x[i] + t * d[i]);
        else
            wide[i] = w->x[i] + t * d[i];
}

/* Returns the mean over tokens that count of |a - b|^2; b NULL: of |a|^2. */
static double mean_square(const work *w, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = w->from * w->c->hidden; i < w->n * w->c->hidden; i++) {
        const double off = a[i] - (b ? b[i] : 0.0);
        sum += off * off;
    }
    return sum / (double)(w->n - w->from);
}

/* Returns the mean square distance of late rows from their mean, the unit of errors. */
static double spread_of(const work *w, const double *x)
{
    const int64_t H = w->c->hidden;
    const double count = (double)(w->n - w->from);
    double centre = 0.0;
    for (int64_t j = 0; j < H; j++) {
        double sum = 0.0;
        for (int64_t i = w->from; i < w->n; i++)
            sum += x[i * H + j];
        centre += sum / count * (sum / count);
    }
    return mean_square(w, x, NULL) - centre;
}

/* ---- runs of the model ---- */

/* Runs the model on the block, sparse if `draws` names the purpose of its random numbers. A cache
 * has none: it makes the same choice every time. */
static es_status run(work *w, es_model_block *b, uint16_t draws, es_error *err)
{
    const es_address at = {.seed = w->spec->seed,
                           .experiment = draws,
                           .cell = (uint64_t)(w->block * es_model_sparse_cells(w->spec->model))};
    const es_model_sparse sparse = {.heads = w->heads, .at = at};
    b->n = w->n;
    b->sparse = draws && !w->spec->cache ? &sparse : NULL;
    b->cache = draws && w->spec->cache ? &w->cache : NULL;
    return es_model_forward(w->spec->model, b, 1, w->exec, err);
}

/* Computes the output of one layer for this input, which may be that of w->pair, into w->pair and
 * out (n, H); draws 0: as it is. */
static es_status run_layer(work *w, int64_t layer, const char *input, uint16_t draws, double *out,
                           es_error *err)
{
    es_model_block b = {.input = input, .start = layer, .states = layer + 2, .hidden = w->pair};
    ES_TRY(run(w, &b, draws, err));
    widen(w, w->pair + w->state, out);
    return ES_OK;
}

/* Returns true if the policy applies to this layer. */
static bool is_sparse(const work *w, int64_t layer)
{
    return w->spec->layer < 0 || w->spec->layer == layer;
}

/* Makes the first state of both models, which is the same, and what is done to all heads. */
static es_status begin_both(work *w, const int32_t *ids, es_error *err)
{
    es_model_block b = {.ids = ids, .states = 1, .hidden = w->full};
    if (w->spec->cache)
        ES_TRY(es_cache_build(w->spec->cache, w->spec->model, w->spec->layer, ids, w->n, w->exec,
                              &w->arena, &w->cache, err));
    for (int64_t i = 0; i < w->c->layers * w->c->heads && !w->spec->cache; i++)
        w->heads[i] = is_sparse(w, i / w->c->heads) ? *w->spec->policy : (es_policy_spec){0};
    ES_TRY(run(w, &b, 0, err));
    memcpy(w->sparse, w->full, w->state);
    return ES_OK;
}

/* Step 1 for one layer, and keys that were kept; `out` is the state that the layer makes. */
static es_status run_both(work *w, int64_t layer, es_depth_state *out, es_error *err)
{
    const int64_t h = w->c->heads;
    es_model_block full = {
        .input = w->full, .start = layer, .states = layer + 2, .hidden = w->full};
    es_model_block sparse = {.input = w->sparse,
                             .start = layer,
                             .states = layer + 2,
                             .hidden = w->sparse,
                             .kept = w->kept,
                             .empty = w->empty};
    ES_TRY(run(w, &full, 0, err));
    ES_TRY(run(w, &sparse, RUN, err));
    for (int64_t i = layer * h; i < (layer + 1) * h; i++) {
        out->kept += w->kept[i] / (double)h;
        out->empty += (double)w->empty[i];
    }
    return ES_OK;
}

/* Makes the output of the layer of both models the input of the next. */
static void move_on(work *w)
{
    memcpy(w->full, w->full + w->state, w->state);
    memcpy(w->sparse, w->sparse + w->state, w->state);
}

/* ---- gains ---- */

/* Noise = G error, G (n, n - from) normals: rows are independent, and have, up to a factor, the
 * second moments that the errors have over the tokens that count. Tokens before w->changed have no
 * error, and get no noise: they are keys of later ones. */
static es_status make_noise(work *w, int64_t layer, int64_t direction, es_error *err)
{
    const int64_t n = w->n, late = n - w->from, H = w->c->hidden;
    es_address at = {.seed = w->spec->seed,
                     .experiment = NOISE,
                     .cell =
                         (uint64_t)((w->block * w->c->layers + layer) * w->directions + direction)};
    memset(w->noise, 0, (size_t)(n * H) * sizeof(double));
    ES_TRY(es_blas_scratch(err));
    for (int64_t first = w->changed; first < n; first += CHUNK) {
        const int64_t count = n - first < CHUNK ? n - first : CHUNK;
        at.token = (uint64_t)first;
        ES_TRY(es_normal_rows(&at, count, late, w->normals, err));
        es_blas_enter();
        es_gemm_add(ES_F64, count, H, late, w->normals, w->turned, w->noise + first * H);
        es_blas_leave();
    }
    return ES_OK;
}

/* |F(x + t d) - F(x)|^2 / |t d|^2, where y = F(x). `d` may be w->noise, which is overwritten. */
static es_status gain_along(work *w, int64_t layer, const double *d, double t, double *out,
                            es_error *err)
{
    const double given = t * t * mean_square(w, d, NULL);
    set_input(w, d, t);
    ES_TRY(run_layer(w, layer, w->pair, 0, w->noise, err));
    *out = mean_square(w, w->noise, w->y) / given;
    return ES_OK;
}

/* Transposes the error of late rows, so that directions are found by one product. */
static void turn_error(work *w)
{
    const int64_t late = w->n - w->from, H = w->c->hidden;
    for (int64_t i = 0; i < late; i++)
        for (int64_t j = 0; j < H; j++)
            w->turned[j * late + i] = w->error[(w->from + i) * H + j];
}

/* Step 3 for one layer; `in` and `out` are the states before and after it. w->noise leaves as
 * F(x^S), what the layer as it is makes of the sparse model's state. */
static es_status measure_gains(work *w, int64_t layer, const es_depth_state *in,
                               es_depth_state *out, es_error *err)
{
    const double small = w->size * sqrt(in->spread2);
    out->gain2 = out->along2 = out->far2 = (double)NAN;
    memcpy(w->noise, w->y, (size_t)(w->n * w->c->hidden) * sizeof(double));
    if (!(in->error2 > 0.0) || !(small > 0.0) || w->changed >= w->n)
        return ES_OK;
    double sum = 0.0;
    turn_error(w);
    for (int64_t i = 0; i < w->directions; i++) {
        double gain;
        ES_TRY(make_noise(w, layer, i, err));
        ES_TRY(gain_along(w, layer, w->noise, small / sqrt(mean_square(w, w->noise, NULL)), &gain,
                          err));
        sum += gain;
    }
    out->gain2 = sum / (double)w->directions;
    ES_TRY(gain_along(w, layer, w->error, small / sqrt(in->error2), &out->along2, err));
    return gain_along(w, layer, w->error, 1.0, &out->far2, err);
}

/* All steps for one layer. w->error is that of its input, and leaves as that of its output. */
static es_status measure_layer(work *w, int64_t layer, es_depth_state *states, es_error *err)
{
    es_depth_state *in = &states[layer], *out = in + 1;
    const int64_t count = w->n * w->c->hidden;
    ES_TRY(run_both(w, layer, out, err));
    widen(w, w->full, w->x);
    widen(w, w->full + w->state, w->y);
    out->spread2 = spread_of(w, w->y);
    ES_TRY(measure_gains(w, layer, in, out, err));
    widen(w, w->sparse + w->state, w->error);
    out->fresh2 = mean_square(w, w->error, w->noise);
    if (is_sparse(w, layer)) {
        ES_TRY(run_layer(w, layer, w->full, OWN, w->noise, err));
        out->own2 = mean_square(w, w->noise, w->y);
    }
    for (int64_t i = 0; i < count; i++)
        w->error[i] -= w->y[i];
    out->error2 = mean_square(w, w->error, NULL);
    move_on(w);
    return ES_OK;
}

/* ---- all of it ---- */

/* Returns the first token whose states a cache may change: it rounds them all; what it drops is
 * missing after the prompt, or once it is full. */
static int64_t first_changed(const es_cache_setting *cache)
{
    if (!cache || cache->unit.k.type || cache->unit.v.type)
        return 0;
    return cache->mode == ES_EVICT_PROMPT   ? cache->prompt
           : cache->mode == ES_EVICT_DECODE ? cache->unit.evict.keys + 1
                                            : 0;
}

/* Fails for a layer or a number of directions that makes no sense. */
static es_status check_spec(const es_depth_spec *spec, es_error *err)
{
    const es_model_config *c = es_model_config_of(spec->model);
    const int64_t layers = c->layers;
    if (spec->cache && !c->causal)
        return es_fail(err, ES_E_UNSUPPORTED, "cache.causal", "use a decoder",
                       "an encoder has no cache of keys and values");
    if (spec->layer < -1 || spec->layer >= layers)
        return es_fail(err, ES_E_RANGE, "depth.layer", "layers count from 0; -1: all",
                       "layer %lld of %lld", (long long)spec->layer, (long long)layers);
    if (spec->directions < 0 || spec->directions > 4096 || !(spec->size >= 0.0))
        return es_fail(err, ES_E_RANGE, "depth.directions", "a few, and small",
                       "%lld directions of size %g", (long long)spec->directions, spec->size);
    return ES_OK;
}

es_status es_depth_block(const es_depth_spec *spec, const int32_t *ids, int64_t n, int64_t block,
                         const es_exec *exec, es_depth_state *out, es_error *err)
{
    ES_TRY(check_spec(spec, err));
    const es_model_config *c = es_model_config_of(spec->model);
    const es_dtype precision = es_model_precision(spec->model);
    if (n < 1 || n > c->positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "cut the text into blocks",
                       "a block of %lld tokens; the model has %lld positions", (long long)n,
                       (long long)c->positions);
    if (spec->from < 0 || spec->from >= n)
        return es_fail(err, ES_E_RANGE, "depth.from", "a token of the block",
                       "tokens count from %lld on; the block has %lld", (long long)spec->from,
                       (long long)n);
    es_exec inner = exec ? *exec : (es_exec){0};
    inner.progress = NULL; /* of the model's blocks, which are many of ours */
    work w = {.spec = spec,
              .c = c,
              .precision = precision,
              .exec = &inner,
              .n = n,
              .from = spec->from ? spec->from : es_late_begin(c, n),
              .changed = first_changed(spec->cache),
              .block = block,
              .directions = spec->directions ? spec->directions : DIRECTIONS,
              .size = spec->size > 0.0 ? spec->size : SIZE,
              .state = (size_t)(n * c->hidden) * es_dtype_size(precision),
              .arena = {.budget = exec ? exec->budget : NULL}};
    memset(out, 0, (size_t)(c->layers + 1) * sizeof *out);
    es_status status = work_new(&w, err);
    if (status == ES_OK)
        status = begin_both(&w, ids, err);
    if (status == ES_OK) {
        widen(&w, w.full, w.x);
        out[0].spread2 = spread_of(&w, w.x);
    }
    for (int64_t layer = 0; layer < c->layers && status == ES_OK; layer++)
        status = measure_layer(&w, layer, out, err);
    es_arena_free(&w.arena);
    return status;
}
