/* question.c : which keys may be dropped, under which policy, at what error: what is asked, the
 * cells, and the order of things. */
#include "experiments/sparse/question.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"

static const char *const layouts[] = {"bhnd", "bnhd", NULL}; /* measure_order */
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
     "where the queries stand among the keys, from 0: a .npy file of m whole numbers",
     FIELD(positions),
     .default_note = "query i at i if there are as many queries as keys; nowhere"},
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
     "consecutive tokens of the text that are a context. More than the model has positions: of "
     "consecutive blocks, in which positions repeat",
     FIELD(context), .min = 2, .max = 1e7, .unit = "tokens",
     .default_note = "the model's positions"},
    {"contexts", 0, ES_PARAM_WHOLE, "C",
     "how many of them, evenly from all of the text; one after the other if they are several "
     "blocks",
     FIELD(contexts), .min = 1, .max = 4096, .default_value = "4"},
    {"repeat", 0, ES_PARAM_FLAG, NULL, "a text that is too short is read again; the answer says so",
     FIELD(pool.repeat)},
    {"pool-dir", 0, ES_PARAM_OUTPUT, "DIR",
     "keep the hidden states here, and take them from here if they are there", FIELD(pool.folder),
     .default_note = "a temporary folder"},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(pool.allow_trailing),
     .not_in_fingerprint = true},
    ES_INVALID_PARAM(sparse_params, pool.invalid),
    {"query-count", 0, ES_PARAM_WHOLE, "M",
     "queries of each context that are asked about, spread over it; of a decoder over its second "
     "half",
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
    ES_PLAN_PARAM(sparse_params, plan),
    {"simulations", 0, ES_PARAM_WHOLE, "R",
     "simulations of each query, where chance decides; 64 make a standard error of about 2 % over "
     "24 queries",
     FIELD(draws), .min = 2, .max = 1e6, .default_value = "64"},
    {"per-query", 0, ES_PARAM_FLAG, NULL, "errors of single queries, too, in the JSON",
     FIELD(per_query)},
    {"preset", 0, ES_PARAM_CHOICE, "default|paper",
     "paper: the BigBird experiments of Token Sample Complexity. One set of keys for all queries "
     "of a text of 4096 tokens: a window of half-width 500 to 1500 around its middle and 50 random "
     "tokens, or 1000 to 3000 i.i.d. tokens; errors of mean, covariance and outputs, and their "
     "rates. On an encoder's text or, without one, on normal tokens",
     FIELD(preset), .choices = presets, .default_value = "default"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "of --preset paper: draws of the random tokens",
     FIELD(replicates), .min = 2, .max = 4096, .default_value = "8"},
    {0}};

/* ---- cells ---- */

static const char *const numbers[SPARSE_NUMBERS] = {
    "mse",  "mse_var", "exact", "bias2",     "variance", "first_order", "limit",
    "mass", "kept",    "empty", "corrected", "spread2",  "ess",         "n"};

/* A cell is a few queries of a head over a context. */
static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    double *out = record;
    const sparse_state *s = job->state;
    const int64_t part = cell % s->groups, unit = cell / s->groups;
    const int64_t context = unit % s->contexts, first = part * s->group;
    const int64_t left = s->queries - first, count = left < s->group ? left : s->group;
    const es_sparse_spec spec = {sparse_spec_of(s, unit / s->contexts, 0), .n_plans = s->n_plans,
                                 .draws = s->p->draws, .seed = job->seed, .exec = exec};
    es_arena arena = {.budget = exec->budget};
    es_sparse_head head;
    es_status status = sparse_head_of(job, unit / s->contexts, context, &arena, &head, err);
    if (status == ES_OK)
        status = es_sparse_measure(&spec, &head, s->which + context * s->queries + first, count,
                                   unit * s->queries + first, (es_sparse_cell *)(void *)out, err);
    es_arena_free(&arena);
    return status;
}

/* ---- what it takes ---- */

/* What attention would do in the time that one plan takes for one query. An integral has some
 * hundred nodes, each of which looks at every key, and at some tens of turns of a circle where
 * draws are without replacement; all in plain f64 loops, at a few per cent of the speed of
 * attention. The factors are measured, 0.9 to 1.1 of the time for 12 to 64 dimensions and 400 to
 * 20000 keys. */
