/* question.c : every head of a model on real text: what is asked, limits and draws of
 * layers. What the columns of the answer mean is in probe/tables.c; they are filled in
 * probe/rows.c. */
#include "experiments/probe/question.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "table/table.h"

static const char *const draw_choices[] = {"with", "without", "contiguous", NULL};
static const char *const protocol_choices[] = {"default", "paper", NULL};
static const char *const look_choices[] = {"positions", "limit", NULL};

#define FIELD(member) .field = offsetof(probe_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(probe_params, pool),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens that are drawn", FIELD(sizes), .min = 2,
     .max = 1e7, .increasing = true,
     .default_note = "100..10000*7, at most half of the pool, or a tenth of it if contiguous",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws", FIELD(replicates), .min = 2,
     .max = 65536, .default_value = "8"},
    {"control", 0, ES_PARAM_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, to compare with; 0: none", FIELD(control),
     .min = 0, .max = 65536, .default_value = "4"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens of the pool whose outputs are compared",
     FIELD(queries), .min = 2, .max = 1e6, .default_value = "1024", .unit = "tokens",
     .renamed_from = "queries"},
    {"exact-queries", 0, ES_PARAM_WHOLE, "M",
     "of them, those whose error for independent tokens is computed exactly", FIELD(exact),
     .min = 2, .max = 1e6, .default_note = "64, or 16 with --stream", .unit = "tokens"},
    {"stream", 0, ES_PARAM_FLAG, NULL,
     "keep only the rows of the pool that draws and queries need; the model reads the text again "
     "for the rest: more time, little disk, and the same numbers where --exact-queries and --store "
     "are the same: unless given they are 16 and f32",
     FIELD(pool.stream), .not_in_fingerprint = true},
    {"draw", 0, ES_PARAM_CHOICE, "HOW",
     "tokens with or without replacement; contiguous: windows of the text, beside tokens with "
     "replacement, and --blocks-from start unless given",
     FIELD(draw), .choices = draw_choices, .default_value = "with"},
    {"protocol", 0, ES_PARAM_CHOICE, "default|paper",
     "paper: also experiment 2 of Token Sample Complexity: n tokens of a passage attend over each "
     "other, heads concatenated; n is 64..384*10 unless given",
     FIELD(paper), .choices = protocol_choices, .default_value = "default"},
    {"look", 0, ES_PARAM_CHOICE, "WHAT",
     "positions: what heads of a causal model do as their context grows; limit: n tokens against "
     "the pool's limit: of a causal model its content alone, positions and the first 4 tokens of "
     "every block removed",
     FIELD(look), .choices = look_choices,
     .default_note = "positions if the model is causal, else limit"},
    {"error", 0, ES_PARAM_NUMBER, "E",
     "error of outputs, over their standard deviation, that decides the effective context",
     FIELD(error), .min = 1e-4, .max = 10, .default_value = "0.1"},
    {0}};

/* ---- what was asked ---- */

/* Half of the pool at most: beyond that, draws without replacement have little left to differ
 * in, and those with replacement repeat themselves. A tenth for windows: the limit is the pool, and
 * a window that is a good part of it looks better than it is. From 4 to 6 there are just the three
 * sizes that a rate takes. */
static es_status complete(es_job *job, const probe_params *p, int64_t tokens, es_error *err)
{
    char text[64];
    if (!p->exact) /* grids of more would take several walks through the text */
        ES_TRY(es_params_set(job->given, "exact-queries", p->pool.stream ? "16" : "64", err));
    if (p->sizes.count)
        return ES_OK;
    if (p->paper == 1)
        return es_params_set(job->given, "n", "64..384*10", err);
    const int64_t parts = p->draw == PROBE_CONTIGUOUS ? 10 : 2, part = tokens / parts;
    const int64_t most = part < 10000 ? part : 10000;
    if (most < 6)
        return es_refuse(err, "probe.tokens", "more text, or --n GRID",
                         "a pool of %lld tokens is too small to draw up to a %s of it: at least "
                         "%lld",
                         (long long)tokens, parts == 2 ? "half" : "tenth", (long long)(6 * parts));
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4, (long long)most);
    return es_params_set(job->given, "n", text, err);
}

