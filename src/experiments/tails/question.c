/* question.c : are real tokens as light-tailed as the theory asks?
 *
 * In order: what is asked, what it takes, a layer as a cell, and the answer: directions, kinds of
 * directions, verdicts. Tokens are those of pools, or the rows of one file. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "experiments/tails/tails.h"
#include "stats/average.h"
#include "stats/fit.h"
#include "stats/multiple.h"

typedef struct tails_params {
    es_pool_params pool;
    const char *tokens;
    int64_t principal, random, queries, draws;
} tails_params;

/* What is looked at: layers of pools, or one matrix. */
typedef struct tails_state {
    es_pools pools;
    es_matrix tokens;   /* data NULL: there are pools */
    es_tails_spec spec; /* of any layer; pool and exec are the layer's */
    int64_t layers, n_domains;
    int64_t count, dim, heads; /* of tokens, where there are pools of the smallest */
    es_tails_row *rows;        /* (directions) room for a layer */
    es_tails_control gaussian; /* of so many tokens, once it is known; 0: not yet */
    int64_t gaussian_tokens;
} tails_state;

/* The numbers of a direction in a run file, by their names. */
enum { TAILS_NUMBERS = 22 };

#define FIELD(member) .field = offsetof(tails_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(tails_params, pool),
    {"tokens", 0, ES_PARAM_FILE, "FILE",
     ".npy file (n, d) of tokens of any origin, instead of a model and a text", FIELD(tokens)},
    {"principal", 0, ES_PARAM_WHOLE, "P", "leading principal components", FIELD(principal),
     .min = 1, .max = 4096, .default_value = "8"},
    {"random", 0, ES_PARAM_WHOLE, "R", "random directions, for comparison", FIELD(random), .min = 1,
     .max = 4096, .default_value = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens whose scores are looked at, for each head",
     FIELD(queries), .min = 1, .max = 4096, .default_value = "4", .unit = "tokens",
     .renamed_from = "queries"},
    {"control", 0, ES_PARAM_WHOLE, "R", "Gaussian samples a control is made of", FIELD(draws),
     .min = 4, .max = 65536, .default_value = "64", .renamed_from = "draws"},
    {0}};

/* ---- what was asked ---- */

/* Tokens of a file are no pool, and take none of the parameters that make one. */
static es_status refuse_pool(const es_job *job, const es_pool_params *p, es_error *err)
{
    static const char *const of_pools[] = {"pool",   "pool-dir", "special",       "blocks-from",
                                           "repeat", "store",    "allow-trailing"};
    if (p->model || p->texts.count || p->domains.count)
        return es_refuse(err, "tails.options", "one or the other",
                         "--tokens goes without a model and texts");
    for (size_t i = 0; i < sizeof of_pools / sizeof of_pools[0]; i++)
        if (es_params_given(job->given, of_pools[i]))
            return es_refuse(err, "tails.options",
                             "leave it out: tokens of a file are taken as they are",
                             "--%s is for a model and texts, not for --tokens", of_pools[i]);
    return ES_OK;
}

static es_status open_tokens(es_job *job, tails_params *p, tails_state *s, es_error *err)
{
    ES_TRY(refuse_pool(job, &p->pool, err));
    ES_TRY(es_job_matrix(job, "tokens", p->tokens, -1, -1, &s->tokens, err));
    s->spec.tokens = &s->tokens.view;
    s->layers = s->n_domains = 1;
    s->count = s->tokens.rows;
    s->dim = s->tokens.cols;
    return ES_OK;
}

static es_status open_pools(es_job *job, tails_params *p, tails_state *s, es_error *err)
{
    if (!p->pool.model)
        return es_refuse(err, "tails.options", "--model MODEL --text FILE, or --tokens FILE",
                         "there are no tokens");
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    s->spec.model = s->pools.model;
    s->layers = s->pools.config->layers;
    s->n_domains = s->pools.n_domains;
    s->count = s->pools.cost.tokens;
    s->dim = s->pools.config->hidden;
    s->heads = s->pools.config->heads;
    return ES_OK;
}

