/* measure_study.c : what attention does with queries, keys and values that the user brings: what is
 * asked, the stages, files of outputs and per-query statistics, and the order of things. */
#include "study/measure_study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/file.h"
#include "study/answer_kit.h"

#define FIELD(member) .field = offsetof(measure_params, member)
static const es_param params[] = {
    {"q", 0, ES_PARAM_FILE, "FILE",
     "queries of shape (m, d) or (heads, m, d), f16, bf16, f32 or f64: a .npy file, or "
     "FILE.safetensors:TENSOR",
     FIELD(paths[MEASURE_Q])},
    {"k", 0, ES_PARAM_FILE, "FILE",
     "keys, (n, d) or (heads, n, d). Fewer heads than Q has, if they divide them, are shared by "
     "groups of query heads",
     FIELD(paths[MEASURE_K])},
    {"v", 0, ES_PARAM_FILE, "FILE", "values, (n, dv) or (heads, n, dv)", FIELD(paths[MEASURE_V])},
    {"tokens", 0, ES_PARAM_FILE, "FILE",
     "tokens (n, d) instead of queries, keys and values, which are x Wq', x Wk', x Wv'; implies "
     "--self",
     FIELD(tokens)},
    {"Wq", 0, ES_PARAM_FILE, "FILE", "with --tokens: (k, d) or (heads, k, d)",
     FIELD(weights[MEASURE_Q]), .otherwise = "the identity"},
    {"Wk", 0, ES_PARAM_FILE, "FILE", "the same for keys; heads may be shared as above",
     FIELD(weights[MEASURE_K]), .otherwise = "the identity"},
    {"Wv", 0, ES_PARAM_FILE, "FILE", "the same for values, (dv, d) or (heads, dv, d)",
     FIELD(weights[MEASURE_V]), .otherwise = "the identity", .alias = "V"},
    {"scale", 0, ES_PARAM_NUMBER, "B", "score scale b of exp(b q.k)", FIELD(scale), .min = 0.0,
     .max = 1e30, .otherwise = "1/sqrt(d)"},
    {"scales", 0, ES_PARAM_REALS, "GRID", "several score scales in one pass", FIELD(scales),
     .min = 0.0, .max = 1e30},
    {"prefixes", 0, ES_PARAM_COUNTS, "GRID",
     "results on the first n keys, for each n of the grid, in one pass", FIELD(prefixes), .min = 1,
     .max = 0x1p40, .increasing = true, .otherwise = "all keys", .unit = "keys"},
    {"self", 0, ES_PARAM_FLAG, NULL,
     "the queries are the tokens: with prefix n only the first n of them ask; rows of the others "
     "are NaN in files",
     FIELD(self)},
    {"exclude-self", 0, ES_PARAM_FLAG, NULL, "query i does not see key i", FIELD(exclude_self)},
    {"top-k", 0, ES_PARAM_COUNTS, "GRID", "also the mass of the k largest weights, for each k",
     FIELD(top_k), .min = 1, .max = 65536, .increasing = true},
    {"error-bar", 0, ES_PARAM_WHOLE, "B",
     "error bars: how far outputs are from those of infinitely many such keys, from how "
     "much blocks of B consecutive keys differ in this one context. A power of two, long against "
     "what neighbouring keys share",
     FIELD(block), .min = 1, .max = ES_ATTEND_BLOCK, .otherwise = "none", .unit = "keys"},
    {"moments", 0, ES_PARAM_FLAG, NULL, "mean and covariance of the outputs in full, in the JSON",
     FIELD(moments)},
    {"out", 'o', ES_PARAM_OUTPUT, "FILE",
     "write the outputs as .npy, ([heads,] [scales,] [prefixes,] m, dv), in the precision of V, or "
     "f64 with --precision f64",
     FIELD(out)},
    {"per-query", 0, ES_PARAM_OUTPUT, "FILE",
     "write statistics of every query: .csv with a header, or .npy (..., m, 5 + k) with columns "
     "lse, entropy, top weight, top index, sum of squares, top-k masses, and 6 more with "
     "--error-bar: the bar, that of independent keys, design effect, relative bar, t, told (1 or "
     "0)",
     FIELD(per_query)},
    {"compare", 0, ES_PARAM_FILE, "FILE",
     "an output for the same inputs, (m, dv) or (heads, m, dv), made by another program: report "
     "how far it is from the f64 engine's",
     FIELD(compare)},
    {"tolerance", 0, ES_PARAM_NUMBER, "X",
     "with --compare: exit with code 1 if the relative L2 error is above X", FIELD(tolerance),
     .min = 0.0, .max = 1e30, .aside = true},
    {"force", 0, ES_PARAM_FLAG, NULL, "overwrite files that exist", FIELD(force), .aside = true},
    {0}};

