/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `sparse`: parameters, help and cost. What a run asks, and of what, is a
 * question and a source (question.h). */
#include "experiments/sparse/sparse.h"

#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"

static const char *const layouts[] = {"bhnd", "bnhd", NULL}; /* es_array_order */
static const char *const presets[] = {"default", "paper", NULL};

#define FIELD(member) .field = offsetof(sparse_params, member)
static const es_param params[] = {
    {"q", 0, ES_PARAM_FILE, "FILE",
     "queries of shape (m, d), (heads, m, d) or (batch, heads, m, d): a .npy file, or "
     "FILE.safetensors:TENSOR",
     FIELD(paths[0])},
    {"k", 0, ES_PARAM_FILE, "FILE",
     "keys, (n, d) and so on. Fewer heads than Q has, if they divide them, are shared by groups of "
     "query heads",
     FIELD(paths[1])},
    {"v", 0, ES_PARAM_FILE, "FILE", "values, (n, dv) and so on", FIELD(paths[2])},
    {"scale", 0, ES_PARAM_NUMBER, "B", "score scale b of exp(b q.k)", FIELD(scale), .min = 0.0,
     .max = 1e30, .default_note = "1/sqrt(d)"},
    {"causal", 0, ES_PARAM_FLAG, NULL, "a query sees the keys up to its own position",
     FIELD(causal)},
    {"positions", 0, ES_PARAM_FILE, "FILE",
     "positions of the queries among the keys, from 0: a .npy file of m whole numbers",
     FIELD(positions),
     .default_note = "query i at i if there are as many queries as keys; otherwise none"},
    {"layout", 0, ES_PARAM_CHOICE, "bhnd|bnhd",
     "order of the dimensions of --q, --k, --v: (batch, heads, n, d) or (batch, n, heads, d)",
     FIELD(layout), .choices = layouts, .default_note = "bhnd"},
    {"batch", 0, ES_PARAM_WHOLE, "B", "which of a batch of arrays of four dimensions, from 0",
     FIELD(batch), .min = 0, .max = 0x1p40, .default_note = "the only one"},
    {"bf16", 0, ES_PARAM_FLAG, NULL, "two-byte integers or raw bytes in .npy files are bfloat16",
     FIELD(bf16)},
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "instead of files: folder of a model, or org/name in the cache of the Hugging Face "
     "hub",
     FIELD(pool.model)},
    {"text", 0, ES_PARAM_FILES, "FILE", "text, UTF-8; may be given several times",
     FIELD(pool.texts)},
    {"context", 0, ES_PARAM_WHOLE, "N",
     "consecutive tokens of a context. An encoder may take more than its positions: in several "
     "blocks, in which positions repeat",
     FIELD(context), .min = 2, .max = 1e7, .unit = "tokens",
     .default_note = "the model's positions, at most 2048 of a decoder; fewer as for --contexts"},
    {"contexts", 0, ES_PARAM_WHOLE, "C",
     "number of contexts, evenly from all of the text; from its start if a context is several "
     "blocks. By default fewer if they take more than five minutes on two cores; then fewer "
     "queries, "
     "then shorter contexts",
     FIELD(contexts), .min = 1, .max = 4096, .default_value = "4"},
    {"repeat", 0, ES_PARAM_FLAG, NULL, "read a text that is too short again; the answer says so",
     FIELD(pool.repeat)},
    {"pool-dir", 0, ES_PARAM_OUTPUT, "DIR",
     "store the hidden states here, and read them from here if they exist", FIELD(pool.folder),
     .default_note = "a temporary folder"},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(pool.allow_trailing),
     .not_in_fingerprint = true},
    ES_INVALID_PARAM(sparse_params, pool.invalid),
    {"query-count", 0, ES_PARAM_WHOLE, "M",
     "queries of each context to measure, spread over it; of a decoder over its second half",
     FIELD(queries), .min = 1, .max = 65536,
     .default_note = "24 of a model, up to 256 of files, all of --preset paper"},
    {"layer", 0, ES_PARAM_COUNTS, "LIST", "layers of the model, from 0", FIELD(layers), .min = 0,
     .max = 65536, .increasing = true, .default_note = "all"},
    {"head", 0, ES_PARAM_COUNTS, "LIST", "heads, from 0", FIELD(heads), .min = 0, .max = 65536,
     .increasing = true, .default_note = "all"},
    ES_POLICY_PARAMS_WITH(
        sparse_params, policy,
        "random,stream,bigbird,bigbird+inverse,top,top-random,heavy,observe,limit",
        "1/32, 1/16, 1/8, 1/4 and 1/2 of the context; none for policies whose "
        "parts say how many"),
    ES_CACHE_PARAMS(sparse_params, cache),
    ES_PLAN_PARAM(sparse_params, plan),
    {"simulations", 0, ES_PARAM_WHOLE, "R",
     "simulations of each query for policies with random keys; 64 give a standard error of about "
     "2 % over 24 queries",
     FIELD(draws), .min = 2, .max = 1e6, .default_value = "64"},
    {"per-query", 0, ES_PARAM_FLAG, NULL, "add errors of single queries to the JSON",
     FIELD(per_query)},
    {"preset", 0, ES_PARAM_CHOICE, "default|paper",
     "paper: the BigBird experiments of Token Sample Complexity. One set of keys for all queries "
     "of a text of 4096 tokens: a window of half-width 500 to 1500 around its middle and 50 random "
     "tokens, or 1000 to 3000 i.i.d. tokens; errors of mean, covariance and outputs, and their "
     "rates. On an encoder's text or, without one, on normal tokens",
     FIELD(preset), .choices = presets, .default_value = "default"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "with --preset paper: draws of the random tokens",
     FIELD(replicates), .min = 2, .max = 4096, .default_value = "8"},
    {0}};