static es_status open_study(es_job *job, es_error *err)
{
    tails_params *p = job->params;
    tails_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->spec = (es_tails_spec){.principal = p->principal,
                              .random = p->random,
                              .queries = p->queries,
                              .draws = p->draws,
                              .seed = job->seed};
    return p->tokens ? open_tokens(job, p, s, err) : open_pools(job, p, s, err);
}

/* ---- what it takes ---- */

/* Memory that exists once, beside cells and what a layer takes: one cell, the rows of a layer and
 * the p-values of the summary. */
static double room_of(const tails_state *s, double rows)
{
    const double layers = (double)(s->layers * s->n_domains);
    const double tests = 4.0 * layers; /* two p of each direction, as they are and corrected */
    return 8.0 * rows * (TAILS_NUMBERS + tests) + ((double)sizeof(es_tails_row) + 64.0) * rows +
           262144.0;
}

/* How many directions are projected at a time depends on what the budget leaves, so the layer's
 * part of it is set before it is asked for. The driver sets it anew for the run, when the cells
 * are made and counted, and es_pools_build() takes off what pools hold. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const tails_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost; /* of tokens of a file: nothing */
    es_mem_limit *budget = job->exec.budget;
    es_tails_spec spec = s->spec;
    spec.exec = &job->exec;
    const double layers = (double)(s->layers * s->n_domains), limit = (double)job->max_memory;
    const double rows = (double)es_tails_cost_of(&spec, s->count, s->dim, s->heads).rows;
    const double output = 2048.0 * layers * rows, room = room_of(s, rows);
    const double cells = 8.0 * layers * (rows * TAILS_NUMBERS + 1.0); /* the driver's */
    const double others = output + cells + room + pools->held_bytes;
    (void)err;
    if (budget && limit > 0.0)
        budget->limit = limit > others ? (size_t)(limit - others) : 1;
    const es_tails_cost layer = es_tails_cost_of(&spec, s->count, s->dim, s->heads);
    *out =
        (es_cost){.flops = pools->flops + layers * layer.flops,
                  .disk_bytes = pools->disk_bytes,
                  .output_bytes = output,
                  .work_bytes = room + pools->held_bytes + fmax(layer.bytes, (double)pools->bytes)};
    return ES_OK;
}

/* ---- layers ---- */

/* clang-format off */
/* A number of a direction: its name in run files, and where it is. */
#define NUMBER(name, member) {name, offsetof(es_tails_row, member)}
static const struct {
    const char *name;
    size_t at;
} numbers[TAILS_NUMBERS] = {
    NUMBER("count", sample.count), NUMBER("mean", sample.mean), NUMBER("variance", sample.variance),
    NUMBER("kurtosis", sample.kurtosis), NUMBER("proxy", sample.proxy), NUMBER("tilt", sample.tilt),
    NUMBER("psi2", sample.psi2), NUMBER("hill", sample.hill), NUMBER("hill_se", sample.hill_se),
    NUMBER("hill_half", sample.hill_half), NUMBER("hill_twice", sample.hill_twice),
    NUMBER("kurtosis_control", control.kurtosis.mean), NUMBER("kurtosis_sd", control.kurtosis.sd),
    NUMBER("proxy_control", control.proxy.mean), NUMBER("proxy_sd", control.proxy.sd),
    NUMBER("psi2_control", control.psi2.mean), NUMBER("psi2_sd", control.psi2.sd),
    NUMBER("hill_control", control.hill.mean), NUMBER("hill_sd", control.hill.sd),
    NUMBER("design", sample.design), NUMBER("p_heavier", p.heavier),
    NUMBER("p_lighter", p.lighter)};
/* clang-format on */

static void pack(const es_tails_row *row, double *out)
{
    for (int i = 0; i < TAILS_NUMBERS; i++)
        memcpy(&out[i], (const char *)row + numbers[i].at, sizeof *out);
}

