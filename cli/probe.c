/* esscher probe : every head of a BERT checkpoint on real text. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "draft.h"
#include "grid.h"
#include "run_file.h"
#include "talk.h"

typedef struct probe_options {
    const char *model, *pool_dir;
    cli_strings texts, domains;
    int64_t pool, replicates, queries;
    cli_grid sizes;
    int special, store, draw;
    bool repeat;
    cli_run_options run;
} probe_options;

static const char *const special_choices[] = {"keep", "drop", NULL};
static const char *const store_choices[] = {"f32", "f16", NULL};
static const char *const draw_choices[] = {"with", "without", NULL};

static const probe_options defaults = {.replicates = 8, .queries = 1024, .store = -1};

static const cli_option options[] = {
    {"model", 'm', CLI_STRING, "MODEL",
     "folder of a BERT checkpoint (config.json, model.safetensors, tokenizer), or org/name in the "
     "cache of the Hugging Face hub",
     .field = offsetof(probe_options, model)},
    {"text", 0, CLI_STRINGS, "FILE", "text, UTF-8; may be given several times",
     .field = offsetof(probe_options, texts)},
    {"domain", 0, CLI_STRINGS, "NAME=FILE",
     "text of a domain, instead of --text; once or more for each. Domains are probed one by one "
     "and compared with the first",
     .field = offsetof(probe_options, domains)},
    {"pool", 0, CLI_WHOLE, "N",
     "tokens of text, specials included, of each domain (default: all there are, or what the "
     "shortest domain has, at most 100000)",
     .field = offsetof(probe_options, pool), .min = 16, .max = 1e9},
    {"n", 0, CLI_COUNTS, "GRID",
     "numbers of tokens that are drawn (default: 100..10000*7, at most half of the pool)",
     .field = offsetof(probe_options, sizes), .min = 2, .max = 1e7, .increasing = true},
    {"replicates", 0, CLI_WHOLE, "R", "independent draws (default: 8)",
     .field = offsetof(probe_options, replicates), .min = 2, .max = 65536},
    {"queries", 0, CLI_WHOLE, "M", "tokens of the pool whose outputs are compared (default: 1024)",
     .field = offsetof(probe_options, queries), .min = 2, .max = 1e6},
    {"special", 0, CLI_CHOICE, "WHAT",
     "keep the rows of [CLS] and [SEP] in the pool, or drop them (default: keep)",
     .field = offsetof(probe_options, special), .choices = special_choices},
    {"draw", 0, CLI_CHOICE, "HOW", "tokens with or without replacement (default: with)",
     .field = offsetof(probe_options, draw), .choices = draw_choices},
    {"repeat", 0, CLI_FLAG, NULL, "a text that is too short is read again; the answer says so",
     .field = offsetof(probe_options, repeat)},
    {"store", 0, CLI_CHOICE, "f32|f16",
     "numbers of the pool on disk (default: f32, or f16 where that takes more than 4 GiB)",
     .field = offsetof(probe_options, store), .choices = store_choices},
    {"pool-dir", 0, CLI_STRING, "DIR",
     "keep the pool here, and take it from here if it is there (default: a temporary folder)",
     .field = offsetof(probe_options, pool_dir), .aside = true},
    CLI_RUN_OPTIONS(probe_options, run),
    {0}};

static const cli_table *const views[] = {&cli_cost_table,
                                         &probe_layers_table,
                                         &probe_heads_table,
                                         &probe_context_table,
                                         &probe_domains_table,
                                         &probe_rows_table,
                                         NULL};

/* ---- what was asked ---- */

static es_status fail_options(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "probe.options", hint, "%s", message);
}

/* A name that is a folder's, too, for the domain's pool. */
static bool is_name(const char *text, size_t length)
{
    return length > 0 && text[0] != '.' && !memchr(text, '/', length);
}