static double plan_flops(const sparse_state *s, const es_policy_spec *spec)
{
    const unsigned needs = es_policy_inputs(spec->policy);
    const double look = (double)s->n * (double)(s->d + 2 * s->dv + 64);
    const double draws = (double)s->p->draws * (double)s->n * (double)s->dv;
    const bool turns =
        es_policy_parts(spec->policy) & ES_PART_REPLACEMENT && !spec->with_replacement;
    if (needs & ES_POLICY_MEASURED)
        return draws * (double)spec->keys;
    return look + (needs & ES_POLICY_CHANCE ? draws + look * (turns ? 24000.0 : 3600.0) : 0.0);
}

/* Specs there are: of plans, or of places where each has its own. */
static int64_t specs_of(const sparse_state *s) { return s->file ? s->n_places : s->n_plans; }

static bool looks_back(const sparse_state *s)
{
    for (int64_t i = 0; i < specs_of(s); i++)
        if (es_policy_inputs(s->specs[i].policy) & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED))
            return true;
    return false;
}

static double cell_flops(const sparse_state *s)
{
    double flops = 0.0;
    for (int64_t i = 0; i < specs_of(s); i++)
        flops += plan_flops(s, &s->specs[i]) * (double)s->group;
    if (s->file)
        flops /= (double)s->n_places; /* a cell has one of them */
    if (looks_back(s))
        flops += 4.0 * (double)s->m * (double)s->n * (double)s->d;
    return flops + sparse_head_flops(s);
}

static double draw_bytes(const sparse_state *s)
{
    double most = 0.0;
    for (int64_t i = 0; i < s->n_plans; i++)
        most = fmax(most, es_policy_draw_bytes(&s->specs[i]));
    return most;
}

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
    const double cell = es_sparse_bytes(s->n, s->d, s->dv, s->group) + sparse_head_bytes(s) +
                        8.0 * (double)s->p->draws + draw_bytes(s);
    const double paper =
        sparse_is_paper(job) ? es_sparse_replicate_bytes(s->n, s->d, s->dv, s->queries) : 0.0;
    out->output_bytes = 1024.0 * rows + per_query;
    out->work_bytes = s->pools.cost.held_bytes + (double)s->pools.cost.bytes + 512.0 * rows + 2e6;
    out->thread_bytes = cell + paper;
    return ES_OK;
}

/* ---- all of it ---- */

static void put_question(const es_job *job, es_answer *a)
{
    const sparse_state *s = job->state;
    es_answer_text(a, "source",
                   s->source == SPARSE_FILES   ? "files"
                   : s->source == SPARSE_MODEL ? "model"
                                               : "drawn");
    es_answer_count(a, "context", s->n);
    es_answer_count(a, "contexts", s->contexts);
    es_answer_count(a, "queries", s->queries);
    es_answer_count(a, "keys_seen_least", s->seen[0]);
    es_answer_count(a, "keys_seen_most", s->seen[1]);
    es_answer_real(a, "keys_seen", s->mean_seen);
    es_answer_flag(a, "causal", s->causal);
    es_answer_real(a, "scale", s->scale);
    if (!sparse_is_paper(job))
        es_answer_count(a, "draws", s->p->draws);
}

/* Queries of a cell: few, so that little is lost; more where a cell has to look at all queries. */
enum { GROUP = 4, GROUP_BACK = 12 };

static es_status add_queries(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    const int64_t most = looks_back(s) ? GROUP_BACK : GROUP;
    s->group = s->queries < most ? s->queries : most;
    s->groups = (s->queries + s->group - 1) / s->group;
    const es_stage stage = {"queries",
                            .phase = "keeping some of the keys",
                            .noun = "groups of queries",
                            .cells =
                                sparse_is_paper(job) ? 0 : s->n_places * s->contexts * s->groups,
                            .rows = s->group * s->n_plans,
                            .cols = SPARSE_NUMBERS,
                            .columns = numbers,
                            .one_thread_per_cell = true,
                            .flops = cell_flops(s),
                            .run = run_cell};
    return es_job_stage(job, &stage, err);
}

