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
    for (int i = ES_LAW_GAUSSIAN; name && i <= ES_LAW_EMPIRICAL; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (es_law_kind)i;
            return true;
        }
    }
    return false;
}

/* ---- is it a law? ---- */

static es_status check_positive(double value, const char *rule, const char *name, es_error *err)
{
    if (value > 0.0 && isfinite(value))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, rule, "use a positive number", "%s is %g", name, value);
}

/* An optional array: NULL is fine, NaN is not. */
static es_status check_array(const double *x, int64_t rows, int64_t cols, const char *name,
                             es_error *err)
{
    es_scan scan;
    const es_view v = es_view_f64(x, rows, cols);
    return x ? es_view_scan(&v, name, &scan, err) : ES_OK;
}

static es_status check_vmf(const es_law *law, es_error *err)
{
    if (!(law->concentration >= 0.0) || !isfinite(law->concentration))
        return es_fail(err, ES_E_RANGE, "law.concentration", "kappa is not negative",
                       "concentration is %g", law->concentration);
    if (!law->direction)
        return es_fail(err, ES_E_ARGUMENT, "law.direction", "give a vector of dimension dim",
                       "a vMF law has no direction");
    /* The scan's norm neither overflows nor vanishes: any direction but 0 will do. */
    es_scan scan;
    const es_view direction = es_view_f64(law->direction, 1, law->dim);
    ES_TRY(es_view_scan(&direction, "direction", &scan, err));
    if (scan.max_abs == 0.0)
        return es_fail(err, ES_E_RANGE, "law.direction", "give a vector that is not zero",
                       "the direction of a vMF law is zero");
    return ES_OK;
}

static es_status check_part(const es_law *law, int64_t i, es_error *err)
{
    const es_law *part = &law->parts[i];
    if (part->kind == ES_LAW_MIXTURE || part->kind == ES_LAW_EMPIRICAL)
        return es_fail(err, ES_E_ARGUMENT, "law.part", "flatten the mixture",
                       "part %lld of a mixture is %s", (long long)i, es_law_name(part->kind));
    if (part->dim != law->dim)
        return es_fail(err, ES_E_SHAPE, "law.part", "use parts of the same dimension",
                       "part %lld has dimension %lld in a mixture of dimension %lld", (long long)i,
                       (long long)part->dim, (long long)law->dim);
    ES_TRY(check_positive(law->weights[i], "law.weight", "the weight of a part", err));
    return es_law_check(part, err);
}

static es_status check_mixture(const es_law *law, es_error *err)
{
    if (law->n_parts < 1)
        return es_fail(err, ES_E_EMPTY, "law.parts", "give at least one part with a weight",
                       "a mixture of %lld parts", (long long)law->n_parts);
    if (!law->parts || !law->weights)
        return es_fail(err, ES_E_ARGUMENT, "law.parts", "give both arrays", "a mixture without %s",
                       law->parts ? "weights" : "parts");
    double sum = 0.0;
    for (int64_t i = 0; i < law->n_parts; i++) {
        ES_TRY(check_part(law, i, err));
        sum += law->weights[i];
    }
    return check_positive(sum, "law.weight", "the sum of all weights", err);
}

static es_status check_points(const es_law *law, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(law->points, "points", err));
    if (law->points->cols != law->dim)
        return es_fail(err, ES_E_SHAPE, "law.points", "points are rows of dimension dim",
                       "points of dimension %lld for a law of dimension %lld",
                       (long long)law->points->cols, (long long)law->dim);
    if (law->points->rows < 1)
        return es_fail(err, ES_E_EMPTY, "law.points", "give at least one point",
                       "an empirical law of no points");
    return es_view_scan(law->points, "points", &scan, err);
}

es_status es_law_check(const es_law *law, es_error *err)
{
    if (!law)
        return es_fail(err, ES_E_ARGUMENT, "law.null", "give a law", "no law");
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
    if (law->kind == ES_LAW_EMPIRICAL)
        return check_points(law, err);
    ES_TRY(check_positive(law->size, "law.size", "size", err));
    if (law->kind == ES_LAW_STUDENT)
        return check_positive(law->freedom, "law.freedom", "freedom", err);
    return law->kind == ES_LAW_VMF ? check_vmf(law, err) : ES_OK;
}
