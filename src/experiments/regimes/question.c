/* question.c : keys on the sphere: averaging, selective and single-key attention. */
#include "experiments/regimes/question.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

const char *const regimes_laws[] = {"uniform",   "vmf",     "mixture", "subsphere",
                                    "vanishing", "planted", "file",    NULL};

static const es_param params[] = {
    {"dim", 'd', ES_PARAM_COUNTS, "GRID", "keys lie on the unit sphere of R^D",
     .field = offsetof(regimes_params, dim), .min = 2, .max = 4096, .increasing = true,
     .default_note = "5", .alias = "d"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "keys, up to 1e18; 1e9 where all are drawn",
     .field = offsetof(regimes_params, n), .min = 1, .max = 1e18, .increasing = true,
     .default_note = "1e2,1e4,1e6,1e12; 100,1000 where all are drawn", .unit = "keys"},
    {"b", 0, ES_PARAM_REALS, "GRID",
     "inverse temperatures in units of the critical scale: beta = b n^(1/alpha), alpha = (D-1)/2 "
     "for uniform keys",
     .field = offsetof(regimes_params, b), .min = 1e-9, .max = 1e9, .increasing = true,
     .default_note = "0.1,1,10"},
    {"beta", 0, ES_PARAM_REALS, "GRID", "inverse temperatures themselves, in place of --b",
     .field = offsetof(regimes_params, beta), .min = 1e-9, .max = 1e50, .increasing = true},
    {"key-law", 0, ES_PARAM_CHOICE, "LAW",
     "uniform; vmf: concentrated around a direction; mixture of such; subsphere: only on a sphere "
     "S^m through the query; vanishing: density like distance^p near the query; planted: uniform, "
     "but one key is the query; file: chosen among --points",
     .field = offsetof(regimes_params, law), .choices = regimes_laws, .default_value = "uniform",
     .renamed_from = "keys"},
    {"kappa", 0, ES_PARAM_REALS, "LIST", "concentrations of vmf, or of the parts of a mixture",
     .field = offsetof(regimes_params, kappa), .min = 0, .max = 1e4,
     .default_note = "10 of vmf, 0,20 of a mixture"},
    {"cosine", 0, ES_PARAM_REALS, "LIST", "cosines between the parts' directions and the query",
     .field = offsetof(regimes_params, cosine), .min = -1, .max = 1, .default_note = "1 for each"},
    {"part-weights", 0, ES_PARAM_REALS, "LIST", "weights of the parts",
     .field = offsetof(regimes_params, weights), .min = 1e-12, .max = 1e12, .default_note = "equal",
     .renamed_from = "weight"},
    {"manifold", 0, ES_PARAM_WHOLE, "M", "dimension m of the subsphere, below D",
     .field = offsetof(regimes_params, manifold), .min = 1, .max = 4095, .default_note = "2, or 1"},
    {"power", 0, ES_PARAM_NUMBER, "P", "exponent p of the vanishing density",
     .field = offsetof(regimes_params, power), .min = 0, .max = 1000, .default_value = "2"},
    {"points", 0, ES_PARAM_FILE, "FILE",
     "keys to choose from without replacement, .npy (N, d), scaled to norm 1",
     .field = offsetof(regimes_params, points)},
    {"query", 0, ES_PARAM_FILE, "FILE", "query for --points, .npy (d)",
     .field = offsetof(regimes_params, query),
     .default_note = "in each replicate a point that is not among its keys"},
    {"alpha", 0, ES_PARAM_NUMBER, "ALPHA", "local exponent of --points, which --b needs",
     .field = offsetof(regimes_params, alpha), .min = 0.0625, .max = 4096},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent samples",
     .field = offsetof(regimes_params, replicates), .min = 1, .max = 1e7, .default_value = "1000"},
    {"nearest", 0, ES_PARAM_WHOLE, "K",
     "keys that are drawn one by one, the nearest first; the sum over the others, if it counts, is "
     "a Gaussian vector with the right moments",
     .field = offsetof(regimes_params, nearest), .min = 64, .max = 1e6, .default_value = "2048"},
    {"Wv", 0, ES_PARAM_FILE, "FILE",
     "values, .npy (dv, d), for uniform keys, vmf and mixture: the output is V sum w k, the query "
     "the first basis vector, the parts' directions in the plane of the first two",
     .field = offsetof(regimes_params, V), .default_note = "the identity", .alias = "V"},
    {"brute", 0, ES_PARAM_FLAG, NULL, "draw all n keys as vectors: the check, and slow",
     .field = offsetof(regimes_params, brute)},
    {0}};