/* ---- what was asked ---- */

static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "measure.options", hint, "%s", message);
}

/* Parameters that contradict each other. */
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
    if (p->out && p->per_query && strcmp(p->out, p->per_query) == 0)
        return refuse("give two names", "--out and --per-query name the same file", err);
    return ES_OK;
}

static const es_column shape_columns[] = {
    {"heads", "query heads", "", ES_FORMAT_COUNT},
    {"kv_heads", "key heads", "", ES_FORMAT_COUNT},
    {"queries", "queries", "", ES_FORMAT_COUNT},
    {"keys", "keys", "", ES_FORMAT_COUNT},
    {"dim", "dimension", "", ES_FORMAT_COUNT, "of queries and keys"},
    {"value_dim", "value dimension", "", ES_FORMAT_COUNT},
    {0}};
static const es_table_spec shape_table = {"shape", shape_columns, NULL, .record = true};

static void put_question(const measure_state *s, es_answer *a)
{
    es_table *t = es_answer_table(a, &shape_table);
    const int64_t row = es_table_row(t);
    es_put(t, row, {"heads", (double)s->heads}, {"kv_heads", (double)s->kv_heads},
           {"queries", (double)s->m}, {"keys", (double)s->n}, {"dim", (double)s->d},
           {"value_dim", (double)s->dv});
    if (s->K)
        es_answer_counts(a, "top_k", s->opts.top_k, s->K);
}

/* ---- stages ---- */

/* Names of all numbers of a cell: those of every head, and what --top-k and --moments add. */
static es_status name_numbers(es_job *job, const char *const **out, es_error *err)
{
    enum { ROOM = 48 };
    const measure_state *s = job->state;
    const int64_t more = s->numbers - MEASURE_NUMBERS, K = s->K, dv = s->dv;
    const char **names;
    char *text;
    ES_TRY(es_job_array(job, s->numbers, 1, sizeof *names, &names, err));
    ES_TRY(es_job_array(job, more, ROOM, 1, &text, err));
    memcpy((void *)names, (const void *)measure_names, sizeof measure_names);
    for (int64_t i = 0; i < more; i++, text += ROOM) {
        const int64_t at = i - 2 * K;
        names[MEASURE_NUMBERS + i] = text;
        if (i < 2 * K)
            snprintf(text, ROOM, "top_mass_%s%lld", i < K ? "" : "se_", (long long)(i % K));
        else if (at < dv)
            snprintf(text, ROOM, "mean_%lld", (long long)at);
        else
            snprintf(text, ROOM, "cov_%lld_%lld", (long long)((at - dv) / dv),
                     (long long)((at - dv) % dv));
    }
    *out = names;
    return ES_OK;
}

static const char *const horizon_names[] = {"horizon", "horizon_error", "frobenius", "score_sd",
                                            "one_sided"};
_Static_assert(sizeof(measure_horizon) == MEASURE_HORIZON_NUMBERS * sizeof(double),
               "a horizon is its numbers");

static es_status run_horizon(es_job *job, int64_t head, const es_exec *exec, double *out,
                             es_error *err)
{
    char reason[MEASURE_REASON]; /* the summary asks again where there is one */
    (void)err;
    return measure_horizon_of(job->state, head, exec, (measure_horizon *)(void *)out, reason);
}

static es_status add_stages(es_job *job, es_error *err)
{
    const measure_state *s = job->state;
    const char *const *names;
    ES_TRY(name_numbers(job, &names, err));
    ES_TRY(es_job_stage(job,
                        &(es_stage){"attention", .phase = "attending", .noun = "heads",
                                    .cells = s->heads, .rows = s->S * s->P, .cols = s->numbers,
                                    .columns = names, .tells = true, .flops = s->attention_flops,
                                    .run = measure_head},
                        err));
    return es_job_stage(job,
                        &(es_stage){"horizons", .phase = "covariances", .noun = "heads",
                                    .cells = s->horizon_reason[0] ? 0 : s->heads, .rows = 1,
                                    .cols = MEASURE_HORIZON_NUMBERS, .columns = horizon_names,
                                    .flops = s->horizon_flops, .run = run_horizon},
                        err);
}

/* ---- files ---- */

enum { COLUMNS = 5 }; /* of per-query files, before the top-k masses and error bars */
enum { TOP_INDEX = 3 };

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

static int64_t columns_of(const measure_state *s)
{
    return COLUMNS + s->K + (s->p->block ? MEASURE_BARS : 0);
}

static int64_t cells_of(const measure_state *s) { return s->S * s->P * s->m; }

double measure_files_bytes(const measure_state *s)
{
    const double cells = (double)s->heads * (double)cells_of(s);
    double bytes = 0.0;
    if (s->p->out)
        bytes += cells * (double)s->dv * (double)es_dtype_size(s->out_dtype);
    if (s->p->per_query)
        bytes += cells * 8.0 * (double)columns_of(s);
    return bytes;
}