/* JSON finds the queries of a row by looking at those of all rows: beyond this it would take longer
 * than the run. */
static es_status check_per_query(const sparse_state *s, es_error *err)
{
    const double rows = (double)s->n_places * (double)s->n_plans;
    const double looks = rows * rows * (double)s->contexts * (double)s->queries, most = 2e8;
    if (!s->p->per_query || looks <= most)
        return ES_OK;
    return es_refuse(err, "sparse.options", "choose some: --layer, --head, --policy, --keys",
                     "--per-query of %.0f rows of %lld queries is too much for one answer", rows,
                     (long long)(s->contexts * s->queries));
}

static es_status open_study(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    s->p = job->params;
    ES_TRY(sparse_inputs_open(job, err));
    ES_TRY((sparse_is_paper(job) ? sparse_paper_plans : sparse_plans_read)(job, err));
    ES_TRY(check_per_query(s, err));
    put_question(job, job->answer);
    ES_TRY(add_queries(job, err));
    return sparse_add_paper(job, err);
}

static void close_study(es_job *job)
{
    sparse_state *s = job->state;
    es_plan_free(s->file);
    sparse_inputs_close(s);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    return sparse_is_paper(job) ? sparse_put_paper(job, answer, err)
                                : sparse_summarise(job, answer, err);
}

static const char *const examples[] = {
    "esscher sparse --q Q.npy --k K.npy --v V.npy --scale 0.125",
    "esscher sparse --q Q.npy --k K.npy --v V.npy --causal --policy stream --sinks 4 --keys 64,256",
    "esscher sparse --q Q.npy --k K.npy --v V.npy --policy bigbird --window 10 --sinks 4 --random "
    "8",
    "esscher sparse --model MODEL --text FILE --keys 64 --policy top,random,bigbird+inverse",
    "esscher sparse --model MODEL --text FILE --plan model.plan.json",
    "esscher sparse --model MODEL --text FILE --context 4096 --layer 0 --head 0,5 --json",
    "esscher sparse --preset paper",
    NULL};

const es_study es_study_sparse = {
    "sparse",
    .summary = "which keys can be dropped: the exact error of every eviction policy",
    .group = ES_GROUP_MODEL,
    .main_options = "q k v causal model text context layer head policy keys plan",
    .usage = "(--q Q.npy --k K.npy --v V.npy | --model MODEL --text FILE) [options]",
    .about =
        "Keeps some of the keys of every head, as each policy would, and says how far outputs "
        "are off: mean square error as measured over draws, beside its exact value [proved], "
        "which is a number where a policy leaves nothing to chance and one integral where it "
        "does; how much of it is bias and how much variance; the form for many keys "
        "[heuristic]; the mass that is kept; and the limit [heuristic] that no unbiased policy "
        "which keeps keys independently falls below. Errors are given in spreads: the root "
        "mean square distance of values from the output, by their weights. Then the best "
        "policy of each head, where it changes with the number of keys, and how many heads of "
        "which regime want what.\n\n"
        "Queries, keys and values come from files, or from a model and a text: contexts of "
        "consecutive tokens, each head's own matrices. Queries of a decoder are those of the "
        "second half of each context: early ones see fewer keys than policies keep. Uncertainty "
        "is over contexts, or over the queries of a single one. docs/SPARSE.md is the guide.\n\n"
        "Keys are chosen anew for every query. Windows, first keys and blocks are what a cache can "
        "hold; all other policies are ideals here, because keys that were dropped come back. An "
        "error of one head's output is not an error of the model: depth, loss and downstream "
        "measure that.\n\n"
        "Policies that keep heavy keys (heavy, observe) know what the queries before this one "
        "attended to: those of the same context or file, by position.",
    .examples = examples,
    .params = params,
    .size = sizeof(sparse_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "rows",
    .state = sizeof(sparse_state),
    .open = open_study,
    .cost = cost,
    .begin = sparse_inputs_begin,
    .summarise = summarise,
    .close = close_study};
