/* mixture.c : one uniform per token picks its part; tokens of one part are then made together. */
#include "base/error.h"
#include "base/memory.h"
#include "tokens/sampler.h"

enum { CHUNK = 256 }; /* tokens whose parts are picked together */

es_status es_mixture_prepare(es_sampler *s, es_error *err)
{
    const int64_t n = s->law.n_parts;
    void *memory;
    ES_TRY(es_mem_array(s->budget, n, 1, sizeof(double), "weights", &memory, err));
    s->cumulative = memory;
    ES_TRY(
        es_mem_array(s->budget, n, sizeof(es_sampler), 1, "the parts of a mixture", &memory, err));
    s->parts = memory;
    double sum = 0.0, so_far = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += s->law.weights[i];
    for (int64_t i = 0; i < n; i++) {
        so_far += s->law.weights[i];
        s->cumulative[i] = i + 1 < n ? so_far / sum : 1.0;
        ES_TRY(es_sampler_prepare(&s->parts[i], &s->law.parts[i], s->budget, err));
    }
    return ES_OK;
}

/* The first part whose cumulative weight is above u < 1. */
static int64_t part_of(const es_sampler *s, double u)
{
    int64_t low = 0, high = s->law.n_parts - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (u < s->cumulative[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The tokens of `part` among count <= CHUNK ones. */
static es_status part_rows(const es_sampler *s, int64_t part, const int64_t *parts,
                           const es_address *first, int64_t count, const es_stage *stage,
                           double *out, es_error *err)
{
    const es_sampler *p = &s->parts[part];
    int64_t place[CHUNK], n = 0;
    for (int64_t i = 0; i < count; i++) {
        if (parts[i] != part)
            continue;
        const es_address at = es_token_at(first, i, 0);
        ES_TRY(p->base(p, &at, 1, stage, stage->gather + n * s->law.dim, err));
        place[n++] = i;
    }
    if (n > 0)
        es_affine_rows(&p->affine, stage->gather, n, place, out);
    return ES_OK;
}

es_status es_base_mixture(const es_sampler *s, const es_address *first, int64_t count,
                          const es_stage *stage, double *out, es_error *err)
{
    double u[CHUNK];
    int64_t parts[CHUNK];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, 0),
                         choice = es_token_at(&at, 0, ES_LANE_CHOICE);
        ES_TRY(es_uniform_rows(&choice, n, 1, u, err));
        for (int64_t r = 0; r < n; r++)
            parts[r] = part_of(s, u[r]);
        /* Parts in the order in which they first appear: those nobody picked cost nothing. */
        for (int64_t r = 0; r < n; r++) {
            bool seen = false;
            for (int64_t q = 0; q < r && !seen; q++)
                seen = parts[q] == parts[r];
            if (!seen)
                ES_TRY(part_rows(s, parts[r], parts, &at, n, stage, out + i * s->law.dim, err));
        }
    }
    return ES_OK;
}
