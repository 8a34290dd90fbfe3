/* probe_control.c : Gaussian tokens of the same covariance in place of the pool's. A head sees of a
 * token only its key and its value, so those are drawn: 2k numbers instead of the model's width.
 * Means are left out: that of keys shifts all scores of a query alike, that of values all outputs.
 */
#include <math.h>

#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "lab/probe.h"

enum { STRIP = 1024 }; /* tokens of a unit of work */

typedef struct control {
    const es_probe *probe;
    int64_t n;       /* tokens: the largest size */
    es_address at;   /* of this head's tokens */
    double *joint;   /* (2k, 2k): covariance of (key, value), */
    double *root;    /* its root, */
    float *factor;   /* and that in f32 */
    float *normals;  /* (n, 2k) */
    float *pairs;    /* (n, 2k): a key and its value in a row */
    double *outputs; /* (sizes, queries, k) */
    double *limit;   /* (queries, k) */
} control;

static es_status prepare(control *c, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width, m = p->queries, both = 2 * k;
    es_budget *budget = p->exec.budget;
    ES_TRY(es_mem_array(budget, 2 * both, both, sizeof(double), "a covariance", (void **)&c->joint,
                        err));
    c->root = c->joint + both * both;
    ES_TRY(es_mem_array(budget, 2 * c->n + both, both, sizeof(float), "Gaussian tokens",
                        (void **)&c->normals, err));
    c->pairs = c->normals + c->n * both;
    c->factor = c->pairs + c->n * both;
    ES_TRY(es_mem_array(budget, (p->spec.n_sizes + 1) * m, k, sizeof(double), "outputs",
                        (void **)&c->outputs, err));
    c->limit = c->outputs + p->spec.n_sizes * m * k;
    return ES_OK;
}

static void release(control *c)
{
    es_budget *budget = c->probe->exec.budget;
    es_mem_free(budget, c->outputs);
    es_mem_free(budget, c->normals);
    es_mem_free(budget, c->joint);
}

/* ---- one head ---- */

static es_status factor_of(control *c, int64_t head, es_error *err)
{
    const int64_t k = c->probe->weights.width, both = 2 * k;
    const es_probe_gram gram = es_probe_gram_of(c->probe, head);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) { /* exactly symmetric */
            c->joint[i * both + j] = 0.5 * (gram.kk[i * k + j] + gram.kk[j * k + i]);
            c->joint[(k + i) * both + j] = gram.vk[i * k + j];
            c->joint[i * both + k + j] = gram.vk[j * k + i];
            c->joint[(k + i) * both + k + j] = 0.5 * (gram.vv[i * k + j] + gram.vv[j * k + i]);
        }
    const es_view joint = es_view_f64(c->joint, both, both);
    ES_TRY(es_sym_sqrt(&joint, 0.0, c->probe->exec.budget, c->root, NULL, err));
    for (int64_t i = 0; i < both * both; i++)
        c->factor[i] = (float)c->root[i];
    return ES_OK;
}

static es_status draw_strip(void *user, int64_t unit, int thread, es_error *err)
{
    const control *c = user;
    const int64_t both = 2 * c->probe->weights.width, first = unit * STRIP;
    es_address at = c->at;
    (void)thread;
    at.token = (uint64_t)first;
    return es_normal_rows_f32(&at, c->n - first < STRIP ? c->n - first : STRIP, both,
                              c->normals + first * both, err);
}

/* V S t with t = Wk'(Wq x + bq)/sqrt(k): outputs over infinitely many tokens. */
static void limit_of(control *c, int64_t head)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width;
    const es_probe_gram gram = es_probe_gram_of(p, head);
    for (int64_t i = 0; i < p->queries; i++) {
        const float *x = p->q + i * p->weights.hidden + head * k;
        for (int64_t a = 0; a < k; a++) {
            double sum = 0.0;
            for (int64_t b = 0; b < k; b++)
                sum += gram.vk[a * k + b] * (double)x[b];
            c->limit[i * k + a] = sum / sqrt((double)k);
        }
    }
}

static es_status measure_head(control *c, int64_t head, es_probe_cell *cells, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t k = p->weights.width;
    es_exec quiet = p->exec;
    quiet.progress = NULL;
    ES_TRY(factor_of(c, head, err));
    ES_TRY(es_parallel_run(&quiet, (c->n + STRIP - 1) / STRIP, draw_strip, c, err));
    ES_TRY(
        es_probe_project(&quiet, c->normals, c->n, c->factor, NULL, 2 * k, 2 * k, c->pairs, err));
    ES_TRY(es_probe_attend(p, head, c->pairs, c->pairs + k, 2 * k, c->outputs, err));
    limit_of(c, head);
    return es_probe_compare(p, c->outputs, c->limit, k, cells, err);
}

/* ---- all heads ---- */

static es_status run(control *c, int64_t replicate, es_probe_cell *cells, es_error *err)
{
    const es_probe *p = c->probe;
    const int64_t heads = p->weights.heads;
    ES_TRY(prepare(c, err));
    for (int64_t h = 0; h < heads; h++) {
        c->at = (es_address){.seed = p->spec.seed,
                             .experiment = ES_PROBE_CONTROL,
                             .cell = (uint64_t)(p->layer * heads + h) << 32 | (uint64_t)replicate};
        ES_TRY(measure_head(c, h, cells + h * p->spec.n_sizes, err));
        if (p->exec.progress &&
            p->exec.progress(p->exec.progress_user, (double)(h + 1), (double)heads))
            return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "interrupted");
    }
    return ES_OK;
}

es_status es_probe_control(const es_probe *probe, int64_t replicate, es_probe_cell *cells,
                           es_error *err)
{
    ES_TRY(es_probe_check_replicate(replicate, err));
    control c = {.probe = probe, .n = probe->spec.sizes[probe->spec.n_sizes - 1]};
    const es_status status = run(&c, replicate, cells, err);
    release(&c);
    return status;
}
