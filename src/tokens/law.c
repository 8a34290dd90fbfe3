#include <esscher/law.h>

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"

static const char *const names[] = {[ES_LAW_GAUSSIAN] = "gaussian",
                                    [ES_LAW_SPHERE] = "sphere",
                                    [ES_LAW_BALL] = "ball",
                                    [ES_LAW_CUBE] = "cube",
                                    [ES_LAW_RADEMACHER] = "rademacher",
                                    [ES_LAW_LAPLACE] = "laplace",
                                    [ES_LAW_STUDENT] = "student",
                                    [ES_LAW_VMF] = "vmf",
                                    [ES_LAW_MIXTURE] = "mixture",
                                    [ES_LAW_EMPIRICAL] = "empirical"};

static bool known(es_law_kind kind) { return kind >= ES_LAW_GAUSSIAN && kind <= ES_LAW_EMPIRICAL; }

const char *es_law_name(es_law_kind kind) { return known(kind) ? names[kind] : "?"; }

bool es_law_parse(const char *name, es_law_kind *out)
{
    for (int i = ES_LAW_GAUSSIAN; i <= ES_LAW_EMPIRICAL; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (es_law_kind)i;
            return true;
        }
    }
    return false;
}

/* ---- is it a law? ---- */

static es_status check_array(const double *x, int64_t rows, int64_t cols, const char *name,
                             es_error *err)
{
    es_scan scan;
    const es_view v = es_view_f64(x, rows, cols);
    return x ? es_view_scan(&v, name, &scan, err) : ES_OK;
}

static es_status check_parameters(const es_law *law, es_error *err)
{
    if (!(law->size > 0.0) || !isfinite(law->size))
        return es_fail(err, ES_E_RANGE, "law.size", "a radius or scale is positive",
                       "size of the %s law is %g", es_law_name(law->kind), law->size);
    if (law->kind == ES_LAW_STUDENT && (!(law->freedom > 0.0) || !isfinite(law->freedom)))
        return es_fail(err, ES_E_RANGE, "law.freedom", "degrees of freedom are positive",
                       "freedom is %g", law->freedom);
    if (law->kind != ES_LAW_VMF)
        return ES_OK;
    if (!(law->concentration >= 0.0) || !isfinite(law->concentration))
        return es_fail(err, ES_E_RANGE, "law.concentration", "kappa is not negative",
                       "concentration is %g", law->concentration);
    double norm = 0.0;
    for (int64_t i = 0; law->direction && i < law->dim; i++)
        norm += law->direction[i] * law->direction[i];
    if (!(norm > 0.0) || !isfinite(norm))
        return es_fail(err, ES_E_RANGE, "law.direction", "give a vector that is not zero",
                       "the direction of the vMF law has no length");
    return ES_OK;
}

static es_status check_mixture(const es_law *law, es_error *err)
{
    if (law->n_parts < 1 || !law->parts || !law->weights)
        return es_fail(err, ES_E_EMPTY, "law.parts", "give at least one part with a weight",
                       "a mixture of nothing");
    for (int64_t i = 0; i < law->n_parts; i++) {
        const es_law *part = &law->parts[i];
        if (part->dim != law->dim || part->kind == ES_LAW_MIXTURE || part->kind == ES_LAW_EMPIRICAL)
            return es_fail(
                err, ES_E_SHAPE, "law.part", "parts are simple laws of the same dimension",
                "part %lld is a %s law of dimension %lld in a mixture of dimension %lld",
                (long long)i, es_law_name(part->kind), (long long)part->dim, (long long)law->dim);
        if (!(law->weights[i] > 0.0) || !isfinite(law->weights[i]))
            return es_fail(err, ES_E_RANGE, "law.weight", "weights are positive",
                           "weight %lld is %g", (long long)i, law->weights[i]);
        ES_TRY(es_law_check(part, err));
    }
    return ES_OK;
}

es_status es_law_check(const es_law *law, es_error *err)
{
    if (!known(law->kind))
        return es_fail(err, ES_E_ARGUMENT, "law.kind", "use one of es_law_kind", "unknown law %d",
                       (int)law->kind);
    if (law->dim < 1 || law->dim > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "law.dim", "1 <= dim <= 4096", "dimension %lld",
                       (long long)law->dim);
    ES_TRY(check_array(law->mean, 1, law->dim, "mean", err));
    ES_TRY(check_array(law->factor, law->dim, law->dim, "factor", err));
    if (law->kind == ES_LAW_MIXTURE)
        return check_mixture(law, err);
    if (law->kind != ES_LAW_EMPIRICAL)
        return check_parameters(law, err);
    es_scan scan;
    ES_TRY(es_view_check(law->points, "points", err));
    if (law->points->cols != law->dim || law->points->rows < 1)
        return es_fail(err, ES_E_SHAPE, "law.points", "points are rows of dimension dim",
                       "%lld points of dimension %lld for a law of dimension %lld",
                       (long long)law->points->rows, (long long)law->points->cols,
                       (long long)law->dim);
    return es_view_scan(law->points, "points", &scan, err);
}