/* (heads, S, P, m, last) without the leading dimensions of size 1; returns the rank. */
static int file_shape(const measure_state *s, int64_t last, int64_t shape[5])
{
    const int64_t leading[] = {s->heads, s->S, s->P};
    int rank = 0;
    for (int i = 0; i < 3; i++)
        if (leading[i] > 1)
            shape[rank++] = leading[i];
    shape[rank++] = s->m;
    shape[rank++] = last;
    return rank;
}

static es_status check_rank(const measure_state *s, const char *path, es_error *err)
{
    int64_t shape[5];
    if (file_shape(s, 1, shape) <= ES_ARRAY_RANK)
        return ES_OK;
    return es_fail_file(err, ES_E_ARGUMENT, path, -1, "measure.out.rank",
                        "run one scale or one prefix at a time, or write --per-query FILE.csv",
                        "several heads, scales and prefixes at once make five dimensions, an array "
                        "has at most four");
}

static es_status measure_files_start(measure_state *s, es_error *err)
{
    const measure_params *p = s->p;
    const int64_t cells = s->heads * cells_of(s);
    void *memory;
    if (p->out) {
        ES_TRY(check_rank(s, p->out, err));
        ES_TRY(es_arena_array(&s->files, cells, s->dv, es_dtype_size(s->out_dtype), "outputs",
                              &s->outputs, err));
    }
    if (!p->per_query)
        return ES_OK;
    if (!ends_with(p->per_query, ".csv") && !ends_with(p->per_query, ".npy"))
        return es_fail_file(err, ES_E_ARGUMENT, p->per_query, -1, "measure.per_query",
                            "end the name in .csv or .npy", "the name does not say which format");
    if (ends_with(p->per_query, ".npy"))
        ES_TRY(check_rank(s, p->per_query, err));
    ES_TRY(es_arena_array(&s->files, cells, columns_of(s), sizeof(double), "statistics of queries",
                          &memory, err));
    s->per_query = memory;
    return ES_OK;
}

void measure_files_head(measure_state *s, int64_t head, const es_attend_out *ours,
                        const double *bars)
{
    const int64_t cells = cells_of(s), width = columns_of(s), count = cells * s->dv;
    for (int64_t i = 0; s->outputs && i < count; i++) {
        if (s->out_dtype == ES_F32)
            ((float *)s->outputs)[head * count + i] = (float)ours->output[i];
        else
            ((double *)s->outputs)[head * count + i] = ours->output[i];
    }
    for (int64_t at = 0; s->per_query && at < cells; at++) {
        double *to = s->per_query + (head * cells + at) * width;
        to[0] = ours->lse[at];
        to[1] = ours->entropy[at];
        to[2] = ours->top_weight[at];
        to[TOP_INDEX] = (double)ours->top_index[at];
        to[4] = ours->sum_squares[at];
        for (int64_t k = 0; k < s->K; k++)
            to[COLUMNS + k] = ours->top_mass[at * s->K + k];
        for (int i = 0; bars && i < MEASURE_BARS; i++)
            to[COLUMNS + s->K + i] = bars[at * MEASURE_BARS + i];
    }
}

/* Lines on their way into a file. */
typedef struct csv {
    es_draft draft;
    char text[65536];
    size_t used;
} csv;

static es_status flush(csv *c, es_error *err)
{
    const size_t used = c->used;
    c->used = 0;
    return es_draft_write(&c->draft, c->text, used, err);
}

static void add_count(csv *c, const char *before, int64_t value)
{
    c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%s%lld", before,
                                (long long)value);
}

/* With all digits; nothing at all for NaN and infinities. */
static void add_real(csv *c, double value)
{
    c->text[c->used++] = ',';
    if (isfinite(value))
        c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%.17g", value);
}

/* Room for some more numbers. */
static es_status flush_if_full(csv *c, es_error *err)
{
    return c->used + 512 > sizeof c->text ? flush(c, err) : ES_OK;
}

/* A line for each query of head h at scale and prefix `at`, in the order of the array. */
static es_status csv_rows(const measure_state *s, csv *c, int64_t h, int64_t at, es_error *err)
{
    const int64_t width = columns_of(s);
    for (int64_t i = 0; i < measure_queries(s, at % s->P); i++) {
        const double *from = s->per_query + ((h * s->S * s->P + at) * s->m + i) * width;
        add_count(c, "", h);
        add_real(c, s->opts.scales[at / s->P]);
        add_count(c, ",", s->opts.prefixes[at % s->P]);
        add_count(c, ",", i);
        for (int64_t j = 0; j < width; j++) {
            if (j == TOP_INDEX)
                add_count(c, ",", (int64_t)from[j]);
            else
                add_real(c, from[j]);
            ES_TRY(flush_if_full(c, err));
        }
        c->text[c->used++] = '\n';
    }
    return ES_OK;
}