static es_tails_row tails_unpack(const double *values)
{
    es_tails_row row = {0};
    for (int i = 0; i < TAILS_NUMBERS; i++)
        memcpy((char *)&row + numbers[i].at, &values[i], sizeof *values);
    return row;
}

static es_tails_spec tails_spec_at(const tails_state *s, int64_t cell)
{
    es_tails_spec spec = s->spec;
    if (!s->tokens.data)
        spec.pool = s->pools.domains[cell / s->layers].pool;
    return spec;
}

/* The control depends on the number of tokens alone, which texts of one domain may have a special
 * token less of than those of another: what the cell before has drawn is drawn once. */
static es_status run_layer(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    tails_state *s = job->state;
    es_tails_spec spec = tails_spec_at(s, cell);
    const int64_t tokens = spec.pool ? es_pool_about(spec.pool).tokens : s->count;
    spec.exec = exec;
    spec.gaussian = s->gaussian_tokens == tokens ? &s->gaussian : NULL;
    ES_TRY(es_tails_measure(&spec, cell % s->layers, s->rows, err));
    for (int64_t i = 0; i < es_tails_rows(&spec); i++)
        pack(&s->rows[i], out + i * TAILS_NUMBERS);
    s->gaussian = s->rows[0].control; /* compared with numbers, as all but norms are */
    s->gaussian_tokens = tokens;
    return ES_OK;
}

/* ---- all together ---- */

static es_status begin(es_job *job, es_error *err)
{
    tails_state *s = job->state;
    const char **columns;
    if (!s->tokens.data)
        ES_TRY(es_pools_build(job, &s->pools, err));
    es_tails_spec spec = tails_spec_at(s, 0);
    spec.exec = &job->exec;
    const int64_t rows = es_tails_rows(&spec);
    ES_TRY(ES_JOB_NEW(job, s->rows, rows, err));
    ES_TRY(ES_JOB_NEW(job, columns, TAILS_NUMBERS, err));
    for (int i = 0; i < TAILS_NUMBERS; i++)
        columns[i] = numbers[i].name;
    return es_job_stage(
        job,
        &(es_stage){"layer", .phase = "looking along directions", .noun = "layers",
                    .cells = s->layers * s->n_domains, .rows = rows, .cols = TAILS_NUMBERS,
                    .columns = columns, .reports_progress = true,
                    .flops = es_tails_cost_of(&spec, s->count, s->dim, s->heads).flops,
                    .run = run_layer},
        err);
}

static void close_study(es_job *job) { es_pools_close(&((tails_state *)job->state)->pools); }

/* ---- tables ---- */

static const char rule[] =
    "Verdict. Heavier: proxy or psi2 is at least 10 % above the control's mean, and p of heavier, "
    "corrected for all directions of this answer, both ways (Holm), is at most 0.01. Lighter: not "
    "heavier, and the same of psi2 or Hill below it. Gaussian-like: neither. z counts tokens as "
    "independent; p does not: distances are divided by the root of the design effect.";

/* The control of a number and the distance from it. */
#define CONTROL_COLUMNS(key, unit, definition)                                                     \
    {key "_control", "control", unit, ES_FORMAT_REAL, definition, .error = key "_control_sd"},     \
    {                                                                                              \
        key "_z", "z", "sd", ES_FORMAT_SHORT                                                       \
    }

