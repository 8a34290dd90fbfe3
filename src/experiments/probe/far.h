/* SPDX-License-Identifier: Apache-2.0 */
/* far.h : the far field of a causal model's heads (THEORY 20): far keys replaced by independent
 * draws, limit and exact error of a head, and forecasts to contexts that were not run.
 *
 * Keys of a query are sinks (the first ones of the text), near keys (the last ones) and the far
 * field between. A *pool* holds keys, before their rotation, and values of some blocks, sampled
 * evenly over places. A far key at distance D is drawn from the pool's other blocks, and the query
 * meets it as if it stood at that distance: <R_i q, R_j k> = <R_{i-j} q, k>. Where positions are
 * added to hidden states instead, a far key is drawn from those at its own place.
 *
 *     es_far_pool_build(&build, &exec, &pool, &err);
 *     es_far_block(&spec, &block, &exec, cells, &err);          (layers, heads, es_far_rows(&spec))
 *
 * For every n the numbers are means over `queries` queries that see 7/8 n to n keys. The real far
 * field and ES_FAR_DRAWS drawn ones meet the same queries, so that differences are paired.
 */
#ifndef ES_EXPERIMENTS_PROBE_FAR_H
#define ES_EXPERIMENTS_PROBE_FAR_H

#include <math.h>

#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/status.h>

/* Statistics of a query's weights. */
typedef enum es_far_stat {
    ES_FAR_ENTROPY, /* nats */
    ES_FAR_LOG_ESS, /* ln 1/sum w^2 */
    ES_FAR_ESS,
    ES_FAR_FAR,  /* weight on the far field */
    ES_FAR_SINK, /* on the first keys */
    ES_FAR_NEAR, /* on the last keys */
    ES_FAR_TOP,  /* largest weight */
    ES_FAR_STATS
} es_far_stat;

enum {
    ES_FAR_DRAWS = 2,    /* far fields that are drawn for each query */
    ES_FAR_PARTS = 4,    /* of a pool: stretches of blocks, each drawn from equally often */
    ES_FAR_PAIRS = 4,    /* of a part of the first half and one of the second */
    ES_FAR_BLOCKS = 64,  /* of a pool, at most */
    ES_FAR_MOST = 16,    /* sizes and forecasts, at most */
    ES_FAR_WINDOWS = 40, /* of es_far_window() */
    ES_FAR_BACKTESTS = 3 /* forecasts of what was run: es_far_backtest_of() */
};

/*! es_far_window() : number of last keys of window c: 1, 2, 3, 4, 6, 8, 11, ..., powers of sqrt 2,
 *  rounded. */
static inline int64_t es_far_window(int c)
{
    return c ? (int64_t)llround(exp2(0.5 * (double)(c + 1))) : 1;
}

/* What is measured. */
typedef struct es_far_spec {
    const es_model *model; /* causal */
    int64_t length;        /* of blocks */
    int64_t sinks, near;
    int64_t queries, atoms;               /* of each n; keys of a stratum of (F2), a multiple of
                                             ES_FAR_PARTS */
    int64_t sizes, size[ES_FAR_MOST];     /* n, increasing, up to length; each has a far field */
    int64_t targets, target[ES_FAR_MOST]; /* forecasts: n, above length */
    bool no_draws, no_exact;              /* real far keys alone; exact errors are left out */
    uint64_t seed;
} es_far_spec;

/*! es_far_fewest() : the fewest keys of a query whose far field is measured: as many far keys as
 *  others. */
static inline int64_t es_far_fewest(const es_far_spec *spec)
{
    return 2 * (spec->sinks + spec->near);
}

/*! es_far_forecasts() : returns whether forecasts can be made from contexts of `base` keys: all
 *  queries of these have their sinks and near keys, and there are far keys. */
static inline bool es_far_forecasts(const es_far_spec *spec, int64_t base)
{
    return base - base / 8 > spec->sinks + spec->near;
}

/* A forecast of n = `to` keys, which were run, from contexts of `from` keys. */
typedef struct es_far_backtest {
    int64_t from, to;
} es_far_backtest;

/*! es_far_backtest_of() : 0: the length from half of it; 1: from a quarter of it; 2: half of the
 *  length from a quarter. */
static inline es_far_backtest es_far_backtest_of(const es_far_spec *spec, int number)
{
    const int64_t n = spec->length;
    return (es_far_backtest){number ? n / 4 : n / 2, number == 2 ? n / 2 : n};
}

/* One head at one n: means over queries. A forecast sets only the drawn statistics, `exact` and
 * `spread`, the latter of the contexts it starts from. NaN: not measured. */
