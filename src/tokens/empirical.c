/* empirical.c : tokens that are rows of a matrix, with replacement or without. */
#include "base/error.h"
#include "tokens/sampler.h"

enum { CHUNK = 256 };

/* Without replacement, token t of a cell is where one permutation of the points sends t. */
static es_status shuffled(const es_sampler *s, const es_address *first, int64_t count, double *out,
                          es_error *err)
{
    es_permutation order;
    es_address at = es_token_at(first, 0, ES_LANE_CHOICE);
    at.token = 0;
    ES_TRY(es_permutation_init(&at, s->law.points->rows, &order, err));
    for (int64_t i = 0; i < count; i++)
        es_view_read_row(s->law.points, es_permutation_at(&order, (int64_t)first->token + i),
                         out + i * s->law.dim);
    return ES_OK;
}

es_status es_base_empirical(const es_sampler *s, const es_address *first, int64_t count,
                            const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    int64_t index[CHUNK];
    if (s->law.without_replacement)
        return shuffled(s, first, count, out, err);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, ES_LANE_CHOICE);
        ES_TRY(es_integer_rows(&at, n, 1, s->law.points->rows, index, err));
        for (int64_t r = 0; r < n; r++)
            es_view_read_row(s->law.points, index[r], out + (i + r) * s->law.dim);
    }
    return ES_OK;
}
