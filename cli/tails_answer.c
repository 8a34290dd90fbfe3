/* tails_answer.c : what is said about directions, kinds of directions, and all of them. */
#include "tails.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "talk.h"

static void set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, cli_real(value));
}

/* ---- directions ---- */

/* A number, its control, and the distance between them. */
static void put_compared(json_t *row, const char *name, double value,
                         const es_tails_spread *control, double z)
{
    static const char *const parts[] = {"", "_control", "_control_sd", "_z"};
    const double values[] = {value, control->mean, control->sd, z};
    char key[64];
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "%s%s", name, parts[i]);
        set_real(row, key, values[i]);
    }
}

static void name_row(json_t *row, const char *domain, int64_t layer)
{
    if (domain)
        json_object_set_new(row, "domain", json_string(domain));
    if (layer >= 0)
        json_object_set_new(row, "layer", json_integer(layer));
}

/* A power tail gives the same index for k/2, k and 2k. */
static bool plateau(const es_tails *s)
{
    const double most = 1.959963984540054 * s->hill_se;
    return fabs(s->hill_half - s->hill) < sqrt(2.0) * most && fabs(s->hill_twice - s->hill) < most;
}

static json_t *row_of(const es_tails_direction *direction, const es_tails_row *r)
{
    const es_tails *s = &r->sample;
    const es_tails_control *c = &r->control;
    const double interval[2] = {s->hill - 1.959963984540054 * s->hill_se,
                                s->hill + 1.959963984540054 * s->hill_se};
    es_tails_z z;
    const es_tails_verdict verdict = es_tails_judge(s, c, &z);
    json_t *row = json_object();
    json_object_set_new(row, "kind", json_string(es_tails_kind_name(direction->kind)));
    if (direction->head >= 0)
        json_object_set_new(row, "head", json_integer(direction->head));
    json_object_set_new(row, "index", json_integer(direction->index));
    json_object_set_new(row, "n", json_integer((json_int_t)s->count));
    set_real(row, "variance", s->variance);
    put_compared(row, "kurtosis", s->kurtosis, &c->kurtosis, z.kurtosis);
    put_compared(row, "proxy", s->proxy, &c->proxy, z.proxy);
    set_real(row, "tilt", s->tilt);
    put_compared(row, "psi2", s->psi2, &c->psi2, z.psi2);
    put_compared(row, "hill", s->hill, &c->hill, z.hill);
    set_real(row, "hill_se", s->hill_se);
    json_object_set_new(row, "hill_ci", cli_reals(interval, 2));
    json_object_set_new(row, "hill_k", json_integer(es_tails_hill_count((int64_t)s->count)));
    set_real(row, "hill_half", s->hill_half);
    set_real(row, "hill_twice", s->hill_twice);
    json_object_set_new(row, "plateau", json_string(plateau(s) ? "yes" : "no"));
    json_object_set_new(row, "verdict", json_string(es_tails_verdict_name(verdict)));
    return row;
}

/* ---- kinds ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return 0.5 * (values[count / 2] + values[(count - 1) / 2]);
}

/* Rows [first, last) are of one kind. */
static json_t *kind_of(es_tails_kind kind, const es_tails_row *rows, int64_t count)
{
    double *proxy = cli_alloc_array((size_t)count, sizeof *proxy);
    double *psi2 = cli_alloc_array((size_t)count, sizeof *psi2);
    double *hill = cli_alloc_array((size_t)count, sizeof *hill);
    int64_t verdicts[ES_TAILS_CONSTANT + 1] = {0}, vary = 0;
    for (int64_t i = 0; i < count; i++) {
        const es_tails_verdict v = es_tails_judge(&rows[i].sample, &rows[i].control, NULL);
        verdicts[v]++;
        if (v == ES_TAILS_CONSTANT)
            continue;
        proxy[vary] = rows[i].sample.proxy;
        psi2[vary] = rows[i].sample.psi2;
        hill[vary++] = rows[i].sample.hill;
    }
    json_t *row = json_object();
    const double none = (double)NAN;
    json_object_set_new(row, "kind", json_string(es_tails_kind_name(kind)));
    json_object_set_new(row, "directions", json_integer(count));
    set_real(row, "proxy_median", vary ? median(proxy, vary) : none);
    set_real(row, "proxy_largest", vary ? proxy[vary - 1] : none);
    set_real(row, "proxy_control", rows[0].control.proxy.mean);
    set_real(row, "psi2_median", vary ? median(psi2, vary) : none);
    set_real(row, "psi2_control", rows[0].control.psi2.mean);
    set_real(row, "hill_median", vary ? median(hill, vary) : none);
    set_real(row, "hill_control", rows[0].control.hill.mean);
    json_object_set_new(row, "lighter", json_integer(verdicts[ES_TAILS_LIGHTER]));
    json_object_set_new(row, "gaussian", json_integer(verdicts[ES_TAILS_GAUSSIAN]));
    json_object_set_new(row, "heavier", json_integer(verdicts[ES_TAILS_HEAVIER]));
    free(proxy);
    free(psi2);
    free(hill);
    return row;
}

void tails_answer_layer(cli_session *session, const es_tails_spec *spec, const char *domain,
                        int64_t layer, const es_tails_row *rows)
{
    const int64_t count = es_tails_rows(spec);
    json_t *all = json_object_get(session->answer, "rows");
    json_t *kinds = json_object_get(session->answer, "kinds");
    int64_t first = 0; /* of the kind */
    for (int64_t i = 0; i < count; i++) {
        const es_tails_direction here = es_tails_direction_of(spec, i);
        json_t *named = json_object();
        name_row(named, domain, layer);
        json_object_update_new(named, row_of(&here, &rows[i]));
        json_array_append_new(all, named);
        if (i + 1 < count && es_tails_direction_of(spec, i + 1).kind == here.kind)
            continue;
        named = json_object();
        name_row(named, domain, layer);
        json_object_update_new(named, kind_of(here.kind, rows + first, i + 1 - first));
        json_array_append_new(kinds, named);
        first = i + 1;
    }
}