static const es_column row_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"kind", "kind", "", ES_FORMAT_TEXT,
     "principal: leading principal components; random: directions uniform on the sphere; norm: |x "
     "- mean|, whose control are norms of Gaussian vectors of the same covariance; key: of a head, "
     "the tilt of the queries that move its scores most; score: scores of a token's query over all "
     "tokens"},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"index", "index", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"variance", "variance", "", ES_FORMAT_SHORT},
    {"kurtosis", "kurtosis", "", ES_FORMAT_SHORT, "3 for a Gaussian"},
    CONTROL_COLUMNS("kurtosis", "", NULL),
    {"proxy", "proxy", "variances", ES_FORMAT_SHORT,
     "sub-Gaussian variance proxy, sup 2 (K_n(l) - l m) / l^2 over tilts that leave an effective "
     "sample of 30; at least 1, which is a Gaussian's"},
    CONTROL_COLUMNS(
        "proxy", "variances",
        "mean +- standard deviation of the number before in Gaussian samples of the same size"),
    {"tilt", "tilt", "1/sd", ES_FORMAT_SHORT, "where that supremum is; 0: in its limit"},
    {"psi2", "psi2", "sd", ES_FORMAT_SHORT,
     "least s with mean exp(x^2/s^2) <= 2; 1.633 for a Gaussian"},
    CONTROL_COLUMNS("psi2", "sd", NULL),
    {"hill", "Hill", "", ES_FORMAT_REAL,
     "1/index of the tail of |x - mean|, or of norms, from its n^(2/3) largest",
     .error = "hill_se"},
    CONTROL_COLUMNS("hill", "", NULL),
    {"hill_ci.0", "Hill from", "", ES_FORMAT_REAL, "95 % interval"},
    {"hill_ci.1", "Hill to", "", ES_FORMAT_REAL},
    {"hill_k", "Hill's k", "", ES_FORMAT_COUNT, "how many of the largest numbers it is from"},
    {"hill_half", "Hill, k/2", "", ES_FORMAT_REAL, "from half as many"},
    {"hill_twice", "Hill, 2k", "", ES_FORMAT_REAL, "from twice as many"},
    {"plateau", "plateau", "", ES_FORMAT_TEXT,
     "does Hill stay within its interval with half and twice as many? Only then is it the index of "
     "a power tail"},
    {"design", "design effect", "", ES_FORMAT_SHORT,
     "of exp(3 x^2/8), x standardised, over up to 64 blocks of consecutive tokens, at least 1: how "
     "many dependent tokens are worth one"},
    {"p_heavier", "p heavier", "", ES_FORMAT_SHORT,
     "probability that Gaussian tokens look as heavy by proxy or psi2: twice the smaller p of the "
     "two, from the control's order statistics, its tails continued exponentially"},
    {"p_heavier_corrected", "corrected", "", ES_FORMAT_SHORT,
     "for the number of directions tried, in both ways, by Holm"},
    {"p_lighter", "p lighter", "", ES_FORMAT_SHORT, "the same of psi2 or Hill below the control"},
    {"p_lighter_corrected", "corrected", "", ES_FORMAT_SHORT},
    {"verdict", "verdict", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Tails, direction by direction",
            "domain layer kind head index verdict kurtosis proxy proxy_z p_heavier_corrected "
            "p_lighter_corrected proxy_control variance psi2 psi2_z hill hill_z design p_heavier "
            "p_lighter",
            rule, .only_with_full = true),
    .keys = "domain layer kind head index"};

static const es_column kind_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"kind", "kind", "", ES_FORMAT_TEXT},
    {"directions", "directions", "", ES_FORMAT_COUNT},
    {"proxy_median", "proxy", "variances", ES_FORMAT_SHORT,
     "medians over directions, and the largest"},
    {"proxy_largest", "largest", "variances", ES_FORMAT_SHORT},
    {"proxy_control", "control", "variances", ES_FORMAT_SHORT},
    {"psi2_median", "psi2", "sd", ES_FORMAT_SHORT},
    {"psi2_control", "control", "sd", ES_FORMAT_SHORT},
    {"hill_median", "Hill", "", ES_FORMAT_SHORT},
    {"hill_control", "control", "", ES_FORMAT_SHORT},
    {"lighter", "lighter", "", ES_FORMAT_COUNT, "directions with that verdict"},
    {"gaussian", "Gaussian", "", ES_FORMAT_COUNT},
    {"heavier", "heavier", "", ES_FORMAT_COUNT},
    {0}};