/* Refuses parameters of the other look, which would be silently ignored. */
static es_status refuse_others(const es_job *job, bool by_position, es_error *err)
{
    static const char *const limits[] = {"n",           "replicates",    "control",
                                         "query-count", "stream",        "draw",
                                         "protocol",    "exact-queries", NULL};
    static const char *const positions[] = {"error", NULL};
    for (const char *const *other = by_position ? limits : positions; *other; other++)
        if (es_params_given(job->given, *other))
            return es_refuse(err, "probe.look",
                             by_position ? "add --look limit, or leave it out"
                                         : "add --look positions, or leave it out",
                             "--%s has no effect with --look %s", *other,
                             look_choices[by_position ? PROBE_POSITIONS : PROBE_LIMITS]);
    return ES_OK;
}

/* Of a causal model positions are what matters: with them removed hardly a head does what it does
 * in the text. Other models have no order of keys to look at. */
static es_status choose(es_job *job, const probe_params *p, probe_state *s, es_error *err)
{
    const bool causal = s->pools.config->causal;
    if (p->look == PROBE_POSITIONS && !causal)
        return es_refuse(err, "probe.look", "--look limit",
                         "tokens of this model see all of their block: its places are alike");
    if (p->look < 0)
        ES_TRY(es_params_set(job->given, "look",
                             look_choices[causal ? PROBE_POSITIONS : PROBE_LIMITS], err));
    s->by_position = p->look == PROBE_POSITIONS;
    es_answer_text(job->answer, "look", look_choices[p->look]);
    s->positions.error = p->error;
    return refuse_others(job, s->by_position, err);
}

/* A pool that is streamed keeps what will be asked for. */
static es_status keep_rows(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    s->wants = (es_probe_wants){.spec = &s->spec,
                                .replicates = p->replicates,
                                .windows = p->draw == PROBE_CONTIGUOUS ? p->replicates : 0,
                                .sections = s->pools.n_domains > 1,
                                .passages = p->paper == 1 ? PROBE_PASSAGES : 0};
    return p->pool.stream ? es_pools_keep(job, &s->pools, es_probe_keep, &s->wants, err) : ES_OK;
}

static es_status open_limits(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    ES_TRY(complete(job, p, s->pools.cost.tokens, err));
    s->spec = (es_probe_spec){s->pools.model,
                              .sizes = p->sizes.counts,
                              .n_sizes = p->sizes.count,
                              .queries = p->queries < s->pools.cost.tokens ? p->queries
                                                                           : s->pools.cost.tokens,
                              .exact = p->exact,
                              .without_replacement = p->draw == PROBE_WITHOUT,
                              .seed = job->seed};
    if (p->draw == PROBE_CONTIGUOUS && p->sizes.counts[p->sizes.count - 1] > s->pools.cost.tokens)
        return es_refuse(err, "probe.window", "smaller n, or a larger pool",
                         "a context of %lld tokens from a pool of %lld",
                         (long long)p->sizes.counts[p->sizes.count - 1],
                         (long long)s->pools.cost.tokens);
    es_answer_text(job->answer, "draw", draw_choices[p->draw]);
    es_answer_text(job->answer, "protocol", protocol_choices[p->paper]);
    es_answer_count(job->answer, "queries", s->spec.queries);
    es_answer_count(job->answer, "exact_queries",
                    p->exact < s->spec.queries ? p->exact : s->spec.queries);
    es_answer_count(job->answer, "replicates", p->replicates);
    es_answer_count(job->answer, "control", p->control);
    ES_TRY(keep_rows(job, err));
    return es_probe_cost_of(&s->spec, s->pools.cost.tokens, &s->cost, err);
}

