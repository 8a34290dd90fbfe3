/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `picture`: outputs of one head over n tokens and in the limit, all in one
 * plane. Parameters, help, cost and stages; tables and findings are in picture/rows.c. */
#include "experiments/picture/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/numbers.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/picture/embed.h"
#include "linalg/linalg.h"

static const char *const picture_methods[] = {"tsne", "pca", NULL};

#define FIELD(member) .field = offsetof(picture_params, member)
static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 2, .max = 1e8,
     .increasing = true, .default_note = "16..4096*5, of a model at most half of its pool",
     .unit = "tokens"},
    {"query-count", 0, ES_PARAM_WHOLE, "M",
     "queries whose outputs are shown, at every n and in the limit; M times (sizes + 1) is at most "
     "3000",
     FIELD(queries), .min = 8, .max = 1500, .default_value = "300", .unit = "queries"},
    {"method", 0, ES_PARAM_CHOICE, "tsne|pca",
     "tsne: neighbours stay neighbours, distances mean nothing; pca: the plane in which outputs "
     "vary most, where distances are too small but comparable",
     FIELD(method), .choices = picture_methods, .default_value = "tsne"},
    {"perplexity", 0, ES_PARAM_NUMBER, "U", "with t-SNE: how many neighbours of a point count",
     FIELD(perplexity), .min = 1.01, .max = 1000, .default_value = "30"},
    {"steps", 0, ES_PARAM_WHOLE, "N", "with t-SNE: steps of gradient descent", FIELD(steps),
     .min = 10, .max = 100000, .default_value = "1000"},
    {"head", 0, ES_PARAM_TEXT, "H|KIND",
     "with --model: number of a head, from 0; otherwise the kind of score matrix: random, rotation "
     "or identity",
     FIELD(which), .default_note = "0, or random"},
    {"layer", 0, ES_PARAM_WHOLE, "L", "with --model: the layer, from 0", FIELD(layer), .min = 0,
     .max = 4096, .default_note = "0"},
    {"scale", 0, ES_PARAM_NUMBER, "B", "factor on A = Wk'Wq/sqrt(k); not with --model",
     FIELD(scale), .min = 0.0, .max = 1e12, .default_value = "1"},
    ES_LAW_PARAMS(picture_params, law, "gaussian"),
    ES_HEAD_FILE_PARAMS(picture_params, head,
                        "N(0, 1/d) with a random head or --Wq, else the "
                        "identity"),
    ES_POOL_PARAMS(picture_params, pool),
    {0}};

/* ---- what was asked ---- */

/* Returns whether the question is about a model, not a law. */
static bool of_model(const es_job *job)
{
    const picture_params *p = job->params;
    return p->pool.model || p->pool.texts.count || p->pool.domains.count;
}

/* Refuses parameters of a law beside a model, and the reverse: they would have no effect. */
static es_status refuse_both(const es_job *job, es_error *err)
{
    static const char *const laws[] = {
        "law",   "dim",     "radius", "mean",  "cov", "rho", "kappa", "direction", "freedom",
        "means", "weights", "points", "scale", "Wq",  "Wk",  "Wv",    "A",         NULL};
    static const char *const models[] = {"layer",  "mix",   "pool",     "special", "blocks-from",
                                         "repeat", "store", "pool-dir", NULL};
    const bool model = of_model(job);
    for (const char *const *name = model ? laws : models; *name; name++)
        if (es_params_given(job->given, *name))
            return es_refuse(err, "picture.options",
                             model ? "leave it out, or --model and its text"
                                   : "give --model MODEL --text FILE, or leave it out",
                             "--%s %s --model", *name, model ? "beside" : "without");
    return ES_OK;
}

/* Makes the law and its head, and the default n. */
static es_status open_law(es_job *job, picture_params *p, picture_state *s, es_error *err)
{
    int64_t dim;
    p->head.kind = -1;
    for (int i = 0; p->which && es_head_kinds[i]; i++)
        if (strcmp(p->which, es_head_kinds[i]) == 0)
            p->head.kind = i;
    if (p->which && p->head.kind < 0)
        return es_refuse(err, "picture.head",
                         "random, rotation or identity; a number goes with --model MODEL",
                         "--head %s", p->which);
    ES_TRY(es_head_dim(&p->head, &dim, err));
    if (dim == 0 && !es_law_params_speak(&p->law))
        p->law.dim = 10;
    ES_TRY(es_law_make(job, &p->law, dim, &s->law, err));
    if (!(es_law_traits(s->law.law.kind) & ES_LAW_ENTIRE))
        return es_refuse(err, "picture.limit",
                         "a law with exponential moments, or esscher converge, which shows growth",
                         "attention over tokens of this law has no limit to stand beside");
    ES_TRY(es_head_make(job, &p->head, s->law.law.dim, ES_HEAD_RANDOM, true, &s->head, err));
    s->spec.law = &s->law.law;
    s->spec.head = &s->head.head;
    s->spec.scale = p->scale;
    es_answer_text(job->answer, "head", p->head.kind < 0 ? "file" : es_head_kinds[p->head.kind]);
    return p->sizes.count ? ES_OK : es_params_set(job->given, "n", "16..4096*5", err);
}