static es_status csv_all(const measure_state *s, csv *c, es_error *err)
{
    c->used = (size_t)snprintf(c->text, sizeof c->text,
                               "head,scale,n,query,lse,entropy,top_weight,top_index,sum_squares");
    for (int64_t k = 0; k < s->K; k++) {
        add_count(c, ",top_mass_", s->opts.top_k[k]);
        ES_TRY(flush_if_full(c, err));
    }
    for (int i = 0; s->p->block && i < MEASURE_BARS; i++)
        c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, ",%s",
                                    measure_bar_names[i]);
    c->text[c->used++] = '\n';
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t at = 0; at < s->S * s->P; at++)
            ES_TRY(csv_rows(s, c, h, at, err));
    return flush(c, err);
}

static es_status write_csv(const measure_state *s, es_error *err)
{
    es_arena scratch = {0};
    void *memory;
    ES_TRY(es_arena_array(&scratch, 1, 1, sizeof(csv), "lines", &memory, err));
    csv *c = memory;
    es_status status = es_draft_open(s->p->per_query, s->p->force, &c->draft, err);
    if (status == ES_OK) {
        status = csv_all(s, c, err);
        if (status == ES_OK)
            status = es_draft_publish(&c->draft, err);
        else
            es_draft_discard(&c->draft);
    }
    es_arena_free(&scratch);
    return status;
}

es_status measure_files_finish(const measure_state *s, es_error *err)
{
    const measure_params *p = s->p;
    int64_t shape[5];
    if (s->outputs) {
        const int rank = file_shape(s, s->dv, shape);
        ES_TRY(es_npy_save(p->out, s->out_dtype, rank, shape, s->outputs, p->force, err));
    }
    if (!s->per_query)
        return ES_OK;
    if (ends_with(p->per_query, ".csv"))
        return write_csv(s, err);
    const int rank = file_shape(s, columns_of(s), shape);
    return es_npy_save(p->per_query, ES_F64, rank, shape, s->per_query, p->force, err);
}

/* ---- all of it ---- */

static es_status open_study(es_job *job, es_error *err)
{
    const measure_params *p = job->params;
    measure_state *s = job->state;
    s->p = p;
    for (int i = 0; i < 3; i++)
        s->paths[i] = p->paths[i];
    s->paths[MEASURE_Y] = p->compare;
    s->keeps_output = p->out || p->compare || p->block;
    ES_TRY(check(job, p, err));
    /* Refuse existing outputs before looking at the inputs: the cheapest mistake first. */
    if (p->out)
        ES_TRY(es_file_may_create(p->out, p->force, err));
    if (p->per_query)
        ES_TRY(es_file_may_create(p->per_query, p->force, err));
    ES_TRY(measure_inspect(job, err));
    put_question(s, job->answer);
    return add_stages(job, err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    (void)err;
    *out = ((const measure_state *)job->state)->cost;
    return ES_OK;
}

double measure_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static es_status begin(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    es_job_phase(job, "loading", s->tokens.flops);
    ES_TRY(measure_load(job, err));
    ES_TRY(measure_files_start(s, err));
    s->start = measure_clock();
    return ES_OK;
}

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
    "esscher measure --q Q.npy --k K.npy --v V.npy --prefixes 1e3..3e4*12 --json",
    "esscher measure --q Q.npy --k K.npy --v V.npy --compare Y.npy --tolerance 1e-5",
    "esscher measure --q Q.npy --k K.npy --v V.npy --error-bar 64 --per-query bars.csv",
    "esscher measure --tokens X.npy --Wq Wq.npy --Wk Wk.npy --Wv Wv.npy --json",
    NULL};

const es_study es_study_measure = {
    "measure",
    .summary = "attention statistics of Q, K, V in files; an oracle for other kernels",
    .usage = "(--q Q.npy --k K.npy --v V.npy | --tokens X.npy) [options]",
    .about = "Computes exact softmax attention of every query against every key, streamed, and "
             "reports per head, score scale and prefix of the keys: entropy, effective number of "
             "keys, largest weight, log-sum-exp, mean and covariance of the outputs; and per head "
             "the horizon that covariances of queries and keys imply, the exponents that it stands "
             "for [cited], with reach and coupling where --tokens are given. Some queries are "
             "computed again in higher precision, so that the accuracy of the run is measured and "
             "not assumed.\n\n"
             "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(measure_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "compare_heads", /* what was asked for with --compare; else the first table */
    .keeps_nothing = true,
    .state = sizeof(measure_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = measure_summarise,
    .close = close_study};