static es_status open_study(es_job *job, es_error *err)
{
    probe_params *p = job->params;
    probe_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->window_stage = -1;
    if (p->control == 1)
        return es_refuse(err, "probe.control", "0, or 2 and more",
                         "one draw of Gaussian tokens has no standard error");
    p->pool.skip = p->look == PROBE_LIMITS ? ES_POSITIONS_SINKS : 0;
    if (p->draw == PROBE_CONTIGUOUS && !es_params_given(job->given, "blocks-from"))
        p->pool.from = ES_BLOCKS_START; /* a window may be longer than a block */
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    ES_TRY(choose(job, p, s, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    return s->by_position ? probe_positions_open(job, err) : open_limits(job, err);
}

/* Draws of all kinds of the text's tokens at one place. */
static double draws_of(const probe_params *p)
{
    return (double)p->replicates * (p->draw == PROBE_CONTIGUOUS ? 2.0 : 1.0);
}

int64_t probe_places(const probe_state *s) { return s->pools.n_domains * s->layers; }

/* The pool is on disk; its checksums are in memory, and so are the model and all cells: of a limit
 * a covariance and the outputs of all queries, in f64. */
static void price_limits(const es_job *job, es_cost *out)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_pool_cost *pools = &s->pools.cost;
    const double places = (double)probe_places(s);
    const double points = (double)(s->heads * s->spec.n_sizes);
    const double R = draws_of(p), C = (double)p->control;
    const es_probe_price sections = probe_sections_price(s), paper = probe_paper_price(job, s);
    const es_probe_price walks = probe_walks_price(job, s);
    const double again = s->pools.n_domains > 1 /* for sections */
                             ? pools->flops * probe_forwards(s, 1, probe_sections_group(job))
                             : 0.0;
    /* a layer may still be open while one of these is at work */
    const double stages =
        (double)s->cost.bytes + (double)walks.bytes +
        fmax((double)probe_sections_group(job) * (double)sections.bytes, (double)paper.bytes);
    *out = (es_cost){.flops = pools->flops + walks.flops + again +
                              places * (s->cost.limit_flops + s->cost.open_flops +
                                        s->cost.exact_flops + sections.flops + paper.flops +
                                        R * s->cost.replicate_flops + C * s->cost.control_flops),
                     .disk_bytes = pools->disk_bytes,
                     .output_bytes = 512.0 * places * points,
                     .work_bytes = pools->held_bytes + fmax(stages, (double)pools->bytes)};
}

static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const probe_state *s = job->state;
    (void)err;
    if (s->by_position)
        *out = (es_cost){.flops = probe_positions_flops(job),
                         .work_bytes = probe_positions_bytes(job)};
    else
        price_limits(job, out);
    return ES_OK;
}

/* ---- layers ---- */

es_probe_spec probe_spec_at(const probe_state *s, int64_t place, const es_exec *exec)
{
    es_probe_spec spec = s->spec;
    spec.pool = s->pools.domains[place / s->layers].pool;
    spec.exec = exec;
    return spec;
}

es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err)
{
    probe_state *s = job->state;
    s->exec = *exec;
    if (s->probe && s->place == place && s->spec.draws_only == draws_only)
        return ES_OK;
    es_probe_close(s->probe);
    s->probe = NULL;
    s->place = place;
    s->spec.draws_only = draws_only;
    const es_probe_spec spec = probe_spec_at(s, place, &s->exec);
    const double *limit;
    ES_TRY(es_job_fetch(job, PROBE_LIMIT, place, exec, &limit, err));
    return es_probe_open(&spec, place % s->layers, limit, &s->probe, err);
}

/* ---- draws ---- */

static void pack_errors(const es_probe_cell *cell, double *out)
{
    out[PROBE_MEAN] = cell->mean_error;
    out[PROBE_COV] = cell->cov_error;
    out[PROBE_MAP] = cell->map_error;
}