static const es_table_spec kinds_table = {"kinds", kind_columns, ES_VIEW("Kinds of directions"),
                                          .keys = "domain layer kind"};

static const es_column verdict_columns[] = {{"verdict", "verdict", "", ES_FORMAT_TEXT},
                                            {"directions", "directions", "", ES_FORMAT_COUNT},
                                            {0}};
static const es_table_spec verdicts_table = {
    "verdicts", verdict_columns, ES_VIEW("Is it sub-Gaussian, with its variance as proxy?"),
    .keys = "verdict"};

/* What is being made. */
typedef struct summary_ctx {
    const es_job *job;
    const tails_state *s;
    es_table *rows, *kinds;
    int64_t cell;
    double *proxy, *psi2, *hill; /* (directions) of a kind */
    es_tails_p *corrected;       /* (cells, directions) for all of them */
    int64_t width;               /* directions */
    int64_t verdicts[ES_TAILS_CONSTANT + 1], directions;
    double largest;       /* proxy of a direction that varies, */
    double largest_of[2]; /* its control: mean and standard deviation */
} summary_ctx;

static void name_row(const summary_ctx *m, es_table *t, int64_t row)
{
    es_pools_name(&m->s->pools, m->cell / m->s->layers, t, row);
    if (!m->s->tokens.data)
        es_table_count(t, row, "layer", m->cell % m->s->layers);
}

static es_tails_row direction_at(const summary_ctx *m, int64_t i)
{
    return tails_unpack(es_job_numbers(m->job, 0, m->cell) + i * TAILS_NUMBERS);
}

/* ---- directions ---- */

static es_tails_verdict verdict_of(const summary_ctx *m, const es_tails_row *r, int64_t i)
{
    return es_tails_decide(&r->sample, &r->control, m->corrected[m->cell * m->width + i]);
}

/* A number, its control, and the distance between them. */
static void put_compared(es_table *t, int64_t row, const char *name, double value,
                         const es_tails_spread *control, double z)
{
    es_put_under(t, row, name, {"", value}, {"_control", control->mean},
                 {"_control_sd", control->sd}, {"_z", z});
}

/* A power tail gives the same index for k/2, k and 2k; the variance of xi is xi^2/k. */
static bool plateau(const es_tails *s)
{
    const double most = ES_SIGMAS_95 * s->hill_se;
    return fabs(s->hill_half - s->hill) < sqrt(2.0) * most && fabs(s->hill_twice - s->hill) < most;
}

/* The largest proxy is remembered with its own control, because a norm has another control than
 * a direction. */
static void put_direction(summary_ctx *m, const es_tails_direction *direction,
                          const es_tails_row *r, int64_t i)
{
    const es_tails *s = &r->sample;
    const es_tails_control *c = &r->control;
    const es_tails_p corrected = m->corrected[m->cell * m->width + i];
    const es_tails_verdict verdict = verdict_of(m, r, i);
    es_tails_z z;
    es_tails_compare(s, c, &z); /* p is the cell's: run files have no order statistics */
    es_table *t = m->rows;
    const int64_t row = es_table_row(t);
    name_row(m, t, row);
    es_table_text(t, row, "kind", es_tails_kind_name(direction->kind));
    if (direction->head >= 0)
        es_table_count(t, row, "head", direction->head);
    es_put(t, row, {"index", (double)direction->index}, {"n", (double)((int64_t)s->count)},
           {"variance", s->variance});
    put_compared(t, row, "kurtosis", s->kurtosis, &c->kurtosis, z.kurtosis);
    put_compared(t, row, "proxy", s->proxy, &c->proxy, z.proxy);
    es_table_real(t, row, "tilt", s->tilt);
    put_compared(t, row, "psi2", s->psi2, &c->psi2, z.psi2);
    put_compared(t, row, "hill", s->hill, &c->hill, z.hill);
    es_put(t, row, {"hill_se", s->hill_se}, {"hill_ci.0", s->hill - ES_SIGMAS_95 * s->hill_se},
           {"hill_ci.1", s->hill + ES_SIGMAS_95 * s->hill_se},
           {"hill_k", (double)(es_tails_hill_count((int64_t)s->count))},
           {"hill_half", s->hill_half}, {"hill_twice", s->hill_twice}, {"design", s->design},
           {"p_heavier", r->p.heavier}, {"p_heavier_corrected", corrected.heavier},
           {"p_lighter", r->p.lighter}, {"p_lighter_corrected", corrected.lighter});
    es_table_text(t, row, "plateau", plateau(s) ? "yes" : "no");
    es_table_text(t, row, "verdict", es_tails_verdict_name(verdict));
    m->verdicts[verdict]++;
    m->directions++;
    if (s->proxy > m->largest) {
        m->largest = s->proxy;
        m->largest_of[0] = c->proxy.mean;
        m->largest_of[1] = c->proxy.sd;
    }
}