/* Opens the model, checks layer and head, and sets the default n: at most half of the pool, as in
 * probe, because larger draws repeat tokens. */
static es_status open_model(es_job *job, picture_params *p, picture_state *s, es_error *err)
{
    int64_t number = 0;
    char text[64];
    p->pool.streams = true;
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    if (s->pools.n_domains > 1)
        return es_refuse(err, "picture.domain",
                         "give one --domain or --text, or a mixture with --mix",
                         "picture takes one domain; %lld given", (long long)s->pools.n_domains);
    const es_model_config *c = s->pools.config;
    if (p->which && es_number_whole(p->which, &number))
        return es_refuse(err, "picture.head", "give the number of a head, from 0",
                         "--head %s: heads of a model have numbers", p->which);
    if (number < 0 || number >= c->heads || p->layer >= c->layers)
        return es_refuse(err, "picture.head", "layers and heads count from 0",
                         "layer %lld, head %lld of a model with %lld layers of %lld heads",
                         (long long)p->layer, (long long)number, (long long)c->layers,
                         (long long)c->heads);
    const int64_t tokens = s->pools.cost.tokens, most = tokens / 2 < 4096 ? tokens / 2 : 4096;
    if (p->queries > tokens)
        return es_refuse(err, "picture.queries", "more text, or --query-count M",
                         "%lld queries of a pool of %lld tokens", (long long)p->queries,
                         (long long)tokens);
    s->spec.model = s->pools.model;
    s->spec.layer = p->layer;
    s->spec.number = number;
    es_answer_count(job->answer, "layer", p->layer);
    es_answer_count(job->answer, "head", number);
    snprintf(text, sizeof text, "%d..%lld*5", most > 32 ? 16 : 2, (long long)most);
    return p->sizes.count ? ES_OK : es_params_set(job->given, "n", text, err);
}

/* Refuses more points than t-SNE takes, and a perplexity that they do not allow. */
static es_status check_points(const picture_params *p, const picture_state *s, es_error *err)
{
    if (s->points > ES_TSNE_MOST)
        return es_refuse(err, "picture.points", "fewer queries (--query-count), or fewer n",
                         "%lld queries at %lld sizes and in the limit are %lld points: a picture "
                         "has %d at most",
                         (long long)p->queries, (long long)p->sizes.count, (long long)s->points,
                         ES_TSNE_MOST);
    if (p->method == PICTURE_TSNE && !(p->perplexity < (double)(s->points - 1)))
        return es_refuse(err, "picture.perplexity", "a smaller one, or more queries",
                         "perplexity %g of %lld points", p->perplexity, (long long)s->points);
    return ES_OK;
}

/* ---- cells ---- */

/* Computes the outputs of one n, or of the limit; the last column is the limit's error. */
static es_status run_output(es_job *job, int64_t set, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const int64_t m = p->queries, c = s->channels;
    es_picture_spec spec = s->spec;
    es_arena arena = {.budget = exec->budget};
    double *y, *error;
    spec.exec = exec;
    es_status status = ES_ARENA_NEW_2D(&arena, y, m, c + 1, "outputs", err);
    if (status == ES_OK) {
        error = y + m * c;
        status = set < p->sizes.count ? es_picture_outputs(&spec, p->sizes.counts[set], y, err)
                                      : es_picture_limit(&spec, y, error, err);
        for (int64_t i = 0; i < m; i++) {
            memcpy(out + i * (c + 1), y + i * c, (size_t)c * sizeof *y);
            out[i * (c + 1) + c] = error[i];
        }
    }
    es_arena_free(&arena);
    return status;
}

/* Copies all outputs into x (points, channels), set by set. */
static es_status gather(es_job *job, const es_exec *exec, double *x, es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const int64_t m = p->queries, c = s->channels;
    for (int64_t set = 0; set < s->sets; set++) {
        const double *cell;
        ES_TRY(es_job_fetch(job, PICTURE_OUTPUT, set, exec, &cell, err));
        for (int64_t i = 0; i < m; i++)
            memcpy(x + (set * m + i) * c, cell + i * (c + 1), (size_t)c * sizeof *x);
    }
    return ES_OK;
}

