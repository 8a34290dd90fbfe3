/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : every head of a model on real text: parameters, help, and the choice between the
 * questions: limits, positions and far fields. */
#include "experiments/probe/question.h"

#include "base/error.h"

const char *const probe_draws[] = {"with", "without", "contiguous", NULL};
const char *const probe_protocols[] = {"default", "paper", NULL};
static const char *const look_choices[] = {"positions", "limit", "far", "content", NULL};
enum { LOOK_POSITIONS, LOOK_LIMITS, LOOK_FAR, LOOK_CONTENT, LOOKS };

#define FIELD(member) .field = offsetof(probe_params, member)
static const es_param params[] = {
    ES_POOL_PARAMS(probe_params, pool),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens to draw", FIELD(sizes), .min = 2,
     .max = 1e7, .increasing = true,
     .default_note = "100..10000*7, at most half of the pool, or a tenth of it if contiguous",
     .unit = "tokens"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws", FIELD(replicates), .min = 2,
     .max = 65536, .default_value = "8"},
    {"control", 0, ES_PARAM_WHOLE, "R",
     "draws of Gaussian tokens of the same covariance, for comparison; 0: none", FIELD(control),
     .min = 0, .max = 65536, .default_value = "4"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "tokens of the pool whose outputs are compared",
     FIELD(queries), .min = 2, .max = 1e6, .default_value = "1024", .unit = "tokens",
     .renamed_from = "queries"},
    {"exact-queries", 0, ES_PARAM_WHOLE, "M",
     "number of these queries whose error for independent tokens is computed exactly", FIELD(exact),
     .min = 2, .max = 1e6, .default_note = "64, or 16 with --stream", .unit = "tokens"},
    {"stream", 0, ES_PARAM_FLAG, NULL,
     "store only the rows of the pool that draws and queries use, and run the model again for the "
     "rest: more time, little disk. Changes the defaults of --exact-queries to 16 and of --store "
     "to f32; with equal values the numbers are the same",
     FIELD(pool.stream), .not_in_fingerprint = true},
    {"draw", 0, ES_PARAM_CHOICE, "HOW",
     "draw tokens with or without replacement; contiguous: windows of the text and tokens with "
     "replacement, with --blocks-from start by default",
     FIELD(draw), .choices = probe_draws, .default_value = "with"},
    {"protocol", 0, ES_PARAM_CHOICE, "default|paper",
     "paper: add experiment 2 of Token Sample Complexity: n tokens of a passage attend over each "
     "other, heads concatenated; --n is then 64..384*10 by default",
     FIELD(paper), .choices = probe_protocols, .default_value = "default"},
    {"look", 0, ES_PARAM_CHOICE, "WHAT",
     "what to measure: positions, limit, far or content. positions: heads of a causal model as "
     "their context grows; limit: n tokens compared with the limit of the pool or, in a causal "
     "model, "
     "with the limit of many independent distant keys; far: these keys of a causal model compared "
     "with independent draws, too; content: a causal model without positions and the first 4 "
     "tokens of every block",
     FIELD(look), .choices = look_choices,
     .default_note = "positions if the model is causal, else limit"},
    {"error", 0, ES_PARAM_NUMBER, "E",
     "relative error of outputs that defines the effective context", FIELD(error), .min = 1e-4,
     .max = 10, .default_value = "0.1"},
    {"forecast", 0, ES_PARAM_COUNTS, "GRID",
     "context lengths that are not run, up to four times --block: predicts what the heads of a "
     "causal model do there, as if far keys were independent draws",
     FIELD(forecast), .min = 2, .max = 1e7, .increasing = true, .unit = "tokens"},
    {"verify", 0, ES_PARAM_FLAG, NULL,
     "with --forecast: run these contexts as well, and print them beside the forecast",
     FIELD(verify)},
    {"other-text", 0, ES_PARAM_FILE, "FILE", "for comparison, draw far keys from this text, too",
     FIELD(other_text)},
    {"sinks", 0, ES_PARAM_WHOLE, "N", "first keys of a block that do not count as far",
     FIELD(sinks), .min = 0, .max = 1e6, .default_value = "4", .unit = "keys"},
    {"near", 0, ES_PARAM_WHOLE, "N", "last keys before a query that do not count as far",
     FIELD(near), .min = 1, .max = 1e6, .default_value = "64", .unit = "keys"},
    {0}};

/* ---- the question ---- */

enum {
    OF_POSITIONS = 1 << LOOK_POSITIONS,
    OF_LIMITS = 1 << LOOK_LIMITS, /* of models that are not causal */
    OF_FAR = 1 << LOOK_FAR,
    OF_CONTENT = 1 << LOOK_CONTENT,
    OF_FAR_LIMITS = 1 << LOOKS, /* of causal ones */
    OF_POOLS = OF_LIMITS | OF_CONTENT
};

