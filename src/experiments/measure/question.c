/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `measure`: attention of queries, keys and values from files. Parameters,
 * help, stages, and the order of the steps. */
#include "experiments/measure/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "experiments/kit/answer_kit.h"

const char *const measure_dtypes[] = {"f16", "bf16", "f32", "f64", NULL};
static const char *const layouts[] = {"bhnd", "bnhd", NULL}; /* es_array_order */

#define FIELD(member) .field = offsetof(measure_params, member)
static const es_param params[] = {
    {"q", 0, ES_PARAM_FILE, "FILE",
     "queries of shape (m, d), (heads, m, d) or (batch, heads, m, d), f16, bf16, f32 or f64: a "
     ".npy "
     "file, or FILE.safetensors:TENSOR",
     FIELD(paths[MEASURE_Q])},
    {"k", 0, ES_PARAM_FILE, "FILE",
     "keys, (n, d), (heads, n, d) or (batch, heads, n, d). Fewer heads than Q has, if they divide "
     "them, are shared by "
     "groups of query heads",
     FIELD(paths[MEASURE_K])},
    {"v", 0, ES_PARAM_FILE, "FILE", "values, (n, dv), (heads, n, dv) or (batch, heads, n, dv)",
     FIELD(paths[MEASURE_V])},
    {"layout", 0, ES_PARAM_CHOICE, "bhnd|bnhd",
     "order of the dimensions of --q, --k, --v: (batch, heads, n, d), Hugging Face's, or "
     "(batch, n, heads, d), flash-attention's; arrays of three dimensions have no batch",
     FIELD(layout), .choices = layouts, .default_note = "bhnd"},
    {"batch", 0, ES_PARAM_WHOLE, "B", "which of a batch of arrays of four dimensions, from 0",
     FIELD(batch), .min = 0, .max = 0x1p40, .default_note = "the only one"},
    {"bf16", 0, ES_PARAM_FLAG, NULL,
     "two-byte integers or raw bytes in .npy files are bfloat16, which NumPy has no name for",
     FIELD(bf16)},
    {"tokens", 0, ES_PARAM_FILE, "FILE",
     "tokens (n, d) instead of queries, keys and values, which are x Wq', x Wk', x Wv'; implies "
     "--self",
     FIELD(tokens)},
    {"Wq", 0, ES_PARAM_FILE, "FILE", "with --tokens: (k, d) or (heads, k, d)",
     FIELD(weights[MEASURE_Q]), .default_note = "the identity"},
    {"Wk", 0, ES_PARAM_FILE, "FILE", "the same for keys; heads may be shared as above",
     FIELD(weights[MEASURE_K]), .default_note = "the identity"},
    {"Wv", 0, ES_PARAM_FILE, "FILE", "the same for values, (dv, d) or (heads, dv, d)",
     FIELD(weights[MEASURE_V]), .default_note = "the identity", .alias = "V"},
    {"scale", 0, ES_PARAM_NUMBER, "B", "score scale b of exp(b q.k)", FIELD(scale), .min = 0.0,
     .max = 1e30, .default_note = "1/sqrt(d)"},
    {"score-cap", 0, ES_PARAM_NUMBER, "C",
     "cap scores: s becomes C tanh(s/C), after the scale and before the mask, as in Gemma 2. The "
     "horizon, which is that of uncapped scores, is left out",
     FIELD(score_cap), .min = 1e-18, .max = 1e18, .default_note = "none", .unit = "nats"},
    {"sink-logits", 0, ES_PARAM_FILE, "FILE|LIST",
     "learned sinks, as in gpt-oss: weights are exp(s) / (exp(logit) + sum exp(s)). One number, "
     "one for each query head with commas between them, or a file of them (.npy, "
     "FILE.safetensors:TENSOR). The sink counts as one more key with value 0 in entropy, ESS, "
     "largest weight, top-k masses and lse. Horizon and regime, which are those of keys alone, are "
     "left out",
     FIELD(sink_logits), .default_note = "no sink", .unit = "nats"},
    {"scales", 0, ES_PARAM_REALS, "GRID", "several score scales in one pass", FIELD(scales),
     .min = 0.0, .max = 1e30},
    {"prefixes", 0, ES_PARAM_COUNTS, "GRID",
     "results on the first n keys, for each n of the grid, in one pass", FIELD(prefixes), .min = 1,
     .max = 0x1p40, .increasing = true, .default_note = "all keys", .unit = "keys"},
    {"self", 0, ES_PARAM_FLAG, NULL,
     "the queries are the tokens: with prefix n only the first n queries are used; rows of the "
     "others are NaN in files",
     FIELD(self)},
    {"exclude-self", 0, ES_PARAM_FLAG, NULL,
     "a query does not see its own key: key i for query i, or with --causal or --window the key at "
     "its position",
     FIELD(exclude_self)},
    {"causal", 0, ES_PARAM_FLAG, NULL,
     "a query sees its own key and those before it. The last query has the position of the last "
     "key: fewer queries than keys belong to the last keys, as with a cache. With --prefixes "
     "implies --self",
     FIELD(causal)},
    {"window", 0, ES_PARAM_WHOLE, "W",
     "a query sees the W keys to either side of its own; with --causal the last W, its own "
     "included. Positions are those of --causal",
     FIELD(window), .min = 1, .max = 0x1p40, .default_note = "all keys", .unit = "keys"},
    {"top-k", 0, ES_PARAM_COUNTS, "GRID", "also the mass of the k largest weights, for each k",
     FIELD(top_k), .min = 1, .max = 65536, .increasing = true},
    {"error-bar", 0, ES_PARAM_WHOLE, "B",
     "error bars: how far outputs are from those of infinitely many such keys, from how "
     "much blocks of B consecutive keys differ in this one context. B is a power of two, longer "
     "than the distance over which keys are similar",
     FIELD(block), .min = 1, .max = ES_ATTEND_BLOCK, .default_note = "none", .unit = "keys"},
    {"moments", 0, ES_PARAM_FLAG, NULL, "mean and covariance of the outputs in full, in the JSON",
     FIELD(moments)},
    {"output", 0, ES_PARAM_OUTPUT, "FILE",
     "write the outputs as .npy, ([heads,] [scales,] [prefixes,] m, dv), in the precision of V, or "
     "f64 with --precision f64",
     FIELD(output)},
    {"per-query", 0, ES_PARAM_OUTPUT, "FILE",
     "write statistics of every query, as .csv with a header or as .npy. The .npy file has shape "
     "(..., m, 5 + k), with columns lse, entropy, top weight, top index (-1: the sink), sum of "
     "squares, top-k masses, and 6 more with --error-bar: the bar, that of independent keys, "
     "design effect, relative bar, t, error_bar_valid (1: "
     "this context determines the bar; 0: it does not)",
     FIELD(per_query)},
    {"compare", 0, ES_PARAM_FILE, "FILE",
     "an output for the same inputs, (m, dv), (heads, m, dv), (batch, heads, m, dv) or all heads "
     "side by side (m, heads dv), made by another program: report how far it is from the f64 "
     "engine's",
     FIELD(compare)},
    {"compare-layout", 0, ES_PARAM_CHOICE, "bhnd|bnhd",
     "order of the dimensions of --compare; outputs of models are often (batch, n, heads, d)",
     FIELD(compare_layout), .choices = layouts, .default_note = "that of --layout"},
    {"compare-dtype", 0, ES_PARAM_CHOICE, "f16|bf16|f32|f64",
     "number format in which the output of --compare was computed, which says how large its errors "
     "may be; bf16 also reads two-byte items as bfloat16",
     FIELD(compare_dtype), .choices = measure_dtypes,
     .default_note = "the narrowest that holds all its numbers"},
    {"tolerance", 0, ES_PARAM_NUMBER, "X",
     "with --compare: exit with code 1 only if the relative L2 error is above X, whatever the "
     "first "
     "line says; without it, if a row is off by more than a kernel of its number format may be",
     FIELD(tolerance), .min = 0.0, .max = 1e30, .not_in_fingerprint = true},
    {0}};