typedef struct es_far_cell {
    double real[ES_FAR_STATS]; /* keys as they are */
    /* |y_w - y|^2, y_w outputs over sinks and the last w keys, by window: of real keys, drawn ones
     */
    double real_window[ES_FAR_WINDOWS], drawn_window[ES_FAR_WINDOWS];
    /* far keys drawn from other blocks, and from another text: by the part of the
     * pool that they come from */
    double drawn[ES_FAR_PARTS * ES_FAR_STATS], other[ES_FAR_PARTS * ES_FAR_STATS];
    double exact, exact_bias, sampling; /* E|y - y_lim|^2 and |E y - y_lim|^2 by (F2), and the
                                           first-order form of the former: by (F3) */
    double exact_part[ES_FAR_PARTS], bias_part[ES_FAR_PARTS]; /* pseudo-values of the first two,
                                           whose means they are: by the part that is left out */
    double gaussian;   /* E|y - y_lim|^2 of Gaussian scores and values */
    double pool_error; /* of y_lim, squared, by (F4): first query */
    /* |y - E y'|^2, y' outputs of drawn far fields, by the pair of parts that these come from; of
     * independent keys exact - exact_bias */
    double apart[ES_FAR_PAIRS], apart_other[ES_FAR_PAIRS];
    double spread;         /* |y - mean y|^2 over places n/2 to n */
    double q_norm, k_norm; /* root mean square of |q|, |k| over these, before rotation */
    double q_cos, k_cos;   /* cosine of their mean there and at places n/4 to n/2 */
} es_far_cell;

/*! es_far_exact_later() : returns whether forecasts and backtests have exact errors: only if
 * forecasts are asked for, because these take most of the time. */
static inline bool es_far_exact_later(const es_far_spec *spec)
{
    return spec->targets > 0 && !spec->no_exact;
}

/*! es_far_rows() : records of a head: sizes, forecasts, backtests. */
static inline int64_t es_far_rows(const es_far_spec *spec)
{
    return spec->sizes + spec->targets + ES_FAR_BACKTESTS;
}

/* ---- the pool ---- */

/* Keys and values of some blocks. */
typedef struct es_far_pool {
    es_mem_limit *budget;
    int64_t blocks, rows;  /* rows of a block, by place */
    int64_t length, first; /* of a block; its first place of the pool */
    int64_t *source;       /* (blocks) number of the block: its own queries do not draw from it */
    float *keys, *values;  /* (layers, kv heads, blocks, rows, head_dim) before rotation */
} es_far_pool;

/* What a pool is made of. */
typedef struct es_far_build {
    const es_model *model;
    const int32_t *const *ids; /* (blocks), length each */
    const int64_t *source;     /* (blocks) */
    int64_t blocks, rows, length, sinks;
    uint64_t seed, cell; /* of places: pools with other cells have other places */
} es_far_build;

/*! es_far_pool_build() : runs the model over the blocks. Release with es_far_pool_free().
 *  @return : ES_OK; as es_model_forward(); ES_E_LIMIT, ES_E_MEMORY. */
es_status es_far_pool_build(const es_far_build *build, const es_exec *exec, es_far_pool *out,
                            es_error *err);
void es_far_pool_free(es_far_pool *pool);

/*! es_far_pool_key(), es_far_pool_value() : (head_dim) of row r of block b. */
const float *es_far_pool_key(const es_far_pool *pool, const es_model_config *c, int64_t layer,
                             int64_t kv_head, int64_t at);
const float *es_far_pool_value(const es_far_pool *pool, const es_model_config *c, int64_t layer,
                               int64_t kv_head, int64_t at);

/* ---- a block ---- */

/* One block of text and the pools its far keys come from. */
typedef struct es_far_text {
    const int32_t *ids; /* (length) */
    int64_t number;     /* as in es_far_pool.source; the address of its random numbers */
    const es_far_pool *pool, *other; /* other may be NULL */
} es_far_text;

/*! es_far_block() : measures all heads of a block into cells (layers, heads, es_far_rows()). The
 *  numbers do not depend on exec. @return : ES_OK; ES_E_ARGUMENT (positions.causal); as
 *  es_model_forward(), es_far_risk_of(). */
es_status es_far_block(const es_far_spec *spec, const es_far_text *text, const es_exec *exec,
                       es_far_cell *cells, es_error *err);

/* What a block takes, running the model over it included. */
typedef struct es_far_cost {
    double flops;
    double bytes; /* of memory at one time */
} es_far_cost;
/*! es_far_cost_of() : with a pool of pool_keys keys, and another text or without. */
es_far_cost es_far_cost_of(const es_far_spec *spec, bool other, int64_t pool_keys);

#endif
