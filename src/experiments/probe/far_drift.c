/* SPDX-License-Identifier: Apache-2.0 */
/* far_drift.c : the table drift: how queries and keys move with their place. */
#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/question.h"

/* Queries and keys of a layer at some places. */
typedef struct drift_row {
    const char *domain;
    int64_t layer, from, to;
    es_measured q_norm, q_growth, q_cos, k_norm, k_growth, k_cos;
} drift_row;

static const es_column drift_columns[] = {
    ES_COL(drift_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(drift_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(drift_row, from, ES_FORMAT_COUNT, "from", "keys", "places of the block, from this"),
    ES_COL(drift_row, to, ES_FORMAT_COUNT, "to", "keys", "up to this"),
    ES_COL(drift_row, q_norm, ES_FORMAT_REAL, "|q|", "",
           "root mean square length of queries, mean over heads; standard errors over blocks"),
    ES_COL(drift_row, q_growth, ES_FORMAT_REAL, "|q| growth", "share",
           "since the octave before, where that is among the rows"),
    ES_COL(drift_row, q_cos, ES_FORMAT_REAL, "direction of q", "",
           "cosine of the mean query and that of the octave before, before rotation; mean over "
           "heads"),
    ES_COL(drift_row, k_norm, ES_FORMAT_REAL, "|k|", "", "the same of keys"),
    ES_COL(drift_row, k_growth, ES_FORMAT_REAL, "|k| growth", "share", "the same of keys"),
    ES_COL(drift_row, k_cos, ES_FORMAT_REAL, "direction of k", "", "the same of keys"),
    {0}};
static const es_table_spec drift_table = {
    "drift", drift_columns,
    ES_VIEW("How queries and keys move with their place",
            "domain layer to q_norm q_growth q_cos k_norm k_growth k_cos", .only_with_full = true),
    ES_ROW(drift_row), .keys = "domain layer to"};

/* Returns the mean over the heads of a layer in block b of number `which` of a cell. */
enum { Q_NORM, Q_COS, K_NORM, K_COS };
static double layer_mean(const probe_far_summary *m, int64_t first, int64_t heads, int64_t b,
                         int64_t size, int which)
{
    double sum = 0.0;
    for (int64_t i = first; i < first + heads; i++) {
        const es_far_cell *c = probe_far_cell(&m->heads[i], b, size);
        const double all[] = {c->q_norm, c->q_cos, c->k_norm, c->k_cos};
        sum += all[which] / (double)heads;
    }
    return sum;
}

/* Returns its mean over blocks, or its growth since the size `before` (-1: none). */
static es_measured drift_of(const probe_far_summary *m, int64_t first, int64_t heads, int64_t size,
                            int64_t before, int which)
{
    const probe_far_head *h = &m->heads[first];
    for (int64_t b = 0; b < h->blocks; b++) {
        h->scratch[b] = layer_mean(m, first, heads, b, size, which);
        if (before >= 0)
            h->scratch[b] /= layer_mean(m, first, heads, b, before, which);
    }
    es_measured x = es_average_column(h->scratch, h->blocks, 1);
    x.value -= before >= 0 ? 1.0 : 0.0;
    return x;
}

/* Adds the rows of one layer. */
static es_status add_drift(probe_far_summary *m, es_table *table, int64_t first, int64_t heads,
                           es_error *err)
{
    const es_far_spec *spec = &m->far->spec;
    for (int64_t s = 0; s < spec->sizes; s++) {
        const int64_t before = s > 0 && spec->size[s - 1] == spec->size[s] / 2 ? s - 1 : -1;
        drift_row *r = es_rows_add(table, drift_row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->domain = m->heads[first].name;
        r->layer = m->heads[first].layer;
        r->from = spec->size[s] / 2;
        r->to = spec->size[s];
        r->q_norm = drift_of(m, first, heads, s, -1, Q_NORM);
        r->k_norm = drift_of(m, first, heads, s, -1, K_NORM);
        r->q_cos = drift_of(m, first, heads, s, -1, Q_COS);
        r->k_cos = drift_of(m, first, heads, s, -1, K_COS);
        if (before < 0)
            continue;
        r->q_growth = drift_of(m, first, heads, s, before, Q_NORM);
        r->k_growth = drift_of(m, first, heads, s, before, K_NORM);
    }
    return ES_OK;
}

es_status probe_far_put_drift(probe_far_summary *m, es_error *err)
{
    const probe_state *s = m->job->state;
    es_table *table = es_answer_table(m->answer, &drift_table);
    for (int64_t first = 0; first < m->count; first += s->heads)
        ES_TRY(add_drift(m, table, first, s->heads, err));
    return ES_OK;
}
