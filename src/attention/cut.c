/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c : divides attention into units of work: blocks of queries, tiles of keys that fit the
 * cache, and segments of keys where there are too few queries for all threads. The division
 * depends on the shape only, never on the number of threads, so that results have the same bits. */
#include "attention/cut.h"

#include <math.h>

#include "attention/few.h"
#include "base/error.h"
#include "base/threads.h"
#include "stats/moments.h"

enum {
    TILE_BYTES = 18 * 1024,    /* scores and weights of a tile, in the first-level cache */
    KEY_BYTES = 96 * 1024,     /* keys and values of a tile, in the second level */
    OUTPUT_BYTES = 192 * 1024, /* running outputs of a block, in the second level */
    MOST_QUERIES = 1536,       /* per block */
    MOST_KEYS = 192,           /* per tile: 96 to 384 are equally fast */
    UNITS = 16,                /* units wanted, so that every core finds work */
    LEAST_PANELS = 4,          /* per block, if there are that many queries */
    MANY_KEYS = 65536,         /* from here on cutting keys is cheaper than small blocks */
    SEGMENT_KEYS = 2048,       /* fewer keys per segment are not worth a merge */
    MOST_CHUNKS = 256
};
#define SEGMENT_BYTES 64e6 /* states of all segments together */
#define CHUNK_BYTES   64e6 /* moments of all chunks together */

/* Limits x to [low, high]. */
static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Rounds x up to a multiple of `to`. */
static int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* Returns a/b, rounded up. */
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Pieces each interval between prefixes is cut into, for about `wanted` segments in all. */
static int64_t pieces(const es_problem *p, int64_t wanted, int64_t prefix)
{
    const int64_t all = p->prefixes[p->n_prefixes - 1];
    const int64_t length = p->prefixes[prefix] - (prefix ? p->prefixes[prefix - 1] : 0);
    return ceil_div(length, ceil_div(all, wanted));
}

/* Counts the segments into which all prefixes are cut. */
static int64_t count_segments(const es_problem *p, int64_t wanted)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->n_prefixes; i++)
        count += pieces(p, wanted, i);
    return count;
}

/* The number of segments asked for is remembered through their length, which es_cut_key()
 * recomputes. */
int64_t es_cut_key(const es_problem *p, const es_attend_plan *plan, int64_t segment)
{
    int64_t start = 0;
    for (int64_t i = 0; i < p->n_prefixes; i++) {
        const int64_t count = pieces(p, plan->cuts, i);
        if (segment < count) {
            int64_t first, last;
            es_part(p->prefixes[i] - start, count, segment, &first, &last);
            /* No cut goes through a block of keys; pieces are longer than blocks. */
            return segment > 0 && p->block ? (start + first) / p->block * p->block : start + first;
        }
        segment -= count;
        start = p->prefixes[i];
    }
    return start;
}

/* Chooses the number of keys of a tile: scores, keys and values of one tile fit the cache. */
static void plan_tile(const es_problem *p, const es_kernels *kernels, es_attend_plan *plan)
{
    const int64_t real = (int64_t)es_dtype_size(kernels->dtype), buffers = p->n_scales > 1 ? 2 : 1;
    const int64_t by_scores = TILE_BYTES / (kernels->lanes * real * buffers);
    const int64_t by_keys = KEY_BYTES / ((p->d + p->dv) * real);
    plan->tile =
        clamp(by_scores < by_keys ? by_scores : by_keys, 64, MOST_KEYS) / ES_GROUP * ES_GROUP;
    if (p->block) /* a power of two: tiles and blocks nest */
        plan->tile = plan->tile >= 128 ? 128 : 64;
}

/* Keys that a query sees, on average. */
static int64_t mean_keys(const es_problem *p)
{
    return (int64_t)(p->pairs / (double)es_problem_queries_at(p, p->n_prefixes - 1));
}

/* Causal units are of any size up to twice the mean: twice as many can be divided evenly, the
 * largest first. */
static int64_t units_wanted(const es_problem *p)
{
    return p->mask && p->mask->causal ? 2 * UNITS : UNITS;
}

/* Blocks of about m*cuts/UNITS queries, but not so few that fetching the keys for them would show.
 */
static void shrink_blocks(const es_problem *p, const es_kernels *kernels, es_attend_plan *plan)
{
    const int64_t lanes = kernels->lanes,
                  fair = round_up(ceil_div(p->m * plan->cuts, units_wanted(p)), lanes);
    const int64_t wanted = fair > LEAST_PANELS * lanes ? fair : LEAST_PANELS * lanes;
    const int64_t block = plan->block < wanted ? plan->block : wanted;
    plan->blocks = ceil_div(p->m, block);
    plan->block = round_up(ceil_div(p->m, plan->blocks), lanes); /* all of nearly the same size */
    plan->blocks = ceil_div(p->m, plan->block);
}

/* Returns whether keys can be cut at prefixes: a state has no sums of blocks that began elsewhere.
 */
static bool prefixes_end_blocks(const es_problem *p)
{
    for (int64_t i = 0; p->block && i + 1 < p->n_prefixes; i++)
        if (p->prefixes[i] % p->block)
            return false;
    return true;
}

/* Cut the keys so that blocks * cuts comes to UNITS, if there are enough keys and the states can be
 * afforded. */