/* Parameters that not all looks have, and looks in which they have an effect on forecasts only. */
static const struct {
    const char *name;
    unsigned looks, forecasts;
} belongs[] = {{"n", OF_POOLS | OF_FAR | OF_FAR_LIMITS},
               {"replicates", OF_POOLS},
               {"control", OF_POOLS},
               {"query-count", OF_POOLS},
               {"stream", OF_POOLS},
               {"draw", OF_POOLS},
               {"protocol", OF_POOLS},
               {"exact-queries", OF_POOLS},
               {"error", OF_POSITIONS | OF_FAR, OF_FAR},
               {"forecast", OF_POSITIONS | OF_FAR},
               {"verify", OF_POSITIONS | OF_FAR, OF_POSITIONS},
               {"other-text", OF_FAR},
               {"sinks", OF_POSITIONS | OF_FAR | OF_FAR_LIMITS, OF_POSITIONS},
               {"near", OF_POSITIONS | OF_FAR | OF_FAR_LIMITS, OF_POSITIONS}};

/* Returns a look that has a parameter, for this kind of model. */
static int look_with(unsigned looks, bool causal)
{
    int look = 0;
    if (causal && looks & OF_FAR_LIMITS)
        return LOOK_LIMITS;
    while (!(looks >> look & 1) || (causal && look == LOOK_LIMITS))
        look++;
    return look;
}

/* Refuses parameters of other looks, which would be silently ignored. */
static es_status refuse_others(const es_job *job, const probe_params *p, bool causal, es_error *err)
{
    static const char *const hints[LOOKS] = {
        "add --look positions, or leave it out", "add --look limit, or leave it out",
        "add --look far, or leave it out", "add --look content, or leave it out"};
    const int look = p->look == LOOK_LIMITS && causal ? LOOKS : p->look;
    for (size_t i = 0; i < sizeof belongs / sizeof *belongs; i++) {
        if (!es_params_given(job->given, belongs[i].name))
            continue;
        if (belongs[i].forecasts >> look & 1 && !p->forecast.count)
            return es_refuse(err, "probe.look", "add --forecast N, or leave it out",
                             "--%s has no effect without --forecast", belongs[i].name);
        if (!(belongs[i].looks >> look & 1))
            return es_refuse(err, "probe.look", hints[look_with(belongs[i].looks, causal)],
                             "--%s has no effect with --look %s", belongs[i].name,
                             look_choices[p->look]);
    }
    return ES_OK;
}

/* Returns the question that a look asks about a model. */
static const probe_question *question_of(int look, bool causal)
{
    return look == LOOK_POSITIONS                                ? &probe_positions_question
           : look == LOOK_FAR || (look == LOOK_LIMITS && causal) ? &probe_far_question
                                                                 : &probe_limits_question;
}

/* Chooses the question. Positions are what matters in a causal model: without them hardly a head
 * does what it does in the text. Other models have no order of keys. */
static es_status choose(es_job *job, const probe_params *p, probe_state *s, es_error *err)
{
    const bool causal = s->pools.config->causal;
    if (p->look >= 0 && p->look != LOOK_LIMITS && !causal)
        return es_refuse(
            err, "probe.look", "--look limit",
            "tokens of this model see their whole block: it has no positions to compare");
    if (p->look < 0)
        ES_TRY(es_params_set(job->given, "look",
                             look_choices[causal ? LOOK_POSITIONS : LOOK_LIMITS], err));
    s->question = question_of(p->look, causal);
    s->also_far = p->look == LOOK_POSITIONS && p->forecast.count > 0;
    s->limits_only = p->look == LOOK_LIMITS && causal;
    es_answer_text(job->answer, "look", look_choices[p->look]);
    return refuse_others(job, p, causal, err);
}

/* Returns whether the question is about blocks of a decoder: asked for, or by default. */
static bool asks_positions(const probe_params *p)
{
    char folder[4096];
    es_model_config config;
    if (p->look >= 0 && p->look != LOOK_LIMITS)
        return p->look != LOOK_CONTENT;
    return p->pool.model && es_model_locate(p->pool.model, folder, sizeof folder, NULL) == ES_OK &&
           es_model_config_load(folder, &config, NULL) == ES_OK && config.causal;
}

/* Opens model and texts, chooses the question, and opens it. */
static es_status open_study(es_job *job, es_error *err)
{
    probe_params *p = job->params;
    probe_state *s = job->state;
    s->pools.scratch.fd = -1;
    s->window_stage = -1;
    if (p->control == 1)
        return es_refuse(err, "probe.control", "0, or 2 and more",
                         "one draw of Gaussian tokens has no standard error");
    p->pool.skip = p->look == LOOK_CONTENT ? ES_POSITIONS_SINKS : 0;
    p->pool.streams = true;
    p->pool.work = asks_positions(p) ? probe_positions_question.work : probe_limits_question.work;
    if (p->draw == PROBE_CONTIGUOUS && !es_params_given(job->given, "blocks-from"))
        p->pool.from = ES_BLOCKS_START; /* a window may be longer than a block */
    ES_TRY(es_pools_open(job, &p->pool, &s->pools, err));
    ES_TRY(choose(job, p, s, err));
    s->layers = s->pools.config->layers;
    s->heads = s->pools.config->heads;
    ES_TRY(s->question->open(job, err));
    return s->also_far ? probe_far_open(job, err) : ES_OK;
}