/* ---- what was asked ---- */

/* Refuses parameters that contradict each other. */
static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "measure.options", hint, "%s", message);
}

/* Checks that parameters do not contradict each other. */
static es_status check(const es_job *job, const measure_params *p, es_error *err)
{
    const bool any = p->paths[0] || p->paths[1] || p->paths[2];
    if (p->tokens ? any : !p->paths[0] || !p->paths[1] || !p->paths[2])
        return refuse("esscher measure --q Q.npy --k K.npy --v V.npy",
                      any && p->tokens ? "--tokens excludes --q, --k and --v"
                                       : "--q, --k and --v are needed, or --tokens",
                      err);
    if (!p->tokens && (p->weights[0] || p->weights[1] || p->weights[2]))
        return refuse("name the tokens with --tokens", "--Wq, --Wk and --Wv go with --tokens", err);
    if (!p->weights[MEASURE_Q] != !p->weights[MEASURE_K])
        return refuse("give both, or neither", "--Wq and --Wk belong together", err);
    if (!isnan(p->scale) && p->scales.count)
        return refuse("choose one", "--scale and --scales at once", err);
    if (p->compare && (p->scales.count > 1 || p->prefixes.count > 1))
        return refuse("run the comparison for one of them",
                      "--compare works with one scale and one prefix", err);
    if (p->compare && job->precision_given && job->precision == ES_F32)
        return refuse("leave --precision f32 out", "--compare is judged by the f64 engine", err);
    if (!isnan(p->tolerance) && !p->compare)
        return refuse("name their output with --compare", "--tolerance without --compare", err);
    if (p->block & (p->block - 1))
        return refuse("use 16, 64, 256 ...", "--error-bar takes a power of two", err);
    if (p->block && p->sink_logits)
        return refuse(
            "leave --sink-logits out",
            "--error-bar asks for infinitely many keys, beside which a sink has no weight", err);
    if (p->block && p->window)
        return refuse("leave --window out",
                      "--error-bar asks for infinitely many keys, --window never has them", err);
    return ES_OK;
}