/* What a draw or a window has left in s->cells and s->joint. */
static void pack_draw(const probe_state *s, double *out)
{
    const int64_t sizes = s->spec.n_sizes, points = s->heads * sizes;
    for (int64_t i = 0; i < points; i++, out += PROBE_COLUMNS) {
        const es_probe_focus *f = &s->cells[i].focus;
        pack_errors(&s->cells[i], out);
        out[PROBE_COHERENCE] = (double)NAN;
        out[PROBE_FEW] = s->cells[i].few;
        out[PROBE_ESS] = f->ess;
        out[PROBE_ESS_LOW] = f->ess_low;
        out[PROBE_TOP] = f->top;
        out[PROBE_TOP_HIGH] = f->top_high;
        out[PROBE_AFTER_WO] = s->cells[i].after_wo;
    }
    for (int64_t i = 0; i < sizes; i++, out += PROBE_COLUMNS) {
        for (int column = 0; column < PROBE_COLUMNS; column++)
            out[column] = (double)NAN;
        out[PROBE_MAP] = s->joint[i].map_error;
        out[PROBE_COHERENCE] = s->joint[i].coherence;
    }
}

static es_status run_draw(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    double *out = record;
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_replicate(s->probe, cell % R, s->cells, s->joint, err));
    pack_draw(s, out);
    return ES_OK;
}

static es_status run_window(es_job *job, int64_t cell, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_window(s->probe, cell % R, R, s->cells, s->joint, err));
    pack_draw(s, out);
    return ES_OK;
}

static es_status run_control(es_job *job, int64_t cell, const es_exec *exec, void *record,
                             es_error *err)
{
    double *out = record;
    const int64_t C = ((const probe_params *)job->params)->control;
    probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / C, true, exec, err));
    ES_TRY(es_probe_control(s->probe, cell % C, s->cells, err));
    for (int64_t i = 0; i < s->heads * s->spec.n_sizes; i++)
        pack_errors(&s->cells[i], out + i * PROBE_ERRORS);
    return ES_OK;
}

/* ---- all together ---- */

static const char *const draw_columns[PROBE_COLUMNS] = {
    "mean_error", "cov_error",     "map_error",  "coherence",      "map_error_exact_few",
    "ess_median", "ess_below_two", "top_median", "top_above_half", "map_error_after_wo"};

/* Draws of every layer: of tokens, or of windows. */
static es_status add_draws(es_job *job, bool windows, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const int64_t sizes = s->spec.n_sizes;
    const es_stage stage = {windows ? "window" : "draw",
                            .phase =
                                windows ? "attending over windows of the text" : "drawing tokens",
                            .noun = windows ? "windows" : "draws",
                            .cells = probe_places(s) * p->replicates,
                            .rows = s->heads * sizes + sizes,
                            .cols = PROBE_COLUMNS,
                            .columns = draw_columns,
                            .reports_progress = true,
                            .flops = s->cost.replicate_flops,
                            .run = windows ? run_window : run_draw};
    return es_job_stage(job, &stage, err);
}

static es_status add_control(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_stage stage = {"control",
                            .phase = "drawing Gaussian tokens",
                            .noun = "draws of Gaussian tokens",
                            .cells = probe_places(s) * p->control,
                            .rows = s->heads * s->spec.n_sizes,
                            .cols = PROBE_ERRORS,
                            .columns = draw_columns,
                            .reports_progress = true,
                            .flops = s->cost.control_flops,
                            .run = run_control};
    return es_job_stage(job, &stage, err);
}

static es_status add_stages(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    probe_state *s = job->state;
    ES_TRY(probe_add_limit(job, err));
    ES_TRY(add_draws(job, false, err));
    ES_TRY(add_control(job, err));
    ES_TRY(probe_add_exact(job, err));
    ES_TRY(probe_add_sections(job, err));
    ES_TRY(probe_add_paper(job, err));
    if (p->draw != PROBE_CONTIGUOUS)
        return ES_OK;
    s->window_stage = job->n_stages;
    return add_draws(job, true, err);
}

