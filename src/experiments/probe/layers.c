/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c : the table layers, and the walk over layers that fills the tables of heads and rows. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"

/* One layer of a domain. */
typedef struct layer_row {
    const char *domain;
    int64_t layer;
    double reach, reach_error, trace, participation;
    double horizon, horizon_unscaled_all_heads, gaussian_frozen, top_high;
    es_measured coherence, layer_error;
} layer_row;

static const es_column layer_columns[] = {
    ES_COL(layer_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(layer_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(layer_row, reach, ES_FORMAT_REAL, "reach", "",
           "largest eigenvalue of the covariance of the layer's inputs"),
    ES_COL(layer_row, reach_error, ES_FORMAT_SHORT, "reach error", "",
           "bound on the rounding in it"),
    ES_COL(layer_row, trace, ES_FORMAT_REAL, "trace", "", "of that covariance"),
    ES_COL(layer_row, participation, ES_FORMAT_SHORT, "directions", "",
           "`trace^2 / |cov|_F^2`: number of directions in which tokens vary"),
    ES_COL(layer_row, horizon, ES_FORMAT_SHORT, "largest H", "", "over the heads"),
    ES_COL(layer_row, horizon_unscaled_all_heads, ES_FORMAT_SHORT, "H all heads", "",
           "of all heads as one and without `1/sqrt(k)`, as public code reports it; it has no "
           "meaning for several heads"),
    ES_COL(layer_row, gaussian_frozen, ES_FORMAT_SHORT, "u > 1", "share",
           "of queries, over all heads: `u = q/sqrt(2 ln n)` above 1 at the largest n, where "
           "Gaussian tokens would freeze"),
    ES_COL(layer_row, top_high, ES_FORMAT_SHORT, "top > 1/2", "share",
           "of queries, over all heads: one of n tokens has more than half of the weight, measured "
           "at the largest n"),
    ES_COL(layer_row, coherence, ES_FORMAT_REAL, "coherence", "",
           "squared error of the layer's attention output over the sum of its heads' own: 1 if the "
           "errors of heads are independent"),
    ES_COL(layer_row, layer_error, ES_FORMAT_REAL, "layer error", "",
           "root mean square error of that output at the largest n"),
    {0}};
const es_table_spec probe_layers_table = {
    "layers", layer_columns,
    ES_VIEW("Layers",
            "domain layer reach trace participation horizon horizon_unscaled_all_heads "
            "gaussian_frozen top_high coherence layer_error",
            .only_with_full = true),
    ES_ROW(layer_row), .keys = "domain layer"};

/* Progress of work on one layer; opening it takes most of the time. */
static bool report_layer(void *user, double done, double total)
{
    const probe_summary *m = user;
    return m->job->exec.progress(m->job->exec.progress_user, (double)m->place + 0.9 * done / total,
                                 (double)probe_places(m->s));
}

/* Fills what does not depend on single heads. */
static es_status fill_layer(probe_summary *m, layer_row *r, es_error *err)
{
    es_probe_layer about;
    const int64_t last = m->s->spec.n_sizes - 1;
    ES_TRY(es_probe_layer_of(m->s->probe, &about, err));
    r->domain = es_pools_domain(&m->s->pools, m->place / m->s->layers, m->layers);
    r->layer = m->place % m->s->layers;
    r->reach = about.reach.val;
    r->reach_error = about.reach.err;
    r->trace = about.trace;
    r->participation = about.participation;
    r->horizon_unscaled_all_heads = about.horizon_unscaled_all_heads;
    const es_probe_cell *all = probe_draw_at(m->job, PROBE_DRAW, m->place, 0, m->s->heads, last);
    r->coherence = probe_drawn(m->job, &all->coherence);
    r->layer_error = probe_drawn(m->job, &all->map_error);
    return ES_OK;
}

/* How far the head's error at the largest n changes the layer's attention output, over the spread
 * of the layer's inputs: comparable between heads of all layers. */
static es_measured moves_of(const probe_summary *m, double spread)
{
    const es_probe_cell *first =
        probe_draw_at(m->job, PROBE_DRAW, m->place, 0, m->head, m->s->spec.n_sizes - 1);
    const es_measured x = probe_drawn(m->job, &first->after_wo);
    return (es_measured){x.value / spread, x.se / spread};
}

/* Fills what the drawn keys of the policies say about a head. */
static void fill_policies(const probe_summary *m, const es_probe_policies *p)
{
    probe_advise(m->heads, m->row, p);
    if (!p->queries)
        return;
    m->row->critical_scale = p->critical;
    m->row->weight_least = p->top_least;
    m->row->weight_most = p->top_most;
    m->row->critical_power = p->critical_power;
}

/* Adds the row of a layer and those of its heads; the row's sums over heads are filled last. */
static es_status describe_layer(probe_summary *m, es_error *err)
{
    const double heads = (double)m->s->heads;
    double most = 0.0, frozen = 0.0, top = 0.0;
    ES_TRY(probe_open_layer(m->job, m->place, false, &m->exec, err));
    layer_row *r = es_rows_add(m->layers, layer_row);
    if (!r)
        return es_answer_status(m->job->answer, err);
    ES_TRY(fill_layer(m, r, err));
    ES_TRY(es_probe_local_of(m->s->probe, m->local, err));
    if (m->policies)
        ES_TRY(es_probe_policies_of(m->s->probe, m->policies, err));
    m->tokens = es_pool_about(m->s->pools.domains[m->place / m->s->layers].pool).tokens;
    for (m->head = 0; m->head < m->s->heads; m->head++) {
        ES_TRY(probe_describe_head(m, err));
        m->row->moves = moves_of(m, sqrt(r->trace));
        probe_classify(m->row, probe_largest_n(m->s), m->p->replicates);
        if (m->policies)
            fill_policies(m, &m->policies[m->head]);
        ES_TRY(es_job_tick(m->job, m->place, probe_places(m->s)));
        most = fmax(most, m->row->horizon);
        frozen += m->row->gaussian_frozen.value / heads;
        top += m->row->top_n_high.value / heads;
    }
    r->horizon = most;
    r->gaussian_frozen = frozen;
    r->top_high = top;
    return ES_OK;
}

/* Allocates series of errors of text and Gaussian tokens, and predictions at each size. */
static es_status prepare(probe_summary *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes, heads = m->s->heads;
    for (int which = 0; which < PROBE_ERRORS; which++) {
        ES_TRY(es_series_new(&m->job->arena, m->p->replicates, sizes, &m->text[which], err));
        ES_TRY(es_series_new(&m->job->arena, m->p->control, sizes, &m->gaussian[which], err));
    }
    ES_TRY(ES_JOB_NEW(m->job, m->local, heads, err));
    /* which keys a causal head should keep depends on positions, which the pool does not have */
    if (!m->s->pools.config->causal)
        ES_TRY(ES_JOB_NEW(m->job, m->policies, heads, err));
    ES_TRY(ES_JOB_NEW(m->job, m->predicted, sizes, err));
    return ES_JOB_NEW(m->job, m->exact, sizes, err);
}

es_status probe_describe_layers(probe_summary *m, es_error *err)
{
    m->exec = m->job->exec;
    m->exec.progress = report_layer;
    m->exec.progress_user = m;
    ES_TRY(prepare(m, err));
    for (m->place = 0; m->place < probe_places(m->s); m->place++)
        ES_TRY(describe_layer(m, err));
    return ES_OK;
}