/* ---- what is asked ---- */

static es_status refuse(es_error *err, const char *hint, const char *text)
{
    return es_refuse(err, "regimes.options", hint, "%s", text);
}

/* Parameters that belong to another law of keys. */
static es_status check_law(const regimes_params *p, es_error *err)
{
    const bool parts = p->law == REGIMES_VMF || p->law == REGIMES_MIXTURE;
    if (p->b.count && p->beta.count)
        return refuse(err, "leave one of them out", "--b and --beta say the same thing");
    if (!parts && (p->kappa.count || p->cosine.count || p->weights.count))
        return refuse(err, "add --key-law vmf or --key-law mixture",
                      "--kappa, --cosine and --part-weights describe the parts of a mixture");
    if (p->manifold && p->law != REGIMES_SUBSPHERE)
        return refuse(err, "add --key-law subsphere", "--manifold is the dimension of a subsphere");
    if ((p->points || p->query || !isnan(p->alpha)) && p->law != REGIMES_FILE)
        return refuse(err, "add --key-law file",
                      "--points, --query and --alpha are for --key-law file");
    if (p->law != REGIMES_FILE)
        return ES_OK;
    if (!p->points)
        return refuse(err, "name a .npy file of shape (N, d)", "--key-law file needs --points");
    if (p->dim.count)
        return refuse(err, "leave --dim out", "the dimension is that of --points");
    if (isnan(p->alpha) && !p->beta.count)
        return refuse(err, "give --beta, or --alpha and --b",
                      "for keys of a file the critical scale is not known");
    return ES_OK;
}

/* Parts of a mixture out of the three lists. */
static es_status make_parts(es_job *job, regimes_params *p, es_error *err)
{
    regimes_state *s = job->state;
    const bool mixture = p->law == REGIMES_MIXTURE;
    if (p->law != REGIMES_VMF && !mixture)
        return ES_OK;
    if (!p->kappa.count)
        ES_TRY(es_params_set(job->given, "kappa", mixture ? "0,20" : "10", err));
    if (!mixture && p->kappa.count != 1)
        return refuse(err, "one --kappa, or --key-law mixture", "vmf keys have one concentration");
    if ((p->cosine.count && p->cosine.count != p->kappa.count) ||
        (p->weights.count && p->weights.count != p->kappa.count))
        return refuse(err, "one for each --kappa, in the same order",
                      "--kappa, --cosine and --part-weights have different lengths");
    ES_TRY(ES_JOB_NEW(job, s->parts, p->kappa.count, err));
    for (int64_t i = 0; i < p->kappa.count; i++)
        s->parts[i] = (es_keys_part){.weight = p->weights.count ? p->weights.reals[i] : 1.0,
                                     .kappa = p->kappa.reals[i],
                                     .cosine = p->cosine.count ? p->cosine.reals[i] : 1.0};
    return ES_OK;
}

/* Where all keys are drawn, time grows with n, and the default stays small; elsewhere 1e12 keys
 * cost what 1e4 do, and show the limit. */
