#include "law_options.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/linalg.h>

#include "answer.h"
#include "talk.h"

enum { MOST_LAWS = 31 };
const char *cli_law_names[MOST_LAWS + 1];

void cli_law_names_fill(void)
{
    for (int kind = 1; kind <= MOST_LAWS && es_law_uses((es_law_kind)kind); kind++)
        cli_law_names[kind - 1] = es_law_name((es_law_kind)kind);
}

static es_status fail_usage(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "law.options", hint, "%s", message);
}

/* The law that has a use for these options. */
static const char *owner_of(unsigned uses)
{
    int kind = 1;
    while (!(es_law_uses((es_law_kind)kind) & uses))
        kind++;
    return es_law_name((es_law_kind)kind);
}

/* Options that the law needs, and options it has no use for. */
static es_status check_options(const cli_law_options *o, es_error *err)
{
    if (o->kind < 0)
        return fail_usage("e.g. --law sphere --dim 3", "--law is needed", err);
    const unsigned uses = es_law_uses((es_law_kind)(o->kind + 1));
    const struct {
        unsigned uses;
        bool needed, given;
        const char *hint, *option, *all;
    } rules[] = {{ES_LAW_USES_DIRECTION, o->direction != NULL, o->direction || o->kappa > 0.0,
                  "name a vector of dimension d", "--direction", "--direction and --kappa"},
                 {ES_LAW_USES_FREEDOM, o->freedom > 0.0, o->freedom > 0.0, "e.g. --freedom 5",
                  "--freedom", NULL},
                 {ES_LAW_USES_PARTS, o->means != NULL, o->means || o->weights,
                  "name a matrix (parts, d)", "--means", "--means and --weights"},
                 {ES_LAW_USES_POINTS, o->points != NULL, o->points != NULL, "name a matrix (n, d)",
                  "--points", NULL}};
    if (o->cov && o->rho != 1.0)
        return fail_usage("choose one", "--cov and --rho at once", err);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if ((uses & rules[i].uses) && !rules[i].needed)
            return cli_fail(err, ES_E_ARGUMENT, NULL, "law.options", rules[i].hint,
                            "--law %s needs %s", cli_law_names[o->kind], rules[i].option);
        if (!(uses & rules[i].uses) && rules[i].given)
            return cli_fail(err, ES_E_ARGUMENT, NULL, "law.options", "", "%s belong%s to --law %s",
                            rules[i].all ? rules[i].all : rules[i].option, rules[i].all ? "" : "s",
                            owner_of(rules[i].uses));
    }
    return ES_OK;
}

/* The dimension: as told, or as the first file says. */
static es_status find_dim(const cli_law_options *o, int64_t dim, int64_t *out, es_error *err)
{
    const char *const files[] = {o->points, o->means, o->cov, o->mean, o->direction};
    *out = o->dim;
    for (size_t i = 0; *out == 0 && i < sizeof files / sizeof *files; i++) {
        const es_status status = files[i] ? cli_input_cols(files[i], out, err) : ES_OK;
        if (status != ES_OK)
            return status;
    }
    if (*out == 0)
        *out = dim;
    return *out ? ES_OK : fail_usage("e.g. --dim 3", "nothing says what the dimension is", err);
}

static es_status read_files(cli_session *session, const cli_law_options *o, int64_t d, cli_law *out,
                            es_error *err)
{
    const struct {
        const char *role, *path;
        int64_t rows, cols;
        cli_input *to;
    } files[] = {{"mean", o->mean, 1, d, &out->mean},
                 {"cov", o->cov, d, d, &out->cov},
                 {"direction", o->direction, 1, d, &out->direction},
                 {"means", o->means, -1, d, &out->means},
                 {"points", o->points, -1, d, &out->points}};
    es_status status = ES_OK;
    for (size_t i = 0; status == ES_OK && i < sizeof files / sizeof *files; i++) {
        if (files[i].path)
            status = cli_input_read(session, files[i].role, files[i].path, files[i].rows,
                                    files[i].cols, files[i].to, err);
    }
    if (status == ES_OK && o->weights)
        status =
            cli_input_read(session, "weights", o->weights, 1, out->means.rows, &out->weights, err);
    return status;
}

static es_status factor_cov(cli_session *session, const char *path, cli_law *out, es_error *err)
{
    const int64_t d = out->cov.rows;
    const es_view cov = es_view_f64(out->cov.data, d, d);
    out->factor = cli_alloc_array((size_t)(d * d), sizeof(double));
    const es_status status =
        es_chol_factor(&cov, 0.0, &session->budget, out->factor, &out->jitter, err);
    if (status != ES_OK) {
        snprintf(err->file, sizeof err->file, "%s", path);
        return status;
    }
    json_object_set_new(session->answer, "jitter", cli_real(out->jitter));
    if (out->jitter > 0.0 && !session->common.quiet)
        fprintf(stderr, "esscher %s: --cov is singular: %.3g was added to its diagonal\n",
                session->command->name, out->jitter);
    return ES_OK;
}

/* The parts of a mixture: Gaussians that differ in their centres. */
static void make_parts(cli_law *out)
{
    const int64_t parts = out->means.rows, d = out->law.dim;
    out->parts = cli_alloc_array((size_t)parts, sizeof(es_law));
    if (!out->weights.data) {
        out->weights = (cli_input){cli_alloc_array((size_t)parts, sizeof(double)), 1, parts};
        for (int64_t j = 0; j < parts; j++)
            out->weights.data[j] = 1.0;
    }
    for (int64_t j = 0; j < parts; j++)
        out->parts[j] = (es_law){.kind = ES_LAW_GAUSSIAN,
                                 .dim = d,
                                 .size = out->law.size,
                                 .mean = out->means.data + j * d,
                                 .factor = out->factor};
    out->law.parts = out->parts;
    out->law.n_parts = parts;
    out->law.weights = out->weights.data;
    out->law.factor = NULL; /* of the parts, not of the whole */
}

es_status cli_law_make(cli_session *session, const cli_law_options *o, int64_t dim, cli_law *out,
                       es_error *err)
{
    int64_t d = 0;
    *out = (cli_law){0};
    es_status status = check_options(o, err);
    if (status == ES_OK)
        status = find_dim(o, dim, &d, err);
    if (status == ES_OK)
        status = read_files(session, o, d, out, err);
    if (status == ES_OK && o->cov)
        status = factor_cov(session, o->cov, out, err);
    if (status != ES_OK)
        return status;
    out->law = (es_law){.kind = (es_law_kind)(o->kind + 1),
                        .dim = d,
                        .size = o->radius * sqrt(o->rho),
                        .freedom = o->freedom,
                        .concentration = o->kappa,
                        .direction = out->direction.data,
                        .mean = out->mean.data,
                        .factor = out->factor};
    const unsigned uses = es_law_uses(out->law.kind);
    if (uses & ES_LAW_USES_PARTS)
        make_parts(out);
    if (uses & ES_LAW_USES_POINTS) {
        out->points_view = es_view_f64(out->points.data, out->points.rows, d);
        out->law.points = &out->points_view;
    }
    json_object_set_new(session->answer, "law", json_string(es_law_name(out->law.kind)));
    json_object_set_new(session->answer, "dim", json_integer(d));
    return es_law_check(&out->law, err);
}

void cli_law_free(cli_law *law)
{
    cli_input *const inputs[] = {&law->mean,    &law->cov,   &law->direction,
                                 &law->weights, &law->means, &law->points};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        cli_input_free(inputs[i]);
    free(law->parts);
    free(law->factor);
    *law = (cli_law){0};
}
