/* SPDX-License-Identifier: Apache-2.0 */
/* law_table.c : which laws there are, what can be asked of any of them, and how one is made ready
 * to be drawn from. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/view.h"
#include "law/law_row.h"

/* Row number kind - 1 of the list ES_LAWS. */
#define DECLARE(number, upper, lower) extern const es_law_row es_law_row_##lower;
#define LIST(number, upper, lower)    &es_law_row_##lower,
ES_LAWS(DECLARE)
static const es_law_row *const table[] = {ES_LAWS(LIST)};

#define NAME(number, upper, lower) #lower,
const char *const es_law_names[] = {ES_LAWS(NAME) NULL};

const es_law_row *es_law_row_of(es_law_kind kind)
{
    const int i = (int)kind - 1, count = sizeof table / sizeof *table;
    return i >= 0 && i < count ? table[i] : NULL;
}

const char *es_law_name(es_law_kind kind)
{
    const es_law_row *row = es_law_row_of(kind);
    return row ? row->name : "?";
}

unsigned es_law_uses(es_law_kind kind)
{
    const es_law_row *row = es_law_row_of(kind);
    return row ? row->uses : 0;
}

unsigned es_law_traits(es_law_kind kind)
{
    const es_law_row *row = es_law_row_of(kind);
    return row ? row->traits : 0;
}

bool es_law_parse(const char *name, es_law_kind *out)
{
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i]->name) == 0) {
            *out = table[i]->kind;
            return true;
        }
    }
    return false;
}

/* ---- is it a law? ---- */

es_status es_law_positive(double value, const char *rule, const char *name, es_error *err)
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

es_status es_law_check(const es_law *law, es_error *err)
{
    const es_law_row *row = es_law_row_of(law->kind);
    if (!row)
        return es_fail(err, ES_E_ARGUMENT, "law.kind", "use one of es_law_kind", "unknown law %d",
                       (int)law->kind);
    if (law->dim < 1 || law->dim > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "law.dim", "1 <= dim <= 4096", "dimension %lld",
                       (long long)law->dim);
    ES_TRY(check_array(law->mean, 1, law->dim, "mean", err));
    ES_TRY(check_array(law->factor, law->dim, law->dim, "factor", err));
    if (row->uses & ES_LAW_USES_SIZE)
        ES_TRY(es_law_positive(law->size, "law.size", "size", err));
    return row->check ? row->check(law, err) : ES_OK;
}

/* ---- a law ready to be drawn from ---- */

es_status es_source_prepare(es_source *s, const es_law *law, es_mem_limit *budget, es_error *err)
{
    s->law = *law;
    s->row = es_law_row_of(law->kind);
    s->budget = budget;
    ES_TRY(es_affine_new(law->dim, law->mean, law->factor, budget, &s->affine, err));
    return s->row->prepare ? s->row->prepare(s, err) : ES_OK;
}

void es_source_release(es_source *s)
{
    for (int64_t i = 0; s->parts && i < s->law.n_parts; i++)
        es_source_release(&s->parts[i]);
    es_affine_free(&s->affine, s->budget);
    es_mem_free(s->budget, s->own);
    es_mem_free(s->budget, s->parts);
}

/* Radii stand in lanes of their own, so a ball's direction is a sphere's at the same address. */
es_status es_source_radii(const es_source *s, es_radius_fn *radius, const es_address *first,
                          int64_t count, double *z, es_error *err)
{
    enum { RADII = 256 }; /* made at a time */
    const int64_t dim = s->law.dim;
    double radii[RADII];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < RADII ? count - i : RADII;
        const es_address at = es_token_at(first, i, ES_LANE_RADIUS);
        ES_TRY(radius(&s->law, &at, n, radii, err));
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; j < dim; j++)
                z[(i + r) * dim + j] *= radii[r];
    }
    return ES_OK;
}