/* Returns the cost of the chosen question. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const probe_state *s = job->state;
    (void)err;
    s->question->cost(job, out);
    if (s->also_far)
        probe_far_price(job, out);
    return ES_OK;
}

/* Prepares the chosen question. */
static es_status begin(es_job *job, es_error *err)
{
    const probe_state *s = job->state;
    ES_TRY(s->question->begin(job, err));
    return s->also_far ? probe_far_begin(job, err) : ES_OK;
}

/* Summarises the chosen question. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    ES_TRY(s->question->summarise(job, answer, err));
    return s->also_far ? probe_far_summarise(job, answer, err) : ES_OK;
}

/* Frees pools, the layer in use and what the questions allocated. */
static void close_study(es_job *job)
{
    probe_state *s = job->state;
    probe_far_close(&s->far);
    probe_positions_close(&s->positions);
    es_probe_paper_close(s->paper);
    es_probe_close(s->probe);
    es_pools_close(&s->pools);
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher probe --model models/pebble --text wiki.txt --out pebble.run",
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 --pool-dir "
    "pool --out probe.run",
    "esscher probe --model models/minilm --text wiki.txt --pool 20000000 --stream --out probe.run",
    "esscher probe --model models/minilm --text wiki.txt --draw contiguous --n 64,256,1024,4096 "
    "--replicates 16",
    "esscher probe --model models/pebble --text wiki.txt --look limit",
    "esscher probe --model models/pebble --text wiki.txt --look far --block 512 --forecast 1024 "
    "--verify",
    NULL};

const es_study es_study_probe = {
    "probe",
    .summary = "which keys each head needs, recent or distant ones, and how many",
    .group = ES_GROUP_MODEL,
    .main_options = "model text domain look block pool pool-dir error n replicates control",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and measures which tokens the outputs of every head depend "
        "on. For a decoder (--look positions): whether the last 64 keys and the first 4 suffice, "
        "how long a window a head needs, and whether it grows with the context. For an encoder "
        "(--look limit): how many tokens a head needs until its outputs hardly change, and how "
        "fast they converge.\n\n"
        "--look positions makes one pass over blocks of --block tokens: in a causal model every "
        "position is a context of n tokens. By head and by n it gives the error of the outputs if "
        "a query sees only the last 64 keys and the first 4 (near, between, far), the weight on "
        "either, and the share of queries with one key of most weight. It also gives scores by "
        "distance with content and rotation separated, whether Gaussian scores of that variance "
        "would leave most weight to one key [heuristic], and the effective context: the window "
        "that, with the first 4 keys, gives outputs within --error.\n\n"
        "--look limit of an encoder stores the inputs of every layer: the pool, a sample of real "
        "tokens. Some of "
        "them serve as queries. Their attention over the whole pool approximates the limit of "
        "infinitely many tokens; their attention over n tokens drawn from the pool is compared "
        "with it, head by head, with rates, intervals and the error of the pool itself.\n\n"
        "Its tables also give, for every head, the exact error of n independent tokens, from the "
        "weights of the queries on the pool [proved], and the number of tokens it needs. They give "
        "the horizon H, which measures how sharp attention is, and the convergence rates that "
        "follow from it [cited, heuristic]; the number of tokens that share the weight; and what "
        "Gaussian tokens of the same covariance would do. They also give entropy and sinks in the "
        "text's own blocks, and whether the errors of a layer's heads are independent.\n\n"
        "Tokens of a context are not drawn independently. --draw contiguous also attends over "
        "windows of the text. It gives the design effect, the mean square error of windows over "
        "that of independent tokens, and how many independent tokens a context is worth. --shuffle "
        "shows which part of that is the order of words, sentences or blocks.\n\n"
        "--look limit of a causal model treats the first 4 keys and the last 64 as they are and "
        "all keys between them as independent draws from other blocks, at the same distances. It "
        "gives the exact error of a head against the limit of many such keys [proved for "
        "independent keys], its rate, the number of tokens it needs, what Gaussian keys would do, "
        "and the error of real contexts beside it. --look far also tests whether independent keys "
        "change a head and, with --forecast, says what heads do at longer contexts. --look content "
        "asks an encoder's questions about a causal model, without positions and the first 4 "
        "tokens of every block, which absorb attention wherever a block begins.\n\n"
        "The pool is on disk. --pool-dir keeps it; building it can be killed and continued. "
        "--stream stores only the rows that are drawn and runs the model again for the rest, so "
        "that disk and memory hardly grow with the pool. Layers and heads count from 0.",
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