/* ---- cost ---- */

/* Returns the memory of the largest outcome of a plan that draws with replacement. */
static double draw_bytes(const sparse_state *s)
{
    double most = 0.0;
    for (int64_t i = 0; i < s->n_plans; i++)
        most = fmax(most, es_policy_draw_bytes(&s->specs[i]));
    return most;
}

/* Returns the cost of all stages, the pools and the input files. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const sparse_state *s = job->state;
    (void)err;
    *out = (es_cost){.begin_flops = s->pools.cost.flops, .disk_bytes = s->pools.cost.disk_bytes};
    out->flops = s->pools.cost.flops;
    for (int i = 0; i < job->n_stages; i++) {
        const es_stage *stage = &job->stages[i];
        out->flops += stage->flops * (double)stage->cells;
    }
    for (int i = 0; i < 3; i++)
        out->input_bytes += (double)s->info[i].bytes;
    const double rows = (double)s->n_places * (double)s->n_plans;
    const double per_query =
        s->p->per_query ? 256.0 * rows * (double)(s->contexts * s->queries) : 0.0;
    const double cell = es_policy_query_bytes(s->n, s->d, s->dv, s->group) + sparse_head_bytes(s) +
                        8.0 * (double)s->p->draws + draw_bytes(s);
    const double more = s->question->more_bytes ? s->question->more_bytes(job) : 0.0;
    if (s->question->all_bytes) { /* it makes no pool */
        *out = (es_cost){.flops = out->flops - s->pools.cost.flops,
                         .output_bytes = 4096.0 * (double)s->n_places,
                         .work_bytes = s->question->all_bytes(job)};
        return ES_OK;
    }
    out->output_bytes = 1024.0 * rows + per_query;
    out->work_bytes = s->pools.cost.held_bytes + (double)s->pools.cost.bytes + 512.0 * rows + 2e6;
    out->thread_bytes = cell + more;
    return ES_OK;
}

/* ---- the study ---- */

/* Adds what the run was about to the answer: source, context, queries, mask and scale. */
static void put_question(const es_job *job, es_answer *a)
{
    const sparse_state *s = job->state;
    es_answer_text(a, "source", s->source->name);
    es_answer_count(a, "context", s->n);
    es_answer_count(a, "contexts", s->contexts);
    es_answer_count(a, "queries", s->queries);
    es_answer_count(a, "keys_seen_least", s->seen[0]);
    es_answer_count(a, "keys_seen_most", s->seen[1]);
    es_answer_real(a, "keys_seen", s->mean_seen);
    es_answer_flag(a, "causal", s->causal);
    es_answer_real(a, "scale", s->scale);
}

/* Queries of a cell: few, so that an interrupted run loses little; more where a cell has to look at
 * all queries before it. */
enum { GROUP = 4, GROUP_BACK = 12 };

int64_t sparse_group(const sparse_state *s, int64_t queries)
{
    const int64_t most = sparse_looks_back(s) ? GROUP_BACK : GROUP;
    return queries < most ? queries : most;
}

/* Divides the queries into groups, one cell each. */
static void group_queries(sparse_state *s)
{
    s->group = sparse_group(s, s->queries);
    s->groups = (s->queries + s->group - 1) / s->group;
}