/* ---- kinds ---- */

/* Directions [first, last) of the layer are of one kind. */
static void put_kind(const summary_ctx *m, es_tails_kind kind, int64_t first, int64_t last)
{
    int64_t verdicts[ES_TAILS_CONSTANT + 1] = {0}, vary = 0;
    for (int64_t i = first; i < last; i++) {
        const es_tails_row r = direction_at(m, i);
        const es_tails_verdict v = verdict_of(m, &r, i);
        verdicts[v]++;
        if (v == ES_TAILS_CONSTANT)
            continue;
        m->proxy[vary] = r.sample.proxy;
        m->psi2[vary] = r.sample.psi2;
        m->hill[vary++] = r.sample.hill;
    }
    es_sort_reals(m->proxy, vary);
    es_sort_reals(m->psi2, vary);
    es_sort_reals(m->hill, vary);
    const es_tails_control control = direction_at(m, first).control;
    es_table *t = m->kinds;
    const int64_t row = es_table_row(t);
    name_row(m, t, row);
    es_table_text(t, row, "kind", es_tails_kind_name(kind));
    es_put(t, row, {"directions", (double)(last - first)},
           {"proxy_median", es_median_of(m->proxy, vary)},
           {"proxy_largest", vary ? m->proxy[vary - 1] : (double)NAN},
           {"proxy_control", control.proxy.mean}, {"psi2_median", es_median_of(m->psi2, vary)},
           {"psi2_control", control.psi2.mean}, {"hill_median", es_median_of(m->hill, vary)},
           {"hill_control", control.hill.mean}, {"lighter", (double)verdicts[ES_TAILS_LIGHTER]},
           {"gaussian", (double)verdicts[ES_TAILS_GAUSSIAN]},
           {"heavier", (double)verdicts[ES_TAILS_HEAVIER]});
}

/* Directions of a kind follow one another: a kind is summed up where the next one begins. */
static void put_layer(summary_ctx *m)
{
    const es_tails_spec spec = tails_spec_at(m->s, m->cell);
    const int64_t count = es_tails_rows(&spec);
    int64_t first = 0; /* of the kind */
    for (int64_t i = 0; i < count; i++) {
        const es_tails_direction here = es_tails_direction_of(&spec, i);
        const es_tails_row r = direction_at(m, i);
        put_direction(m, &here, &r, i);
        if (i + 1 < count && es_tails_direction_of(&spec, i + 1).kind == here.kind)
            continue;
        put_kind(m, here.kind, first, i + 1);
        first = i + 1;
    }
}

/* ---- all ---- */