static void cut_keys(const es_problem *p, es_attend_plan *plan)
{
    const int64_t by_keys = mean_keys(p) / SEGMENT_KEYS;
    const double affordable = SEGMENT_BYTES / es_partial_bytes(p, p->m) - (double)p->n_prefixes;
    const int64_t by_memory = affordable > UNITS ? UNITS : (int64_t)affordable;
    const int64_t wanted = UNITS / plan->blocks; /* a state per segment has its price, too */
    plan->cuts = clamp(wanted < by_keys ? wanted : by_keys, 1, by_memory > 1 ? by_memory : 1);
    plan->segments = plan->cuts > 1 ? count_segments(p, plan->cuts) : 1;
}

/* Blocks as large as the cache allows. If that leaves too few units: against very many keys cut the
 * keys, otherwise make the blocks smaller, and cut the keys only when that was not enough. */
static void plan_blocks(const es_problem *p, const es_kernels *kernels, es_attend_plan *plan)
{
    const int64_t lanes = kernels->lanes, real = (int64_t)es_dtype_size(kernels->dtype);
    const int64_t by_cache = OUTPUT_BYTES / (p->n_scales * round_up(p->dv, ES_GROUP) * real);
    plan->block = clamp(by_cache / lanes * lanes, lanes, MOST_QUERIES / lanes * lanes);
    plan->blocks = ceil_div(p->m, plan->block);
    plan->cuts = plan->segments = 1;
    const bool may_cut = !p->self && prefixes_end_blocks(p);
    if (may_cut && mean_keys(p) >= MANY_KEYS)
        cut_keys(p, plan);
    shrink_blocks(p, kernels, plan);
    if (may_cut && plan->cuts == 1)
        cut_keys(p, plan);
}

/* Queries that do not fill a panel: one block of them, and a state for every piece between two cuts
 * or prefixes, if those can be afforded. */
static bool plan_few(const es_problem *p, const es_kernels *kernels, es_attend_plan *plan)
{
    if (!es_few_suits(p) ||
        es_partial_bytes(p, p->m) * ((double)p->n_prefixes + 1.0) > SEGMENT_BYTES)
        return false;
    plan->few = true;
    plan->block = p->m;
    plan->blocks = 1;
    plan->tile = es_few_tile(p, kernels);
    cut_keys(p, plan);
    plan->segments = count_segments(p, plan->cuts);
    return true;
}

/* Returns the memory that a plan needs. */
static double plan_bytes(const es_problem *p, const es_kernels *kernels, const es_attend_plan *plan,
                         bool wants_moments)
{
    const double sets = (double)(p->n_scales * p->n_prefixes) * (double)es_moments_bytes(p->dv);
    const double scratch = (double)plan->block * (double)p->dv * 8.0 + (double)p->kept * 8.0;
    const double work =
        plan->few ? es_few_bytes(p, kernels) : es_block_bytes(p, kernels, plan->block, plan->tile);
    double bytes = (double)plan->threads * (work + scratch);
    if (plan->segments > 1 || plan->few)
        bytes += (double)plan->segments * (es_partial_bytes(p, p->m) + 1024.0);
    else
        bytes += (double)plan->threads * es_partial_bytes(p, plan->block);
    if (wants_moments)
        bytes += (double)plan->chunks * sets;
    if (p->spread)
        bytes += (double)p->dv * 8.0; /* the centre */
    return bytes + 4096.0 * (double)(plan->threads + plan->chunks);
}

es_status es_cut_make(const es_problem *p, bool wants_moments, es_attend_plan *plan,
                      const es_kernels **kernels, es_error *err)
{
    *plan = (es_attend_plan){0};
    ES_TRY(es_isa_resolve(p->exec ? p->exec->isa : ES_ISA_AUTO, &plan->isa, err));
    *kernels = es_kernels_find(plan->isa, p->precision);
    if (!*kernels)
        return es_fail(err, ES_E_UNSUPPORTED, "isa.built", "use ESSCHER_ISA=portable",
                       "no %s kernels in this build", es_isa_name(plan->isa));
    if (!plan_few(p, *kernels, plan)) {
        plan_tile(p, *kernels, plan);
        plan_blocks(p, *kernels, plan);
    }

    plan->chunks = plan->blocks < MOST_CHUNKS ? plan->blocks : MOST_CHUNKS;
    if (wants_moments) {
        const double set = (double)(p->n_scales * p->n_prefixes) * (double)es_moments_bytes(p->dv);
        const double affordable = fmax(1.0, CHUNK_BYTES / set);
        plan->chunks = affordable < (double)plan->chunks ? (int64_t)affordable : plan->chunks;
    }
    const int64_t units =
        plan->segments > 1 || plan->few ? plan->blocks * plan->segments : plan->chunks;
    plan->threads = es_parallel_threads(p->exec, units);

    plan->flops = 2.0 * p->pairs * ((double)p->d + (double)p->n_scales * (double)p->dv);
    const double bytes = plan_bytes(p, *kernels, plan, wants_moments);
    plan->bytes = bytes < 9e18 ? (size_t)bytes : SIZE_MAX;
    return ES_OK;
}

es_status es_attend_plan_for(int64_t m, int64_t n, int64_t d, int64_t dv,
                             const es_attend_opts *opts, bool wants_moments, es_attend_plan *plan,
                             es_error *err)
{
    es_problem p;
    const es_kernels *kernels;
    ES_TRY(es_problem_shape(&p, m, n, d, dv, opts, err));
    const int64_t scales = p.n_scales;
    if (es_problem_scales_apart(&p))
        p.n_scales = 1;
    ES_TRY(es_cut_make(&p, wants_moments, plan, &kernels, err));
    plan->flops *= (double)(scales / p.n_scales);
    return ES_OK;
}