/* The row about the shapes of the arrays. */
typedef struct shape_row {
    int64_t heads, kv_heads, queries, keys, dim, value_dim;
} shape_row;

static const es_column shape_columns[] = {
    ES_COL(shape_row, heads, ES_FORMAT_COUNT, "query heads", ""),
    ES_COL(shape_row, kv_heads, ES_FORMAT_COUNT, "key heads", ""),
    ES_COL(shape_row, queries, ES_FORMAT_COUNT, "queries", ""),
    ES_COL(shape_row, keys, ES_FORMAT_COUNT, "keys", ""),
    ES_COL(shape_row, dim, ES_FORMAT_COUNT, "dimension", "", "of queries and keys"),
    ES_COL(shape_row, value_dim, ES_FORMAT_COUNT, "value dimension", ""),
    {0}};
static const es_table_spec shape_table = {"shape", shape_columns,
                                          ES_VIEW("Sizes of the arrays", .only_with_full = true),
                                          ES_ROW(shape_row), .record = true};

/* Adds sizes, mask and k of the question to the answer. */
static es_status add_question(const measure_state *s, es_answer *a, es_error *err)
{
    shape_row *r = es_rows_add(es_answer_table(a, &shape_table), shape_row);
    if (!r)
        return es_answer_status(a, err);
    *r = (shape_row){.heads = s->heads,
                     .kv_heads = s->kv_heads,
                     .queries = s->m,
                     .keys = s->n,
                     .dim = s->d,
                     .value_dim = s->dv};
    measure_mask_put(s, a);
    if (s->K)
        es_answer_counts(a, "top_k", s->opts.top_k, s->K);
    return ES_OK;
}