static es_status complete(es_job *job, regimes_params *p, es_error *err)
{
    if (p->law == REGIMES_FILE)
        p->brute = true;
    else if (!p->dim.count)
        ES_TRY(es_params_set(job->given, "dim", "5", err));
    if (!p->n.count)
        ES_TRY(es_params_set(job->given, "n", p->brute ? "100,1000" : "1e2,1e4,1e6,1e12", err));
    if (!p->beta.count && !p->b.count)
        ES_TRY(es_params_set(job->given, "b", "0.1,1,10", err));
    if (p->law == REGIMES_SUBSPHERE && !p->manifold)
        p->manifold = p->dim.counts[0] > 2 ? 2 : 1;
    return ES_OK;
}

static es_status check_sizes(const regimes_params *p, const es_matrix *points, es_error *err)
{
    const int64_t largest = p->n.counts[p->n.count - 1];
    if (p->law == REGIMES_SUBSPHERE && p->manifold >= p->dim.counts[0])
        return refuse(err, "the sphere of R^D has dimension D - 1",
                      "--manifold must be below every --dim");
    if (p->brute && largest > ES_REGIMES_MOST_KEYS)
        return refuse(err, "up to 1e9 keys, or leave --brute out", "all keys are to be drawn");
    if (points->data && largest > points->rows - (p->query ? 0 : 1))
        return es_fail_file(err, ES_E_ARGUMENT, p->points, -1, "regimes.points",
                            "ask for fewer keys with --n", "--n %lld: the file has %lld points%s",
                            (long long)largest, (long long)points->rows,
                            p->query ? "" : ", one of which is the query");
    return ES_OK;
}

/* ---- cells ---- */

/* clang-format off */
/* Columns of a cell and the members of es_regimes_row they hold. */
#define ESTIMATE(X, name, at) X(name, at.mean) X(name "_se", at.se)
#define TEST(X, name, at)     X(name, at.distance) X(name "_p", at.p)
#define ORDERED(KIND, X, name, at)                                                                 \
    KIND(X, name "_1", at[0]) KIND(X, name "_2", at[1]) KIND(X, name "_3", at[2])                  \
    KIND(X, name "_4", at[3]) KIND(X, name "_5", at[4]) KIND(X, name "_6", at[5])                  \
    KIND(X, name "_7", at[6]) KIND(X, name "_8", at[7])
#define FIELDS(X)                                                                                  \
    ORDERED(ESTIMATE, X, "weight", top)                                                            \
    ESTIMATE(X, "squares", squares) ESTIMATE(X, "entropy", entropy)                                \
    ESTIMATE(X, "deficit", deficit) ESTIMATE(X, "tangential", tangential)                          \
    X("bulk", bulk) X("normality", normality)                                                      \
    ORDERED(TEST, X, "ks", law) ORDERED(ESTIMATE, X, "limit", limit)                               \
    TEST(X, "normal_radial", normal[0]) TEST(X, "normal_tangential", normal[1])
#define NAME(name, at)   name,
#define OFFSET(name, at) offsetof(es_regimes_row, at),
/* clang-format on */

static const char *const cell_columns[] = {FIELDS(NAME)};
static const size_t cell_fields[] = {FIELDS(OFFSET)};
enum { COLUMNS = sizeof cell_fields / sizeof *cell_fields };
_Static_assert(COLUMNS * sizeof(double) == sizeof(es_regimes_row), "every member is a column");

/* Cells are doubles in a run file and one struct in memory; both are made from one list, so that
 * neither can gain a number that the other lacks. */
static void pack(const es_regimes_row *row, double *columns)
{
    for (int i = 0; i < COLUMNS; i++)
        memcpy(&columns[i], (const char *)row + cell_fields[i], sizeof(double));
}

void regimes_unpack(const double *columns, es_regimes_row *row)
{
    for (int i = 0; i < COLUMNS; i++)
        memcpy((char *)row + cell_fields[i], &columns[i], sizeof(double));
}

