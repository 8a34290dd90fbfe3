/* tails_summary.c : what is said about directions, kinds of directions, and all of them. */
#include <math.h>

#include <esscher/fit.h>

#include "base/error.h"
#include "stats/order.h"
#include "study/answer_kit.h"
#include "study/tails_study.h"

/* ---- tables ---- */

static const char rule[] =
    "Verdict. Heavier: proxy or psi2 is at least 10 % above the control's mean with z > 4. "
    "Lighter: not heavier, and psi2 or Hill is at least 10 % below it with z < -4. Gaussian-like: "
    "neither. z counts tokens as independent, which tokens of a text are not: it overstates.";

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
     "principal: leading principal components; random: directions uniform on the sphere; norm: "
     "|x - mean|, whose control are norms of Gaussian vectors of the same covariance; key: of a "
     "head, the tilt of the queries that move its scores most; score: scores of a token's query "
     "over all tokens"},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"index", "index", "", ES_FORMAT_COUNT},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"variance", "variance", "", ES_FORMAT_SHORT},
    {"kurtosis", "kurtosis", "", ES_FORMAT_SHORT, "3 for a Gaussian"},
    CONTROL_COLUMNS("kurtosis", "", NULL),
    {"proxy", "proxy", "variances", ES_FORMAT_SHORT,
     "sub-Gaussian variance proxy, sup 2 (K_n(l) - l m) / l^2 over tilts that leave an effective "
     "sample of 30; at least 1, which is a Gaussian's"},
    CONTROL_COLUMNS("proxy", "variances",
                    "mean +- standard deviation of the number before in Gaussian samples of the "
                    "same size"),
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
    {"verdict", "verdict", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_view row_views[] = {
    {"Tails, direction by direction",
     "domain layer kind head index variance kurtosis proxy proxy_control proxy_z psi2 psi2_z hill "
     "hill_z verdict",
     rule},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views};

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
static const es_table_view kind_views[] = {{"Kinds of directions"}, {0}};
static const es_table_spec kinds_table = {"kinds", kind_columns, kind_views};

static const es_column verdict_columns[] = {{"verdict", "verdict", "", ES_FORMAT_TEXT},
                                            {"directions", "directions", "", ES_FORMAT_COUNT},
                                            {0}};
static const es_table_view verdict_views[] = {{"Is it sub-Gaussian, with its variance as proxy?"},
                                              {0}};
static const es_table_spec verdicts_table = {"verdicts", verdict_columns, verdict_views};

/* What is being made. */
typedef struct making {
    const es_job *job;
    const tails_state *s;
    es_table *rows, *kinds;
    int64_t cell;
    double *proxy, *psi2, *hill; /* (directions) of a kind */
    int64_t verdicts[ES_TAILS_CONSTANT + 1], directions;
    double largest;       /* proxy of a direction that varies, */
    double largest_of[2]; /* its control: mean and standard deviation */
} making;

static void name_row(const making *m, es_table *t, int64_t row)
{
    es_pools_name(&m->s->pools, m->cell / m->s->layers, t, row);
    if (!m->s->tokens.data)
        es_table_count(t, row, "layer", m->cell % m->s->layers);
}

static es_tails_row direction_at(const making *m, int64_t i)
{
    return tails_unpack(es_job_cell(m->job, 0, m->cell) + i * TAILS_NUMBERS);
}

/* ---- directions ---- */

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

static void put_direction(making *m, const es_tails_direction *direction, const es_tails_row *r)
{
    const es_tails *s = &r->sample;
    const es_tails_control *c = &r->control;
    es_tails_z z;
    const es_tails_verdict verdict = es_tails_judge(s, c, &z);
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
           {"hill_half", s->hill_half}, {"hill_twice", s->hill_twice});
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
static void put_kind(const making *m, es_tails_kind kind, int64_t first, int64_t last)
{
    int64_t verdicts[ES_TAILS_CONSTANT + 1] = {0}, vary = 0;
    for (int64_t i = first; i < last; i++) {
        const es_tails_row r = direction_at(m, i);
        const es_tails_verdict v = es_tails_judge(&r.sample, &r.control, NULL);
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

static void put_layer(making *m)
{
    const es_tails_spec spec = tails_spec_at(m->s, m->cell);
    const int64_t count = es_tails_rows(&spec);
    int64_t first = 0; /* of the kind */
    for (int64_t i = 0; i < count; i++) {
        const es_tails_direction here = es_tails_direction_of(&spec, i);
        const es_tails_row r = direction_at(m, i);
        put_direction(m, &here, &r);
        if (i + 1 < count && es_tails_direction_of(&spec, i + 1).kind == here.kind)
            continue;
        put_kind(m, here.kind, first, i + 1);
        first = i + 1;
    }
}

/* ---- all ---- */

static void put_verdicts(const making *m, es_answer *answer)
{
    es_table *t = es_answer_table(answer, &verdicts_table);
    for (int v = ES_TAILS_GAUSSIAN; v <= ES_TAILS_CONSTANT; v++) {
        if (v == ES_TAILS_CONSTANT && m->verdicts[v] == 0)
            continue;
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "verdict", es_tails_verdict_name((es_tails_verdict)v));
        es_table_count(t, row, "directions", m->verdicts[v]);
    }
    es_answer_tell(answer,
                   "Of %lld directions, %lld have heavier tails than Gaussian tokens and %lld "
                   "lighter ones.",
                   (long long)m->directions, (long long)m->verdicts[ES_TAILS_HEAVIER],
                   (long long)m->verdicts[ES_TAILS_LIGHTER]);
    if (m->largest > 0.0)
        es_answer_tell(answer,
                       "The largest variance proxy is %.3g variances; Gaussian samples of the same "
                       "size have %.3g ± %.2g.",
                       m->largest, m->largest_of[0], m->largest_of[1]);
}

es_status tails_summarise(es_job *job, es_answer *answer, es_error *err)
{
    making m = {.job = job, .s = job->state};
    const es_tails_spec spec = tails_spec_at(m.s, 0);
    const int64_t directions = es_tails_rows(&spec);
    ES_TRY(es_job_array(job, 3, directions, sizeof *m.proxy, &m.proxy, err));
    m.psi2 = m.proxy + directions;
    m.hill = m.psi2 + directions;
    m.rows = es_answer_table(answer, &rows_table);
    m.kinds = es_answer_table(answer, &kinds_table);
    for (m.cell = 0; m.cell < m.s->layers * m.s->n_domains; m.cell++)
        put_layer(&m);
    put_verdicts(&m, answer);
    return ES_OK;
}