/* Places the points by their first two principal components; one channel has no second one: 0. */
static es_status principal_plane(const es_view *x, const es_exec *exec, double *scores,
                                 double *plane, double shares[2], es_error *err)
{
    const int64_t count = x->cols < 2 ? x->cols : 2;
    double variances[2] = {0.0, 0.0};
    es_principal found = {.variances = variances, .scores = scores};
    ES_TRY(es_principal_find(x, count, exec, &found, err));
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t a = 0; a < 2; a++)
            plane[2 * i + a] = a < count ? scores[i * count + a] : 0.0;
    for (int a = 0; a < 2; a++)
        shares[a] = found.total > 0.0 ? variances[a] / found.total : 1.0;
    return ES_OK;
}

/* Places all outputs in the plane and measures how far that can be trusted. */
static es_status make_plane(es_job *job, const es_exec *exec, es_arena *arena, picture_place *out,
                            es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const int64_t N = s->points;
    picture_quality *quality = (picture_quality *)(void *)(out + N);
    double *places = &out->x, *x, *start;
    es_exec quiet = *exec;
    quiet.progress = NULL;
    ES_TRY(ES_ARENA_NEW_2D(arena, x, N, s->channels, "outputs", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, start, 2, 2 * N, "a plane", err));
    ES_TRY(gather(job, &quiet, x, err));
    const es_view points = es_view_f64(x, N, s->channels);
    ES_TRY(principal_plane(&points, &quiet, start + 2 * N, start, quality->shares, err));
    memcpy(places, start, (size_t)(2 * N) * sizeof *places);
    if (p->method == PICTURE_TSNE) {
        const es_tsne_opts opts = {p->perplexity, p->steps};
        es_tsne_facts found;
        ES_TRY(es_tsne_embed(&points, start, &opts, exec, places, &found, err));
        quality->divergence = found.divergence;
        quality->slope = found.slope;
        quality->perplexity_off = found.perplexity_off;
        quality->tied = (double)found.tied;
    }
    es_trust trust;
    ES_TRY(es_embed_trust(&points, places, s->neighbours, &quiet, &trust, err));
    quality->trustworthiness = trust.trustworthiness;
    quality->continuity = trust.continuity;
    return ES_OK;
}

/* Computes the one cell of the second stage. */
static es_status run_plane(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    (void)cell;
    const es_status status = make_plane(job, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* ---- stages ---- */

/* Returns how many tokens a set attends to. The limit of a law takes none; 1 keeps its cost above
 * 0. */
static int64_t tokens_of(const es_job *job, int64_t set)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    return set < p->sizes.count ? p->sizes.counts[set] : s->spec.law ? 1 : s->pools.cost.tokens;
}

/* Returns the work of a set relative to the others. */
static double output_weight(const es_job *job, int64_t set)
{
    const picture_state *s = job->state;
    return es_picture_cost_of(&s->spec, tokens_of(job, set)).flops + 1e5;
}

/* Returns the work of the plane: as long as attention would take on a core that does 200 operations
 * in a ns: 3 ns for a pair in a step; 240 ns for the widths of laws, 40 looks of 6 ns; nearly as
 * much for the ranks of trust. */
static double plane_flops(const es_job *job)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double N = (double)s->points, steps = p->method == PICTURE_TSNE ? (double)p->steps : 0.0;
    return N * N * (600.0 * steps + 80000.0);
}

/* Names the columns of an output: y0, y1, ..., error. */
static es_status name_columns(es_job *job, const char ***out, es_error *err)
{
    enum { SIZE = 8 };
    const picture_state *s = job->state;
    const char **names;
    char *text;
    ES_TRY(ES_JOB_NEW(job, names, s->channels + 1, err));
    ES_TRY(ES_JOB_NEW_2D(job, text, s->channels + 1, SIZE, err));
    for (int64_t i = 0; i < s->channels; i++) {
        snprintf(text + i * SIZE, SIZE, "y%d", (int)i); /* at most 4096 */
        names[i] = text + i * SIZE;
    }
    names[s->channels] = "error";
    *out = names;
    return ES_OK;
}

static const es_cell_field place_fields[] = {
    ES_FIELD(picture_place, x), ES_FIELD(picture_place, y), {0}};

/* Adds the stages: outputs at each size and in the limit, then the layout of the picture, which
 * needs all of them. */
static es_status add_stages(es_job *job, es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const char **names;
    double flops = 0.0;
    ES_TRY(name_columns(job, &names, err));
    for (int64_t set = 0; set < s->sets; set++)
        flops += output_weight(job, set) / (double)s->sets;
    ES_TRY(es_job_stage(job,
                        &(es_stage){"output", .phase = "attending over n tokens",
                                    .noun = "sizes, and the limit", .cells = s->sets,
                                    .rows = p->queries, .cols = s->channels + 1, .columns = names,
                                    .reports_progress = true, .shared = true, .flops = flops,
                                    .weight = output_weight, .run = run_output},
                        err));
    return es_job_stage(job,
                        &(es_stage){"plane", .phase = "finding places in the plane",
                                    .noun = "planes", .cells = 1,
                                    .rows = s->points + PICTURE_QUALITY_RECORDS,
                                    ES_RECORD(picture_place, place_fields),
                                    .reports_progress = p->method == PICTURE_TSNE,
                                    .flops = plane_flops(job), .run = run_plane},
                        err);
}

