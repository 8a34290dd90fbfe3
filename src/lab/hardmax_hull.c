#include "lab/hardmax.h"

#include <math.h>

#include "base/error.h"

/* Gbar = d avg_u[h(u) u], h the support function of the tokens. With u goes -u, so that the average
 * is over midranges: g_u = d (max <y,u> + min <y,u>)/2 u. That is small where h alone is large, and
 * few directions do. Over M directions,
 *     value  = |avg g_u|                                          raised by the directions' noise
 *     square = (|sum g_u|^2 - sum |g_u|^2) / (M (M-1))            free of it: pairs of different u
 */

enum { TOKENS = 64 };                                      /* drawn at a time */
static const uint64_t directions_cell = UINT64_C(1) << 47; /* beside the tokens' cells */

int64_t es_hull_scratch(int64_t dim, int64_t directions)
{
    return TOKENS * dim + dim * directions + 3 * directions;
}

typedef struct hull {
    int64_t d, M;
    double *tokens;       /* (TOKENS, d) */
    double *u;            /* (d, M) */
    double *top, *bottom; /* (M): max and min of <y,u> so far */
    double *score;        /* (M) */
} hull;

static es_status start(hull *h, es_address at, int64_t replicate, es_error *err)
{
    at.cell = directions_cell + (uint64_t)replicate;
    for (int64_t m = 0; m < h->M; m++) {
        double row[ES_HARDMAX_MOST_DIM];
        at.token = (uint64_t)m;
        ES_TRY(es_sphere_rows(&at, 1, h->d, row, err));
        for (int64_t c = 0; c < h->d; c++)
            h->u[c * h->M + m] = row[c];
        h->top[m] = -(double)INFINITY;
        h->bottom[m] = (double)INFINITY;
    }
    return ES_OK;
}

/* One token meets all directions. Comparisons, not fmax(): the compiler makes them vectors. */
static void meet(const hull *h, const double *restrict token)
{
    const int64_t M = h->M;
    double *restrict score = h->score, *restrict top = h->top, *restrict bottom = h->bottom;
    for (int64_t m = 0; m < M; m++)
        score[m] = token[0] * h->u[m];
    for (int64_t c = 1; c < h->d; c++) {
        const double *restrict u = h->u + c * M;
        for (int64_t m = 0; m < M; m++)
            score[m] += token[c] * u[m];
    }
    for (int64_t m = 0; m < M; m++) {
        top[m] = score[m] > top[m] ? score[m] : top[m];
        bottom[m] = score[m] < bottom[m] ? score[m] : bottom[m];
    }
}

static es_hardmax_draw look(const hull *h)
{
    const double d = (double)h->d, M = (double)h->M;
    double norm2 = 0.0, own = 0.0;
    for (int64_t c = 0; c < h->d; c++) {
        double sum = 0.0;
        for (int64_t m = 0; m < h->M; m++)
            sum += 0.5 * (h->top[m] + h->bottom[m]) * h->u[c * h->M + m];
        norm2 += sum * sum;
    }
    for (int64_t m = 0; m < h->M; m++)
        own += 0.25 * (h->top[m] + h->bottom[m]) * (h->top[m] + h->bottom[m]);
    return (es_hardmax_draw){.value = d * sqrt(norm2) / M,
                             .square = d * d * (norm2 - own) / (M * (M - 1.0))};
}

es_status es_hull_draw(es_address at, int64_t replicate, int64_t dim, int64_t directions,
                       const int64_t *n, int64_t count, double *scratch, es_hardmax_draw *out,
                       es_error *err)
{
    hull h = {.d = dim, .M = directions, .tokens = scratch, .u = scratch + TOKENS * dim};
    h.top = h.u + dim * directions;
    h.bottom = h.top + directions;
    h.score = h.bottom + directions;
    ES_TRY(start(&h, at, replicate, err));
    at.cell = (uint64_t)replicate;
    int64_t seen = 0;
    for (int64_t p = 0; p < count; p++) {
        while (seen < n[p]) {
            const int64_t here = n[p] - seen < TOKENS ? n[p] - seen : TOKENS;
            at.token = (uint64_t)seen;
            ES_TRY(es_normal_rows(&at, here, dim, h.tokens, err));
            for (int64_t i = 0; i < here; i++)
                meet(&h, h.tokens + i * dim);
            seen += here;
        }
        out[p] = look(&h);
    }
    return ES_OK;
}