static void put_verdicts(const summary_ctx *m, es_answer *answer)
{
    es_table *t = es_answer_table(answer, &verdicts_table);
    for (int v = ES_TAILS_GAUSSIAN; v <= ES_TAILS_CONSTANT; v++) {
        if (v == ES_TAILS_CONSTANT && m->verdicts[v] == 0)
            continue;
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "verdict", es_tails_verdict_name((es_tails_verdict)v));
        es_table_count(t, row, "directions", m->verdicts[v]);
    }
    es_answer_add_finding(
        answer,
        "Of %lld directions, %lld have heavier tails than Gaussian tokens and %lld lighter ones, "
        "corrected for %lld tests: were all Gaussian, any would be called so with probability "
        "below 0.01.",
        (long long)m->directions, (long long)m->verdicts[ES_TAILS_HEAVIER],
        (long long)m->verdicts[ES_TAILS_LIGHTER],
        (long long)(2 * (m->directions - m->verdicts[ES_TAILS_CONSTANT])));
    if (m->largest > 0.0)
        es_answer_add_finding(
            answer,
            "The largest variance proxy is %.3g variances; Gaussian samples of the same "
            "size have %.3g ± %.2g.",
            m->largest, m->largest_of[0], m->largest_of[1]);
}

/* All p of this answer, heavier and lighter ones alike, corrected together. */
static es_status correct(es_job *job, summary_ctx *m, es_error *err)
{
    const int64_t cells = m->s->layers * m->s->n_domains, count = 2 * cells * m->width;
    double *p;
    ES_TRY(ES_JOB_NEW_2D(job, m->corrected, cells, m->width, err));
    ES_TRY(ES_JOB_NEW(job, p, count, err));
    for (m->cell = 0; m->cell < cells; m->cell++)
        for (int64_t i = 0; i < m->width; i++) {
            const es_tails_p here = direction_at(m, i).p;
            p[2 * (m->cell * m->width + i)] = here.heavier;
            p[2 * (m->cell * m->width + i) + 1] = here.lighter;
        }
    ES_TRY(es_holm(p, count, p, err));
    for (int64_t i = 0; i < count / 2; i++)
        m->corrected[i] = (es_tails_p){.heavier = p[2 * i], .lighter = p[2 * i + 1]};
    return ES_OK;
}

static es_status tails_summarise(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .s = job->state};
    const es_tails_spec spec = tails_spec_at(m.s, 0);
    const int64_t directions = es_tails_rows(&spec);
    ES_TRY(ES_JOB_NEW_2D(job, m.proxy, 3, directions, err));
    m.psi2 = m.proxy + directions;
    m.hill = m.psi2 + directions;
    m.width = directions;
    ES_TRY(correct(job, &m, err));
    m.rows = es_answer_table(answer, &rows_table);
    m.kinds = es_answer_table(answer, &kinds_table);
    for (m.cell = 0; m.cell < m.s->layers * m.s->n_domains; m.cell++)
        put_layer(&m);
    es_pools_unreadable(&m.s->pools, answer);
    put_verdicts(&m, answer);
    es_pools_caution(&m.s->pools, answer);
    return ES_OK;
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher tails --model models/minilm --text alice.txt",
    "esscher tails --model models/minilm --text alice.txt --pool 20480 --out tails.run",
    "esscher tails --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher tails --tokens X.npy --csv", NULL};

const es_study es_study_tails = {
    "tails",
    .summary = "whether real tokens are as light-tailed as the theory assumes",
    .group = ES_GROUP_MODEL,
    .main_options = "model text domain tokens pool pool-dir principal random",
    .usage = "(--model MODEL --text FILE | --tokens FILE) [options]",
    .about =
        "The theory asks for sub-Gaussian tokens: a variance proxy that bounds their log-MGF in "
        "every direction [cited]. For every layer of a model on real text, or for tokens "
        "of your own, this measures the proxy, the psi2 norm and Hill's tail index in the "
        "directions that "
        "matter: principal components, the direction to which each head is most sensitive, scores "
        "of real queries, norms, and random directions for comparison. A finite sample bends all "
        "of them, so each stands beside a control, the same numbers of Gaussian samples of the "
        "same size, and the verdict follows from the distance between the two, with p-values "
        "corrected for the number of directions and for what neighbouring tokens share.\n\n"
        "Layers and heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(tails_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(tails_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = tails_summarise,
    .close = close_study};