/* ---- all together ---- */

/* Checks the question and adds the stages. */
static es_status open_study(es_job *job, es_error *err)
{
    enum { NEIGHBOURS = 12 };
    picture_params *p = job->params;
    picture_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->spec = (es_picture_spec){.queries = p->queries, .seed = job->seed};
    ES_TRY(refuse_both(job, err));
    ES_TRY(of_model(job) ? open_model(job, p, s, err) : open_law(job, p, s, err));
    s->channels = es_picture_channels(&s->spec);
    s->sets = p->sizes.count + 1;
    s->points = p->queries * s->sets;
    s->neighbours = s->points / 4 < NEIGHBOURS ? s->points / 4 : NEIGHBOURS;
    ES_TRY(check_points(p, s, err));
    es_answer_text(job->answer, "method", picture_methods[p->method]);
    if (p->method == PICTURE_TSNE)
        es_answer_real(job->answer, "perplexity", p->perplexity);
    es_answer_count(job->answer, "queries", p->queries);
    return add_stages(job, err);
}

/* Counts copies of outputs and places, distances of all pairs, covariance and eigenvectors. Outputs
 * and plane are computed one after the other, so the larger of the two counts. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const picture_params *p = job->params;
    const picture_state *s = job->state;
    const double N = (double)s->points, c = (double)s->channels;
    double flops = plane_flops(job), bytes = 0.0;
    (void)err;
    for (int64_t set = 0; set < s->sets; set++) {
        const es_picture_cost one = es_picture_cost_of(&s->spec, tokens_of(job, set));
        flops += one.flops;
        bytes = fmax(bytes, one.bytes + 8.0 * (double)p->queries * (c + 1.0));
    }
    const double plane =
        8.0 * N * (c + 4.0) + 64.0 * c * c + 1e6 +
        fmax(es_tsne_bytes(s->points, s->channels), 8.0 * N * (c + 4.0 + 2.0 * job->exec.threads));
    *out = (es_cost){.flops = flops, .output_bytes = 256.0 * N, .work_bytes = fmax(bytes, plane)};
    if (!s->spec.law) {
        const es_pool_cost *pools = &s->pools.cost;
        out->flops += pools->flops;
        out->begin_flops = pools->flops;
        out->disk_bytes = pools->disk_bytes;
        out->work_bytes = pools->held_bytes + fmax(out->work_bytes, (double)pools->bytes);
    }
    return ES_OK;
}

/* Builds the pool of a model. */
static es_status begin(es_job *job, es_error *err)
{
    picture_state *s = job->state;
    if (s->spec.law)
        return ES_OK;
    ES_TRY(es_pools_build(job, &s->pools, err));
    s->spec.pool = s->pools.domains[0].pool;
    return ES_OK;
}

/* Frees the pools. */
static void close_study(es_job *job)
{
    picture_state *s = job->state;
    es_pools_close(&s->pools);
}

static const char *const examples[] = {
    "esscher picture --out picture.run", "esscher picture --method pca --json",
    "esscher picture --law sphere --dim 3 --scale 8 --n 8..2048*5 --out picture.run",
    "esscher picture --model models/minilm --text alice.txt --layer 3 --head 5 --out picture.run",
    NULL};

const es_study es_study_picture = {
    "picture",
    .summary = "what a head's outputs look like in the plane, beside their limit",
    .group = ES_GROUP_MODEL,
    .main_options = "n method model text layer head law dim",
    .usage = "[options], or --model MODEL --text FILE --layer L --head H [options]",
    .about =
        "Computes a head's outputs for some queries: over n tokens, for every n of a grid, and "
        "over infinitely many. Draws all of them in one plane, by t-SNE, which keeps neighbours, "
        "or by principal components, so that a query can be followed from n to n. The report has "
        "a slider over n. The tables say what the picture cannot show: how far outputs are from "
        "their limits, how many are nearer to their own limit than to any other, and how far "
        "neighbours in the plane can be trusted.\n\n"
        "Tokens are drawn from a law, whose limit is known, or from the hidden states of a text "
        "that a model has read, as in probe; the whole pool then stands for the limit, and its own "
        "error is given. t-SNE is exact, begins at the principal components and draws no random "
        "numbers: up to 3000 points, in some 30 s of one core.",
    .examples = examples,
    .params = params,
    .size = sizeof(picture_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "points",
    .state = sizeof(picture_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = picture_summarise,
    .close = close_study,
};