static es_status add_domain(probe_job *job, const char *name, const char *file, es_error *err)
{
    for (int64_t d = 0; d < job->n_domains; d++)
        if (strcmp(job->domains[d].name, name) == 0) {
            cli_strings *texts = &job->domains[d].texts;
            if (texts->count == CLI_MOST_STRINGS)
                return fail_options("put them together", "too many files of one domain", err);
            texts->at[texts->count++] = file;
            return ES_OK;
        }
    job->domains[job->n_domains++] = (probe_domain){.name = name, .texts = {1, {file}}};
    return ES_OK;
}

/* Either texts, which are one domain, or domains with their files. */
static es_status read_domains(probe_job *job, const probe_options *o, char **names, es_error *err)
{
    if (!o->texts.count == !o->domains.count)
        return fail_options(
            "--text FILE, or --domain NAME=FILE for each",
            o->texts.count ? "--text and --domain exclude each other" : "there is no text", err);
    for (int64_t i = 0; i < o->texts.count; i++) {
        const es_status status = add_domain(job, "text", o->texts.at[i], err);
        if (status != ES_OK)
            return status;
    }
    for (int64_t i = 0; i < o->domains.count; i++) {
        const char *equals = strchr(o->domains.at[i], '=');
        if (!equals || !equals[1] ||
            !is_name(o->domains.at[i], (size_t)(equals - o->domains.at[i])))
            return fail_options("--domain poems=poems.txt",
                                "a domain is NAME=FILE, with no / in NAME and no . before it", err);
        const size_t length = (size_t)(equals - o->domains.at[i]);
        names[i] = cli_alloc(length + 1);
        memcpy(names[i], o->domains.at[i], length);
        names[i][length] = '\0';
        const es_status status = add_domain(job, names[i], equals + 1, err);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

static void default_sizes(probe_options *o, int64_t tokens)
{
    const cli_grid_rule rule = {.min = 2, .max = 1e9, .increasing = true};
    char text[64], why[128];
    if (o->sizes.count)
        return;
    const int64_t most = tokens / 2 < 10000 ? tokens / 2 : 10000;
    snprintf(text, sizeof text, "%d..%lld*7", most > 200 ? 100 : 4,
             (long long)(most < 16 ? 16 : most));
    cli_grid_parse(text, true, &rule, &o->sizes, why, (int)sizeof why);
}

/* ---- pools ---- */

static es_pool_spec pool_spec(const probe_job *job, const probe_options *o, const probe_domain *d,
                              const es_tokenizer *tokenizer)
{
    return (es_pool_spec){.model = job->model,
                          .tokenizer = tokenizer,
                          .texts = d->texts.at,
                          .n_texts = d->texts.count,
                          .tokens = o->pool,
                          .repeat = o->repeat,
                          .drop_specials = o->special == 1,
                          .store = o->store == 1 ? ES_POOL_F16 : ES_POOL_F32,
                          .folder = d->folder};
}

/* What the pools of all domains take, and the tokens of the smallest. */
static es_status add_costs(const probe_job *job, const probe_options *o,
                           const es_tokenizer *tokenizer, es_pool_cost *total, es_error *err)
{
    *total = (es_pool_cost){.tokens = INT64_MAX};
    for (int64_t d = 0; d < job->n_domains; d++) {
        es_pool_cost cost;
        const es_pool_spec spec = pool_spec(job, o, &job->domains[d], tokenizer);
        const es_status status = es_pool_cost_of(&spec, &job->session->exec, &cost, err);
        if (status != ES_OK)
            return status;
        total->tokens = cost.tokens < total->tokens ? cost.tokens : total->tokens;
        total->flops += cost.flops;
        total->disk_bytes += cost.disk_bytes;
        total->bytes = cost.bytes > total->bytes ? cost.bytes : total->bytes;
    }
    return ES_OK;
}

/* Sizes of the pools, which decide the defaults that are still open. */
static es_status size_pools(probe_job *job, probe_options *o, const es_tokenizer *tokenizer,
                            es_pool_cost *total, es_error *err)
{
    const int64_t most = 100000;
    es_status status = add_costs(job, o, tokenizer, total, err);
    /* every domain the same number: what the shortest has */
    if (status == ES_OK && !o->pool && (job->n_domains > 1 || total->tokens > most)) {
        o->pool = total->tokens < most ? total->tokens : most;
        status = add_costs(job, o, tokenizer, total, err);
    }
    if (status != ES_OK)
        return status;
    if (o->store < 0) {
        o->store = total->disk_bytes > 0x1p32;
        total->disk_bytes /= o->store ? 2.0 : 1.0;
    }
    return ES_OK;
}

static es_status name_folders(probe_job *job, const probe_options *o, char *temporary, size_t size,
                              es_error *err)
{
    const char *base = o->pool_dir;
    temporary[0] = '\0';
    if (!base) {
        const char *where = getenv("TMPDIR");
        snprintf(temporary, size, "%s/esscher-pool-XXXXXX", where && *where ? where : "/tmp");
        if (!mkdtemp(temporary)) {
            temporary[0] = '\0';
            return cli_fail(err, ES_E_IO, where ? where : "/tmp", "probe.folder",
                            "name a folder with --pool-dir", "cannot make a temporary folder");
        }
        base = temporary;
    } else if (job->n_domains > 1) {
        mkdir(base, 0777); /* es_pool_build() complains if it is not there */
    }
    for (int64_t d = 0; d < job->n_domains; d++) {
        probe_domain *domain = &job->domains[d];
        const int used =
            job->n_domains > 1 || temporary[0]
                ? snprintf(domain->folder, sizeof domain->folder, "%s/%s", base, domain->name)
                : snprintf(domain->folder, sizeof domain->folder, "%s", base);
        if (used >= (int)sizeof domain->folder)
            return fail_options("a shorter one", "the name of the pool's folder is too long", err);
    }
    return ES_OK;
}

/* What es_pool_build() may have left in a temporary folder. */
static void remove_pools(const probe_job *job, const char *temporary)
{
    char path[4224];
    for (int64_t d = 0; temporary[0] && d < job->n_domains; d++) {
        for (int64_t l = 0; l < job->config->layers; l++) {
            snprintf(path, sizeof path, "%s/layer-%lld.npy", job->domains[d].folder, (long long)l);
            unlink(path);
        }
        static const char *const files[] = {"pool.run", "pool.run.lock", "pool.run-journal"};
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            snprintf(path, sizeof path, "%s/%s", job->domains[d].folder, files[i]);
            unlink(path);
        }
        rmdir(job->domains[d].folder);
    }
    if (temporary[0])
        rmdir(temporary);
}

static es_status build_pools(probe_job *job, const probe_options *o, const es_tokenizer *tokenizer,
                             es_error *err)
{
    es_status status = ES_OK;
    job->session->progress.parts = (double)job->n_domains;
    for (int64_t d = 0; d < job->n_domains && status == ES_OK; d++) {
        const es_pool_spec spec = pool_spec(job, o, &job->domains[d], tokenizer);
        job->session->progress.part = (double)d;
        status = es_pool_build(&spec, &job->session->exec, err);
        if (status == ES_OK)
            status = es_pool_open(spec.folder, &job->domains[d].pool, err);
    }
    return status;
}

/* ---- measuring ---- */

enum { LIMIT, REPLICATE, JOINT, STAGES };

typedef struct probe_stages {
    const cli_run_file *file;
    int64_t at[STAGES];
} probe_stages;

static es_probe_spec probe_spec(const probe_job *job, int64_t domain)
{
    return (es_probe_spec){.model = job->model,
                           .pool = job->domains[domain].pool,
                           .sizes = job->sizes,
                           .n_sizes = job->n_sizes,
                           .queries = job->queries,
                           .without_replacement = job->without_replacement,
                           .seed = job->session->common.seed,
                           .exec = &job->session->exec};
}

static es_status open_stages(const probe_job *job, cli_run_file *file, probe_stages *s,
                             es_error *err)
{
    static const char *const number[] = {"number"};
    static const char *const errors[] = {"mean_error", "cov_error", "map_error"};
    static const char *const joint[] = {"map_error", "coherence"};
    const es_probe_spec spec = probe_spec(job, 0);
    s->file = file;
    es_status status =
        cli_run_stage(file, "limit", es_probe_numbers(&spec), 1, number, &s->at[LIMIT], err);
    if (status == ES_OK)
        status = cli_run_stage(file, "replicate", job->config->heads * job->n_sizes, 3, errors,
                               &s->at[REPLICATE], err);
    if (status == ES_OK)
        status = cli_run_stage(file, "joint", job->n_sizes, 2, joint, &s->at[JOINT], err);
    return status;
}

/* The layer's limit, from the run file or from the pool. */
static es_status open_layer(const probe_job *job, const probe_stages *s, int64_t domain,
                            int64_t layer, es_probe **out, es_error *err)
{
    const es_probe_spec spec = probe_spec(job, domain);
    const int64_t cell = domain * job->config->layers + layer;
    double *numbers = cli_alloc_array((size_t)es_probe_numbers(&spec), sizeof *numbers);
    bool done;
    es_status status = cli_run_find(s->file, s->at[LIMIT], cell, numbers, &done, err);
    if (status == ES_OK && !done) {
        status = es_probe_measure(&spec, layer, numbers, err);
        if (status == ES_OK)
            status = cli_run_keep(s->file, s->at[LIMIT], cell, numbers, err);
    }
    if (status == ES_OK)
        status = es_probe_open(&spec, layer, numbers, out, err);
    free(numbers);
    return status;
}

static es_status replicate(const probe_stages *s, const es_probe *probe, int64_t cell, int64_t r,
                           es_probe_cell *cells, es_probe_joint *joint, es_error *err)
{
    bool done, joined;
    es_status status = cli_run_find(s->file, s->at[REPLICATE], cell, (double *)cells, &done, err);
    if (status == ES_OK)
        status = cli_run_find(s->file, s->at[JOINT], cell, (double *)joint, &joined, err);
    if (status != ES_OK || (done && joined))
        return status;
    status = es_probe_replicate(probe, r, cells, joint, err);
    if (status == ES_OK)
        status = cli_run_keep(s->file, s->at[REPLICATE], cell, (const double *)cells, err);
    if (status == ES_OK)
        status = cli_run_keep(s->file, s->at[JOINT], cell, (const double *)joint, err);
    return status;
}

static es_status probe_one(probe_job *job, const probe_stages *s, int64_t domain, int64_t layer,
                           es_error *err)
{
    const int64_t R = job->replicates, heads = job->config->heads;
    const int64_t place = domain * job->config->layers + layer;
    cli_progress *progress = &job->session->progress;
    es_probe *probe = NULL;
    int64_t finished = 0;
    progress->part = (double)(place * (R + 1));
    es_status status = open_layer(job, s, domain, layer, &probe, err);
    es_probe_cell *cells = cli_alloc_array((size_t)(R * heads * job->n_sizes), sizeof *cells);
    es_probe_joint *joint = cli_alloc_array((size_t)(R * job->n_sizes), sizeof *joint);
    for (int64_t r = 0; r < R && status == ES_OK; r++) {
        progress->part = (double)(place * (R + 1) + r + 1);
        status = replicate(s, probe, place * R + r, r, cells + r * heads * job->n_sizes,
                           joint + r * job->n_sizes, err);
        finished += status == ES_OK;
        if (status == ES_OK && cli_progress_tell(progress, 1.0, 1.0))
            status = ES_E_INTERRUPTED;
    }
    if (status == ES_E_INTERRUPTED)
        status = cli_run_interrupted(s->file, place * R + finished,
                                     job->n_domains * job->config->layers * R, "draws", err);
    if (status == ES_OK)
        status = probe_answer_layer(job, &(probe_layer){probe, domain, layer, cells, joint}, err);
    free(cells);
    free(joint);
    es_probe_close(probe);
    return status;
}

static es_status probe_all(probe_job *job, const probe_options *o, es_error *err)
{
    cli_run_file file;
    probe_stages stages;
    json_t *answer = job->session->answer;
    es_status status = cli_run_open(job->session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = open_stages(job, &file, &stages, err);
    job->session->progress.parts =
        (double)(job->n_domains * job->config->layers * (job->replicates + 1));
    json_object_set_new(answer, "layers", json_array());
    json_object_set_new(answer, "heads", json_array());
    json_object_set_new(answer, "rows", json_array());
    for (int64_t d = 0; d < job->n_domains; d++)
        for (int64_t l = 0; l < job->config->layers && status == ES_OK; l++)
            status = probe_one(job, &stages, d, l, err);
    if (status == ES_OK && job->n_domains > 1)
        probe_answer_domains(job);
    return cli_run_close(&file, job->session, status, err);
}

static void put_question(const probe_job *job, const probe_options *o)
{
    json_t *answer = job->session->answer, *pools = json_array();
    for (int64_t d = 0; d < job->n_domains; d++) {
        const es_pool_info info = es_pool_about(job->domains[d].pool);
        json_array_append_new(
            pools, json_pack("{s:s, s:I, s:I, s:I}", "domain", job->domains[d].name, "tokens",
                             (json_int_t)info.tokens, "blocks", (json_int_t)info.blocks, "repeats",
                             (json_int_t)info.repeats));
    }
    json_object_set_new(answer, "model", json_string(es_model_folder(job->model)));
    json_object_set_new(answer, "pools", pools);
    json_object_set_new(answer, "special", json_string(special_choices[o->special]));
    json_object_set_new(answer, "store", json_string(store_choices[o->store]));
    json_object_set_new(answer, "draw", json_string(draw_choices[o->draw]));
    json_object_set_new(answer, "queries", json_integer(job->queries));
    json_object_set_new(answer, "replicates", json_integer(job->replicates));
}

/* ---- all together ---- */

/* The forward pass, with its small products and element-wise work, runs at two thirds of the speed
 * that costs assume. The pool is on disk and takes no memory. */
static cli_cost cost_of(const probe_job *job, const es_pool_cost *pools)
{
    const double H = (double)job->config->hidden, n = (double)job->sizes[job->n_sizes - 1];
    const double m = (double)job->queries, P = (double)job->n_sizes, N = (double)pools->tokens;
    const double layers = (double)(job->n_domains * job->config->layers);
    const double work = 12.0 * n * H + 16.0 * P * m * H + 32.0 * (m + H) * H + 24.0 * H * H + 64e6;
    return (cli_cost){.flops = 1.5 * pools->flops +
                               layers * (N * (8.0 * H * H + 4.0 * m * H) +
                                         (double)job->replicates * n * (4.0 * H * H + 4.0 * m * H)),
                      .disk_bytes = pools->disk_bytes,
                      .output_bytes = 512.0 * layers * (double)job->config->heads * P,
                      .work_bytes = work > (double)pools->bytes ? work : (double)pools->bytes};
}

static es_status with_tokenizer(probe_job *job, probe_options *o, const es_tokenizer *tokenizer,
                                es_error *err)
{
    es_pool_cost pools;
    char temporary[4000] = "";
    es_status status = size_pools(job, o, tokenizer, &pools, err);
    if (status != ES_OK)
        return status;
    default_sizes(o, pools.tokens);
    job->sizes = o->sizes.counts;
    job->n_sizes = o->sizes.count;
    job->queries = o->queries < pools.tokens ? o->queries : pools.tokens;
    job->rates = cli_alloc_array(
        (size_t)(2 * job->n_domains * job->config->layers * job->config->heads), sizeof(double));
    const cli_cost cost = cost_of(job, &pools);
    if (job->session->common.dry_run) {
        free(job->rates);
        return cli_cost_answer(job->session, &cost, err);
    }
    status = cli_cost_admit(job->session, &cost, err);
    if (status == ES_OK)
        status = name_folders(job, o, temporary, sizeof temporary, err);
    if (status == ES_OK)
        status = build_pools(job, o, tokenizer, err);
    if (status == ES_OK) {
        put_question(job, o);
        status = probe_all(job, o, err);
    }
    for (int64_t d = 0; d < job->n_domains; d++)
        es_pool_close(job->domains[d].pool);
    remove_pools(job, temporary);
    free(job->rates);
    return status;
}

static es_status with_model(probe_job *job, probe_options *o, es_error *err)
{
    const es_model_opts opts = {.budget = &job->session->budget};
    es_model *model;
    es_tokenizer *tokenizer = NULL;
    es_status status = es_model_open(o->model, &opts, &model, err);
    if (status != ES_OK)
        return status;
    job->model = model;
    job->config = es_model_config_of(model);
    status = es_tokenizer_open(es_model_folder(model), &job->session->budget, &tokenizer, err);
    if (status == ES_OK)
        status = with_tokenizer(job, o, tokenizer, err);
    es_tokenizer_free(tokenizer);
    es_model_close(model);
    return status;
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    probe_options *o = given;
    char *names[CLI_MOST_STRINGS] = {0};
    probe_job job = {.session = session,
                     .quiet = session->exec,
                     .replicates = o->replicates,
                     .without_replacement = o->draw == 1};
    if (!o->model)
        return fail_options("--model MODEL", "there is no model", err);
    /* before a pool is made, which may take hours */
    if (o->run.out && !o->run.resume && !session->common.dry_run) {
        const es_status free_name = cli_target_check(o->run.out, o->run.force, err);
        if (free_name != ES_OK)
            return free_name;
    }
    job.quiet.progress = cli_progress_silent;
    job.domains = cli_alloc_array(CLI_MOST_STRINGS, sizeof *job.domains);
    es_status status = read_domains(&job, o, names, err);
    if (status == ES_OK)
        status = with_model(&job, o, err);
    for (int i = 0; i < CLI_MOST_STRINGS; i++)
        free(names[i]);
    free(job.domains);
    return status;
}

static const char *const examples[] = {
    "esscher probe --model models/minilm --text alice.txt",
    "esscher probe --model models/minilm --text alice.txt --pool 20480 --json",
    "esscher probe --model models/minilm --domain prose=moby-dick.txt --domain code=python.txt",
    "esscher probe --model models/minilm --text wiki.txt --pool 1000000 --n 1e3..1e5*12 "
    "--pool-dir pool --out probe.run",
    NULL};

const cli_command cli_probe = {
    .name = "probe",
    .summary = "every head of a BERT checkpoint on real text: horizons, freezing, convergence",
    .usage = "--model MODEL --text FILE [options]",
    .about =
        "Runs text through the model and keeps what every layer is given: the pool, a sample of "
        "real tokens. Attention of some of them over the whole pool stands for infinitely many "
        "tokens; attention over n tokens drawn from the pool is measured against it, head by head, "
        "with rates, their intervals, and the pool's own error. Beside it: horizons and the "
        "exponents they predict, how many queries are frozen, what Gaussian tokens of the same "
        "covariance would do, entropy and sinks of attention in the text's own blocks, and how "
        "independently the heads of a layer err.\n\n"
        "The pool is on disk; with --pool-dir it is kept, and building it can be killed and goes "
        "on. "
        "Layers and heads count from 0.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA | CLI_TAKES_MEMORY |
              CLI_TAKES_DRY_RUN | CLI_TAKES_PROGRESS | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(probe_options),
    .views = views,
    .run = run,
};