/* ---- stages ---- */

/* Names all numbers of a cell: measure_fields, and what --top-k, --moments and --sink-logits add.
 */
static es_status name_numbers(es_job *job, const char *const **out, es_error *err)
{
    enum { SIZE = 48 };
    const measure_state *s = job->state;
    const int64_t more = s->numbers - MEASURE_NUMBERS, K = s->K, dv = s->dv;
    const char **names;
    char *text;
    ES_TRY(ES_JOB_NEW(job, names, s->numbers, err));
    ES_TRY(ES_JOB_NEW_2D(job, text, MEASURE_NUMBERS + more, SIZE, err));
    for (const es_cell_field *f = measure_fields; f->name; f++) {
        const size_t at = f->offset / sizeof(double);
        names[at] = f->name;
        if (!f->measured)
            continue;
        snprintf(text, SIZE, "%s_se", f->name);
        names[at + 1] = text;
        text += SIZE;
    }
    for (int64_t i = 0; i < more; i++, text += SIZE) {
        const int64_t at = i - 2 * K;
        names[MEASURE_NUMBERS + i] = text;
        if (s->sinks && i >= more - 2)
            snprintf(text, SIZE, "sink_weight%s", i < more - 1 ? "" : "_se");
        else if (i < 2 * K)
            snprintf(text, SIZE, "top_mass_%s%lld", i < K ? "" : "se_", (long long)(i % K));
        else if (at < dv)
            snprintf(text, SIZE, "mean_%lld", (long long)at);
        else
            snprintf(text, SIZE, "cov_%lld_%lld", (long long)((at - dv) / dv),
                     (long long)((at - dv) % dv));
    }
    *out = names;
    return ES_OK;
}

static const es_cell_field horizon_fields[] = {
    ES_FIELD(measure_horizon, horizon),   ES_FIELD(measure_horizon, horizon_error),
    ES_FIELD(measure_horizon, frobenius), ES_FIELD(measure_horizon, score_sd),
    ES_FIELD(measure_horizon, one_sided), {0}};

/* Computes the horizon of a head; the summary asks again for the reason if there is none. */
static es_status run_horizon(es_job *job, int64_t head, const es_exec *exec, void *out,
                             es_error *err)
{
    char reason[MEASURE_REASON];
    (void)err;
    return measure_horizon_of(job->state, head, exec, out, reason);
}

/* Adds the stages; a cell of each is a head. The first was called "attention" before its columns
 * changed: a run file of then has another stage, and its heads are computed again. */
static es_status add_stages(es_job *job, es_error *err)
{
    const measure_state *s = job->state;
    const char *const *names;
    ES_TRY(name_numbers(job, &names, err));
    ES_TRY(es_job_stage(job,
                        &(es_stage){"statistics", .phase = "attending", .noun = "heads",
                                    .cells = s->heads, .rows = s->S * s->P, .cols = s->numbers,
                                    .columns = names, .reports_progress = true,
                                    .flops = s->attention_flops, .run = measure_head},
                        err));
    ES_TRY(es_job_stage(job,
                        &(es_stage){"horizons", .phase = "covariances", .noun = "heads",
                                    .cells = s->horizon_reason[0] ? 0 : s->heads, .rows = 1,
                                    ES_RECORD(measure_horizon, horizon_fields),
                                    .flops = s->horizon_flops, .run = run_horizon},
                        err));
    return es_job_stage(job,
                        &(es_stage){"gaps", .phase = "gaps of scores", .noun = "heads",
                                    .cells = measure_counts_gaps(s) ? s->heads : 0, .rows = 1,
                                    ES_RECORD(measure_gaps, measure_gap_fields),
                                    .flops = measure_gap_flops(s), .run = measure_count_gaps},
                        err);
}

/* ---- all of it ---- */

