/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c : which heads and queries of a source `sparse` asks about. */
#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "model/sparse_head.h"
#include "random/experiment.h"
#include "random/random.h"

enum { ADDRESS_QUERIES = ES_EXPERIMENT_SPARSE + 3 }; /* cell: context; token: which of them */

/* Fails if one of the numbers of --layer or --head does not exist. */
static es_status check_choice(const es_grid *grid, int64_t count, const char *name, es_error *err)
{
    for (int64_t i = 0; i < grid->count; i++)
        if (grid->counts[i] >= count)
            return es_refuse(err, "sparse.heads", "count from 0", "--%s %lld: there are %lld", name,
                             (long long)grid->counts[i], (long long)count);
    return ES_OK;
}

/* Lists the layers and heads that are asked about. */
static es_status find_places(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t L = p->layers.count ? p->layers.count : s->layers;
    const int64_t H = p->heads.count ? p->heads.count : s->heads;
    ES_TRY(check_choice(&p->layers, s->layers, "layer", err));
    ES_TRY(check_choice(&p->heads, s->heads, "head", err));
    s->n_places = L * H;
    ES_TRY(ES_JOB_NEW_2D(job, s->places, L, H, err));
    for (int64_t i = 0; i < s->n_places; i++) {
        const int64_t l = i / H, h = i % H;
        s->places[i] = (sparse_place){p->layers.count ? p->layers.counts[l] : l,
                                      p->heads.count ? p->heads.counts[h] : h, 0};
        if (s->pools.config)
            s->places[i].window = es_model_layer(s->pools.config, s->places[i].layer)->window;
    }
    return ES_OK;
}

/* Adds how many keys the chosen queries see in one head; `share` of the mean over all heads. */
static void count_seen_in(sparse_state *s, int64_t window, double share)
{
    const es_past past = {s->causal, window};
    const int64_t count = s->contexts * s->queries;
    double mean = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = s->which[i], at = s->positions ? s->positions[row] : row;
        const int64_t seen = es_past_end(past, at, s->n) - es_past_begin(past, at);
        s->seen[0] = seen < s->seen[0] ? seen : s->seen[0];
        s->seen[1] = seen > s->seen[1] ? seen : s->seen[1];
        mean += (double)seen / (double)count;
    }
    s->mean_seen += share * mean;
}

/* Notes how many keys the chosen queries see: once if all heads see the same. */
static void count_seen(sparse_state *s)
{
    bool same = true;
    for (int64_t i = 1; i < s->n_places; i++)
        same = same && s->places[i].window == s->places[0].window;
    const int64_t heads = same ? 1 : s->n_places;
    s->seen[0] = s->n;
    for (int64_t i = 0; i < heads; i++)
        count_seen_in(s, s->places[i].window, 1.0 / (double)heads);
}

/* Draws one query from each of s->queries equal stretches of those that may be asked about. */
static es_status choose_queries(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t most = s->question->every_query ? s->m : s->source->queries;
    const int64_t asked = p->queries ? p->queries : most;
    const int64_t begin = s->first, m = s->m - begin;
    s->queries = asked < m ? asked : m;
    ES_TRY(ES_JOB_NEW_2D(job, s->which, s->contexts, s->queries, err));
    for (int64_t c = 0; c < s->contexts; c++)
        for (int64_t i = 0; i < s->queries; i++) {
            const int64_t from = i * m / s->queries, to = (i + 1) * m / s->queries;
            const es_address at = {.seed = job->seed,
                                   .experiment = ADDRESS_QUERIES,
                                   .cell = (uint64_t)c,
                                   .token = (uint64_t)i};
            s->which[c * s->queries + i] =
                begin + from + (int64_t)(es_uniform_at(&at) * (double)(to - from));
        }
    count_seen(s);
    return ES_OK;
}

/* Chooses where heads come from: arrays, a model, or what the question uses without input. */
static const sparse_source *find_source(const sparse_state *s)
{
    const sparse_params *p = s->p;
    return p->paths[0] || p->paths[1] || p->paths[2] ? &sparse_arrays
           : p->pool.model                           ? s->question->of_model
                                                     : s->question->without_input;
}

es_status sparse_inputs_open(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->source = find_source(s);
    if (!s->source)
        return es_refuse(err, "sparse.options",
                         "--q Q.npy --k K.npy --v V.npy, or --model MODEL --text FILE",
                         "missing queries, keys and values");
    ES_TRY(s->source->open(job, err));
    ES_TRY(find_places(job, err));
    return choose_queries(job, err);
}

es_status sparse_head_of(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                         es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    *out = (es_sparse_head){
        .positions = s->positions, .scale = s->scale, .cap = s->cap, .causal = s->causal};
    return s->source->head(job, place, context, arena, out, err);
}

/* Counts hidden states, the f64 copy that es_mat_multiply() makes of them, and the three results.
 */
double sparse_head_bytes(const sparse_state *s)
{
    const double H = (double)s->hidden;
    return H > 0.0 ? (double)s->n * (12.0 * H + 32.0 * (double)(s->d + s->dv)) +
                         24.0 * H * (double)s->d + 1e6
                   : 1e6;
}

double sparse_head_flops(const sparse_state *s, int64_t n)
{
    return 6.0 * (double)n * (double)s->hidden * (double)s->d;
}