/* Opens the study: inputs, policies, then the stage of the chosen question. */
static es_status open_study(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    s->p = job->params;
    s->question = s->p->preset                   ? &sparse_paper
                  : es_cache_asked(&s->p->cache) ? &sparse_caches
                                                 : &sparse_policies;
    ES_TRY(sparse_caches_check(job, err));
    ES_TRY(sparse_inputs_open(job, err));
    ES_TRY(s->question->plan(job, err));
    group_queries(s);
    put_question(job, job->answer);
    return s->question->add_stage(job, err);
}

/* Prepares the inputs, if their source has something to do before the first cell. */
static es_status begin(es_job *job, es_error *err)
{
    const sparse_state *s = job->state;
    return s->source->begin ? s->source->begin(job, err) : ES_OK;
}

/* Summarises by the chosen question and adds cautions about the text. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    ES_TRY(s->question->summarise(job, answer, err));
    if (s->source != &sparse_blocks) /* which makes no pool, whose facts these are */
        es_pools_caution(&s->pools, answer);
    return es_answer_status(answer, err);
}

/* Frees inputs, drawn head, plan and pools. */
static void close_study(es_job *job)
{
    sparse_state *s = job->state;
    es_plan_free(s->file);
    for (int i = 0; i < 3; i++)
        es_array_free(&s->arrays[i]);
    es_head_data_free(&s->drawn);
    es_blocks_free(&s->text);
    es_pools_close(&s->pools);
}

static const char *const examples[] = {
    "esscher sparse --q Q.npy --k K.npy --v V.npy --scale 0.125",
    "esscher sparse --q Q.npy --k K.npy --v V.npy --causal --policy stream --sinks 4 --keys 64,256",
    "esscher sparse --q Q.npy --k K.npy --v V.npy --policy bigbird --window 10 --sinks 4 --random "
    "8",
    "esscher sparse --model MODEL --text FILE --keys 64 --policy top,random,bigbird+inverse",
    "esscher sparse --model MODEL --text FILE --plan model.plan.json",
    "esscher sparse --model MODEL --text FILE --context 4096 --layer 0 --head 0,5 --json",
    "esscher sparse --model models/pebble --text FILE --evict prompt --policy h2o,snapkv,stream "
    "--ratio 1/8,1/4",
    "esscher sparse --model models/pebble --text FILE --kv-type q8_0 q4_0 q4_0,q8_0",
    "esscher sparse --preset paper",
    NULL};

const es_study es_study_sparse = {
    "sparse",
    .summary = "which keys can be dropped: the exact error of every eviction policy",
    .group = ES_GROUP_MODEL,
    .main_options =
        "q k v causal model text context layer head policy keys plan evict ratio kv-type",
    .usage = "(--q Q.npy --k K.npy --v V.npy | --model MODEL --text FILE) [options]",
    .about =
        "Keeps some of the keys of every head, as each policy does, and reports how far its output "
        "is from that over all keys: simulated, and in closed form [proved]. Errors are in units "
        "of the "
        "spread, the weighted root mean square distance of the values from the output: an error of "
        "0.1 is a tenth of that. Then lists the best policy of each head, where it changes "
        "with the number of keys, and which policy averaging, selective and single-key heads "
        "prefer.\n\n"
        "Tables also give bias and variance, an approximation for many keys [heuristic], the "
        "attention weight that is kept, and the policy `limit`: no unbiased policy that keeps keys "
        "independently has a smaller error [heuristic].\n\n"
        "Queries, keys and values come from files, or from a model and a text: contexts of "
        "consecutive tokens, each head's own matrices. Queries of a decoder are those of the "
        "second half of each context: early ones see fewer keys than policies keep. Uncertainty "
        "is over contexts, or over the queries of a single one. docs/CACHE.md is the guide.\n\n"
        "Without --evict keys are chosen anew for every query (--evict ideal). A cache can hold "
        "windows, first keys and blocks; for all other policies this is a bound, because dropped "
        "keys come back. --evict prompt and --evict decode drop keys for good, as caches do "
        "(docs/CACHE.md): one kept set serves all queries after the prompt, and errors are "
        "measured at these. The error of one head's output is not the error of the model: depth, "
        "loss and downstream measure that.\n\n"
        "--kv-type rounds cached keys and values. It gives the measured error, a first-order "
        "formula for it [heuristic], and its price in keys: the share of keys whose loss at random "
        "has the same exact error [proved]. The formula is marked unreliable where rounding "
        "changes scores by more than 0.3, root mean square by weight.\n\n"
        "Policies that keep heavy keys (heavy, observe) use what the queries before this one "
        "attended to: those of the same context or file, by position.",
    .examples = examples,
    .params = params,
    .size = sizeof(sparse_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(sparse_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = summarise,
    .close = close_study};