/* Checks the question and reads the headers of its files. */
static es_status open_study(es_job *job, es_error *err)
{
    const measure_params *p = job->params;
    measure_state *s = job->state;
    s->p = p;
    for (int i = 0; i < 3; i++)
        s->paths[i] = p->paths[i];
    s->paths[MEASURE_Y] = p->compare;
    s->keeps_output = p->output || p->compare || p->block;
    ES_TRY(check(job, p, err));
    ES_TRY(measure_files_check(job, err));
    ES_TRY(measure_inspect(job, err));
    ES_TRY(add_question(s, job->answer, err));
    return add_stages(job, err);
}

/* Returns the cost that the question stored when it was opened: arrays, or tokens and weights. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    (void)err;
    *out = ((const measure_state *)job->state)->cost;
    return ES_OK;
}

/* Loads the files and allocates what is written at the end. */
static es_status begin(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    es_job_phase(job, "loading", s->tokens.flops);
    ES_TRY(measure_load(job, err));
    ES_TRY(measure_files_start(s, err));
    s->start = es_seconds();
    return ES_OK;
}

/* Frees the arrays that were read, and the texts of file names. */
static void close_study(es_job *job)
{
    measure_state *s = job->state;
    for (int i = 0; i < MEASURE_FILES; i++)
        es_array_free(&s->arrays[i]);
    es_array_free(&s->tokens.x);
    for (int i = 0; i < 3; i++)
        es_array_free(&s->tokens.weights[i]);
    es_arena_free(&s->files);
}

static const char *const examples[] = {
    "esscher measure --q Q.npy --k K.npy --v V.npy",
    "esscher measure --q Q.npy --k K.npy --v V.npy --compare Y.npy",
    "esscher measure --q Q.npy --k K.npy --v V.npy --prefixes 1e3..3e4*12 --json",
    "esscher measure --q Q.npy --k K.npy --v V.npy --layout bnhd --out heads.run",
    "esscher measure --q Q.npy --k K.npy --v V.npy --causal --window 4096 --compare Y.npy",
    "esscher measure --q Q.npy --k K.npy --v V.npy --sink-logits 1.5 --score-cap 50",
    "esscher measure --q Q.npy --k K.npy --v V.npy --error-bar 64 --per-query bars.csv",
    "esscher measure --tokens X.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --json",
    NULL};

const es_study es_study_measure = {
    "measure",
    .summary = "attention statistics of your Q, K, V files; checks the output of your kernel",
    .group = ES_GROUP_ARRAYS,
    .main_options = "q k v tokens scale causal prefixes output compare tolerance per-query",
    .usage = "(--q Q.npy --k K.npy --v V.npy | --tokens X.npy) [options]",
    .about = "Computes exact softmax attention of every query against every key, or against those "
             "that it sees with --causal and --window. Reports per head, score scale and prefix of "
             "the keys: entropy, effective number of keys, largest weight, log-sum-exp, mean and "
             "covariance of the outputs; and per head the horizon H, which measures how sharp "
             "attention is, with the convergence rates that follow from it [cited]. Some queries "
             "are computed again in higher precision to measure the accuracy of the run. --compare "
             "checks the output of your kernel.\n\n"
             "--compare checks the output of another program. Every row is compared with the error "
             "that a kernel of its number format may have [heuristic]; a kernel that rounds scores "
             "before the softmax passes, and the answer says so. If rows are off, the exit code is "
             "1, and the answer names what the output is instead, if it finds it: causal or not, a "
             "window, another or no scale, no division by the sum, heads in another order, wrong "
             "groups, visible padding, missing first or last keys, and more. If the format's error "
             "is larger than the values, no verdict is possible: the answer says so, with exit "
             "code 0 unless --tolerance is given.\n\n"
             "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(measure_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "compare_heads", /* what was asked for with --compare; else the first table */
    .state = sizeof(measure_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = measure_summarise,
    .close = close_study};