static es_status begin(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    if (s->by_position)
        return probe_positions_add(job, err);
    ES_TRY(es_pools_build(job, &s->pools, err));
    ES_TRY(ES_JOB_NEW_2D(job, s->cells, s->heads, s->spec.n_sizes, err));
    ES_TRY(ES_JOB_NEW(job, s->joint, s->spec.n_sizes, err));
    return add_stages(job, err);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    if (s->by_position)
        return probe_positions_put(job, answer, err);
    if (s->pools.config->causal)
        es_answer_qualify(answer, "Content alone, positions removed: ");
    ES_TRY(probe_summarise(job, answer, err));
    if (s->pools.config->causal)
        es_answer_add_finding(answer,
                              "Caution: heads do other things in the text, where positions count: "
                              "--look positions says which.");
    es_answer_qualify(answer, NULL);
    return ES_OK;
}

static void close_study(es_job *job)
{
    probe_state *s = job->state;
    probe_positions_close(&s->positions);
    es_probe_paper_close(s->paper);
    es_probe_close(s->probe);
    es_pools_close(&s->pools);
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 --pool-dir "
    "pool --out probe.run",
    "esscher probe --model models/minilm --text wiki.txt --pool 20000000 --stream --out probe.run",
    "esscher probe --model models/minilm --text wiki.txt --draw contiguous --n 64,256,1024,4096 "
    "--replicates 16",
    "esscher probe --model models/pebble --text wiki.txt --out pebble.run",
    NULL};

const es_study es_study_probe = {
    "probe",
    .summary = "how many tokens each head needs for a stable output, and its convergence rate",
    .group = ES_GROUP_MODEL,
    .main_options = "model text domain pool pool-dir n replicates control error",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and keeps what every layer is given: the pool, a sample of "
        "real tokens. Attention of some of them over the whole pool stands for infinitely many "
        "tokens; attention over n tokens drawn from the pool is measured against it, head by head, "
        "with rates, their intervals, and the pool's own error. Beside it: the exact error of n "
        "independent tokens by the weights that queries give the pool [proved], and how many "
        "tokens a head needs; horizons and the exponents they stand for [cited, heuristic]; how "
        "many tokens count, and what Gaussian tokens of the same covariance would do; entropy and "
        "sinks of attention in the text's own "
        "blocks; how independently the heads of a layer err.\n\n"
        "Tokens of a context are not drawn independently. --draw contiguous also attends over "
        "windows of the text and gives the design effect, the mean square error of windows over "
        "that of independent tokens, and how many independent tokens a context is worth; "
        "--shuffle tells what of it is the order of words, sentences or blocks.\n\n"
        "Of a causal model every place of a text is a context of n tokens, and that is what is "
        "looked at (--look positions): one pass over blocks of --block tokens gives, head by head "
        "and by n, how far outputs are off if a query sees only the last 64 keys and the first 4 "
        "(near, between, far), the weight on either, in how many queries one key holds the weight, "
        "scores by distance with content and rotation apart, the freezing that Gaussian scores "
        "would show [heuristic], and the effective context: the window that, with the first 4 "
        "keys, gives outputs within --error. --look limit asks about a causal model what the rest "
        "of this page is about, of its content alone: positions are removed, and so are the first "
        "4 tokens of every block, which absorb attention wherever a block begins.\n\n"
        "The pool is on disk; with --pool-dir it is kept, and building it can be killed and goes "
        "on. With --stream only the rows that are drawn are kept, and the model reads the text "
        "again for what looks at all of it: disk and memory hardly grow with the pool. Layers and "
        "heads count from 0.",
    .examples = examples,
    .params = params,
    .size = sizeof(probe_params),
    .takes = ES_TAKES_HEADS | ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(probe_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin,
    .summarise = summarise,
    .close = close_study};