es_status regimes_cell_of(const es_job *job, int64_t i, regimes_cell *cell, es_error *err)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    const es_grid *scale = p->beta.count ? &p->beta : &p->b;
    const int64_t at = i % scale->count, size = i / scale->count;
    const bool file = p->law == REGIMES_FILE;
    *cell = (regimes_cell){.n = p->n.counts[size % p->n.count],
                           .dim = file ? s->points.cols : p->dim.counts[size / p->n.count],
                           .cap = {.alpha = p->alpha, .log_c = (double)NAN}};
    cell->keys = (es_keys){.dim = p->law == REGIMES_SUBSPHERE ? p->manifold + 1 : cell->dim,
                           .vanish = p->law == REGIMES_VANISHING ? p->power : 0.0,
                           .parts = s->parts,
                           .n_parts = p->kappa.count,
                           .planted = p->law == REGIMES_PLANTED};
    if (!file)
        ES_TRY(es_keys_exponent(&cell->keys, &cell->cap, err));
    /* THEORY 6: at beta = b n^(1/alpha) the nearest keys' scores differ by order 1 */
    const double unit = pow((double)cell->n, 1.0 / cell->cap.alpha);
    cell->beta = p->beta.count ? scale->reals[at] : scale->reals[at] * unit;
    cell->b = cell->beta / unit;
    return ES_OK;
}

/* All replicates of one dim, n and beta; they share the work of making the keys' law. */
static es_status run_cell(es_job *job, int64_t i, const es_exec *exec, void *record, es_error *err)
{
    double *out = record;
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    regimes_cell cell;
    es_regimes_row row;
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    const es_regimes_opts opts = {job->seed,
                                  .method = p->brute ? ES_REGIMES_BRUTE : ES_REGIMES_NEAREST,
                                  .keys = &cell.keys,
                                  .points = s->points.data ? &s->points.view : NULL,
                                  .query = s->query.data,
                                  .replicates = p->replicates,
                                  .nearest = p->nearest,
                                  .exec = exec};
    ES_TRY(es_regimes_run(&opts, cell.n, cell.beta, &row, err));
    pack(&row, out);
    return ES_OK;
}

static double largest_dim(const es_job *job)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    return s->points.data ? (double)s->points.cols : p->dim.reals[p->dim.count - 1];
}

/* A key in order costs some 200 operations, one drawn as a vector some 20 per coordinate; mean over
 * the cells, which differ in n. */
static double cell_flops(const es_job *job)
{
    const regimes_params *p = job->params;
    double keys = 0.0;
    for (int64_t i = 0; i < p->n.count; i++)
        keys += p->brute ? 20.0 * largest_dim(job) * p->n.reals[i]
                         : 200.0 * fmin(p->n.reals[i], 2.0 * (double)p->nearest);
    return (double)p->replicates * keys / (double)p->n.count;
}