/* ---- all ---- */

void tails_answer_verdicts(cli_session *session)
{
    json_t *table = json_array(), *row;
    for (int v = ES_TAILS_GAUSSIAN; v <= ES_TAILS_CONSTANT; v++) {
        const char *name = es_tails_verdict_name((es_tails_verdict)v);
        int64_t count = 0;
        size_t i;
        json_array_foreach(json_object_get(session->answer, "rows"), i, row) count +=
            strcmp(json_string_value(json_object_get(row, "verdict")), name) == 0;
        if (count || v != ES_TAILS_CONSTANT)
            json_array_append_new(
                table, json_pack("{s:s, s:I}", "verdict", name, "directions", (json_int_t)count));
    }
    json_object_set_new(session->answer, "verdicts", table);
}

/* ---- tables ---- */

static const char rule[] =
    "Verdict. Heavier: proxy or psi2 is at least 10 % above the control's mean with z > 4. "
    "Lighter: not heavier, and psi2 or Hill is at least 10 % below it with z < -4. Gaussian-like: "
    "neither. z counts tokens as independent, which tokens of a text are not: it overstates.";

static const cli_column row_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"kind", "kind", "", .format = CLI_TEXT,
     .definition = "principal: leading principal components; random: directions uniform on the "
                   "sphere; norm: |x - mean|, whose control are norms of Gaussian vectors of the "
                   "same covariance; key: of a head, the tilt of the queries that move its scores "
                   "most; score: scores of a token's query over all tokens"},
    {"head", "head", "", .format = CLI_COUNT},
    {"index", "index", "", .format = CLI_COUNT},
    {"n", "n", "tokens", .format = CLI_COUNT, .hidden = true},
    {"variance", "variance", "", .format = CLI_SHORT},
    {"kurtosis", "kurtosis", "", .format = CLI_SHORT, .definition = "3 for a Gaussian"},
    {"proxy", "proxy", "variances", .format = CLI_SHORT,
     .definition = "sub-Gaussian variance proxy, sup 2 (K_n(l) - l m) / l^2 over tilts that leave "
                   "an effective sample of 30; at least 1, which is a Gaussian's"},
    {"proxy_control", "control", "variances", .format = CLI_REAL, .error = "proxy_control_sd",
     .definition = "mean +- standard deviation of the number before in Gaussian samples of the "
                   "same size"},
    {"proxy_z", "z", "sd", .format = CLI_SHORT},
    {"psi2", "psi2", "sd", .format = CLI_SHORT,
     .definition = "least s with mean exp(x^2/s^2) <= 2; 1.633 for a Gaussian"},
    {"psi2_control", "control", "sd", .format = CLI_REAL, .error = "psi2_control_sd",
     .hidden = true},
    {"psi2_z", "z", "sd", .format = CLI_SHORT},
    {"hill", "Hill", "", .format = CLI_REAL, .error = "hill_se",
     .definition = "1/index of the tail of |x - mean|, or of norms, from its n^(2/3) largest"},
    {"hill_control", "control", "", .format = CLI_REAL, .error = "hill_control_sd", .hidden = true},
    {"hill_z", "z", "sd", .format = CLI_SHORT},
    {"plateau", "plateau", "", .format = CLI_TEXT,
     .definition = "does Hill stay within its interval with half and twice as many? Only then is "
                   "it the index of a power tail",
     .hidden = true},
    {"verdict", "verdict", "", .format = CLI_TEXT},
    {0}};
const cli_table tails_rows_table = {
    .rows = "rows", .title = "Tails, direction by direction", .columns = row_columns, .note = rule};

static const cli_column kind_columns[] = {
    {"domain", "domain", "", .format = CLI_TEXT},
    {"layer", "layer", "", .format = CLI_COUNT},
    {"kind", "kind", "", .format = CLI_TEXT},
    {"directions", "directions", "", .format = CLI_COUNT},
    {"proxy_median", "proxy", "variances", .format = CLI_SHORT,
     .definition = "medians over directions, and the largest"},
    {"proxy_largest", "largest", "variances", .format = CLI_SHORT},
    {"proxy_control", "control", "variances", .format = CLI_SHORT},
    {"psi2_median", "psi2", "sd", .format = CLI_SHORT},
    {"psi2_control", "control", "sd", .format = CLI_SHORT},
    {"hill_median", "Hill", "", .format = CLI_SHORT},
    {"hill_control", "control", "", .format = CLI_SHORT},
    {"lighter", "lighter", "", .format = CLI_COUNT},
    {"gaussian", "Gaussian", "", .format = CLI_COUNT},
    {"heavier", "heavier", "", .format = CLI_COUNT},
    {0}};
const cli_table tails_kinds_table = {
    .rows = "kinds", .title = "Kinds of directions", .columns = kind_columns};

static const cli_column verdict_columns[] = {{"verdict", "verdict", "", .format = CLI_TEXT},
                                             {"directions", "directions", "", .format = CLI_COUNT},
                                             {0}};
const cli_table tails_verdicts_table = {.rows = "verdicts",
                                        .title = "Is it sub-Gaussian, with its variance as proxy?",
                                        .columns = verdict_columns};