/* --V has the dimension of the keys, which is one. */
static es_status open_values(es_job *job, const regimes_params *p, es_error *err)
{
    regimes_state *s = job->state;
    if (!p->V)
        return ES_OK;
    if (p->law != REGIMES_UNIFORM && p->law != REGIMES_VMF && p->law != REGIMES_MIXTURE)
        return refuse(err, "uniform keys, vmf or mixture", "--V is not for these keys");
    if (p->dim.count > 1 || p->dim.counts[0] > ES_AVERAGE_MOST_DIM)
        return refuse(err, "one --dim, up to 512", "--V has one dimension");
    return es_job_matrix(job, "Wv", p->V, -1, p->dim.counts[0], &s->V, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    regimes_params *p = job->params;
    regimes_state *s = job->state;
    ES_TRY(check_law(p, err));
    ES_TRY(es_job_matrix(job, "points", p->points, -1, -1, &s->points, err));
    ES_TRY(es_job_matrix(job, "query", p->query, 1, s->points.cols, &s->query, err));
    ES_TRY(make_parts(job, p, err));
    ES_TRY(complete(job, p, err));
    ES_TRY(check_sizes(p, &s->points, err));
    ES_TRY(open_values(job, p, err));
    es_answer_text(job->answer, "keys", regimes_laws[p->law]);
    es_answer_text(job->answer, "method", p->brute ? "brute" : "nearest");
    es_answer_count(job->answer, "replicates", p->replicates);
    const int64_t dims = p->law == REGIMES_FILE ? 1 : p->dim.count;
    ES_TRY(es_job_stage(
        job,
        &(es_stage){"setting", .phase = "drawing keys", .noun = "cells",
                    .cells = dims * p->n.count * (p->beta.count ? p->beta.count : p->b.count),
                    .rows = 1, .cols = COLUMNS, .columns = cell_columns, .flops = cell_flops(job),
                    .run = run_cell},
        err));
    return regimes_add_outputs(job, err);
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const regimes_params *p = job->params;
    const double cells = (double)job->stages[0].cells, draws = (double)p->replicates;
    (void)err;
    const double outputs = (double)job->stages[1].cells * job->stages[1].flops;
    *out = (es_cost){.flops = cells * (regimes_law_flops + job->stages[0].flops) + outputs,
                     .output_bytes = 4096.0 * cells,
                     .work_bytes = draws * (32.0 * 16.0 + 8.0 * (largest_dim(job) + 1.0)) + 6e7 +
                                   64.0 * largest_dim(job) * largest_dim(job),
                     .thread_bytes = 8.0 * 140.0 * largest_dim(job)};
    return ES_OK;
}

static const char *const examples[] = {
    "esscher regimes",
    "esscher regimes --dim 2,3,5,10,50 --n 1e4 --b 1",
    "esscher regimes --dim 3 --n 1e3..1e15*5 --b 0.5",
    "esscher regimes --dim 50 --n 1e6 --beta 5,20,80",
    "esscher regimes --key-law vanishing --power 3 --n 1e6",
    "esscher regimes --key-law vmf --kappa 5 --cosine 0.3 --dim 8 --n 1e3,1e4 --beta 2,4",
    "esscher regimes --key-law file --points K.npy --n 1000 --beta 8 --json",
    NULL};

const es_study es_study_regimes = {
    "regimes",
    .summary = "when attention on the sphere averages, selects or picks a single key",
    .group = ES_GROUP_LAB,
    .main_options = "dim n b beta key-law kappa points query replicates Wv",
    .usage = "[options]",
    .about =
        "A query and n keys on the unit sphere, weights softmax(beta <q, k>). As n grows, "
        "beta decides: far below the critical scale n^(2/(D-1)) many keys share the weight "
        "and the output is an average; at that scale a few keys share it, at random for ever; "
        "far above, the nearest key takes all [proved]. For each n and beta this simulates the "
        "weights and sets beside them what the theory says: the exact expectation for n keys, the "
        "limit law for infinitely many, and asymptotic forms; it tests the ordered weights "
        "against the limit law, and says which regime it is and why: averaging, where 100 keys or "
        "more share the weight (1/(E sum w^2), exact for n keys; two thirds of fewer keys); "
        "single-key, where fewer than 2 do; selective, between. The cut-offs are a convention; "
        "the inverse temperatures where they are passed are solved on the exact "
        "expectation.\n\n"
        "For vmf, mixture and --V also the output as a vector, while many keys share the weight: "
        "its drift along and across the query and the covariance of its fluctuations, predicted "
        "from the tilted law and measured over keys that are all drawn (up to 1e5).\n\n"
        "Keys are drawn in order, the nearest first, and only as many as count, so that n = "
        "1e12 costs what n = 1e4 does. --brute draws all of them as vectors, as a check.",
    .examples = examples,
    .params = params,
    .size = sizeof(regimes_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .csv = "rows",
    .state = sizeof(regimes_state),
    .open = open_study,
    .cost = cost,
    .summarise = regimes_summarise};
