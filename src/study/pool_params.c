#include "study/pool_params.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

const char *const es_pool_special[] = {"keep", "drop", NULL};
const char *const es_pool_shuffles[] = {"none", "word", "sentence", "block", NULL};
const char *const es_pool_stores[] = {"f32", "f16", NULL};

/* ---- texts and domains ---- */

static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "pool.options", hint, "%s", message);
}

/* A name that is a folder's, too, for the domain's pool. */
static bool is_name(const char *text, size_t length)
{
    return length > 0 && text[0] != '.' && !memchr(text, '/', length);
}

static es_status add_domain(es_job *job, es_pools *p, const char *name, size_t length,
                            const char *file, es_error *err)
{
    char *copy;
    for (int64_t d = 0; d < p->n_domains; d++)
        if (strlen(p->domains[d].name) == length && memcmp(p->domains[d].name, name, length) == 0) {
            es_texts *texts = &p->domains[d].texts;
            if (texts->count == ES_MOST_TEXTS)
                return refuse("put them together", "too many files of one domain", err);
            texts->at[texts->count++] = file;
            return ES_OK;
        }
    ES_TRY(es_job_array(job, (int64_t)length + 1, 1, 1, &copy, err));
    memcpy(copy, name, length);
    es_domain *domain = &p->domains[p->n_domains++];
    domain->name = copy;
    domain->texts.at[domain->texts.count++] = file;
    return ES_OK;
}

/* Either texts, which are one domain, or domains with their files. */
static es_status read_domains(es_job *job, es_pools *p, es_error *err)
{
    const es_texts *texts = &p->asked->texts, *domains = &p->asked->domains;
    if (!texts->count == !domains->count)
        return refuse("--text FILE, or --domain NAME=FILE for each",
                      texts->count ? "--text and --domain exclude each other" : "there is no text",
                      err);
    ES_TRY(es_job_array(job, domains->count ? domains->count : 1, 1, sizeof *p->domains,
                        &p->domains, err));
    for (int64_t i = 0; i < texts->count; i++)
        ES_TRY(add_domain(job, p, "text", strlen("text"), texts->at[i], err));
    for (int64_t i = 0; i < domains->count; i++) {
        const char *name = domains->at[i], *equals = strchr(name, '=');
        if (!equals || !equals[1] || !is_name(name, (size_t)(equals - name)))
            return refuse("--domain poems=poems.txt",
                          "a domain is NAME=FILE, with no / in NAME and no . before it", err);
        ES_TRY(add_domain(job, p, name, (size_t)(equals - name), equals + 1, err));
    }
    return ES_OK;
}

/* ---- sizes ---- */

static es_pool_spec spec_of(const es_pools *p, const es_domain *d)
{
    return (es_pool_spec){p->model,
                          .tokenizer = p->tokenizer,
                          .texts = d->texts.at,
                          .n_texts = d->texts.count,
                          .tokens = p->asked->tokens,
                          .repeat = p->asked->repeat,
                          .drop_specials = p->asked->special == 1,
                          .store = p->asked->store == 1 ? ES_POOL_F16 : ES_POOL_F32,
                          .folder = d->folder,
                          .shuffle = (es_text_shuffle)p->asked->shuffle,
                          .seed = p->seed};
}

/* What the pools of all domains take, and the tokens of the smallest. */
static es_status add_costs(const es_job *job, es_pools *p, es_error *err)
{
    es_pool_cost *total = &p->cost;
    *total = (es_pool_cost){.tokens = INT64_MAX};
    for (int64_t d = 0; d < p->n_domains; d++) {
        es_pool_cost cost;
        const es_pool_spec spec = spec_of(p, &p->domains[d]);
        ES_TRY(es_pool_cost_of(&spec, &job->exec, &cost, err));
        p->domains[d].flops = cost.flops;
        total->tokens = cost.tokens < total->tokens ? cost.tokens : total->tokens;
        total->flops += cost.flops;
        total->disk_bytes += cost.disk_bytes;
        total->run_bytes += cost.run_bytes;
        total->held_bytes += cost.held_bytes;
        total->bytes = cost.bytes > total->bytes ? cost.bytes : total->bytes;
    }
    return ES_OK;
}

/* Sizes of the pools, which decide the defaults that are still open. */
/* Pools of equal size, or errors of domains could not be compared; and no more than 100000
 * tokens unless asked, because time grows with them and the limit hardly moves. */
static es_status size_pools(const es_job *job, es_pool_params *asked, es_pools *p, es_error *err)
{
    const int64_t most = 100000;
    ES_TRY(add_costs(job, p, err));
    /* every domain the same number: what the shortest has */
    if (!asked->tokens && (p->n_domains > 1 || p->cost.tokens > most)) {
        asked->tokens = p->cost.tokens < most ? p->cost.tokens : most;
        ES_TRY(add_costs(job, p, err));
    }
    if (asked->store < 0) {
        asked->store = p->cost.disk_bytes > 0x1p32;
        if (asked->store) /* half of the layers; checksums stay */
            p->cost.disk_bytes -= (p->cost.disk_bytes - p->cost.run_bytes) / 2.0;
    }
    return ES_OK;
}

es_status es_pools_open(es_job *job, es_pool_params *asked, es_pools *pools, es_error *err)
{
    const es_model_opts opts = {.budget = job->exec.budget,
                                .allow_trailing = asked->allow_trailing};
    *pools = (es_pools){.asked = asked, .seed = job->seed, .scratch = {.fd = -1}};
    if (!asked->model)
        return refuse("--model MODEL", "there is no model", err);
    ES_TRY(read_domains(job, pools, err));
    ES_TRY(es_model_open(asked->model, &opts, &pools->model, err));
    pools->config = es_model_config_of(pools->model);
    ES_TRY(
        es_tokenizer_open(es_model_folder(pools->model), job->exec.budget, &pools->tokenizer, err));
    es_job_phase(job, "reading the text", 0.0);
    return size_pools(job, asked, pools, err);
}

/* ---- folders ---- */

/* One domain in a folder of the user's is that folder; several, or a temporary one, have a
 * folder each inside it. */
static es_status name_folders(es_job *job, es_pools *p, es_error *err)
{
    const char *base = p->asked->folder;
    if (!base) {
        ES_TRY(es_scratch_make("pool", &p->scratch, err));
        base = p->scratch.path;
    } else if (p->n_domains > 1) {
        mkdir(base, 0777); /* es_pool_build() complains if it is not there */
    }
    const bool inner = p->n_domains > 1 || !p->asked->folder;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const char *name = inner ? p->domains[d].name : "";
        const size_t size = strlen(base) + strlen(name) + 2;
        char *folder;
        ES_TRY(es_job_array(job, (int64_t)size, 1, 1, &folder, err));
        snprintf(folder, size, "%s%s%s", base, inner ? "/" : "", name);
        p->domains[d].folder = folder;
    }
    return ES_OK;
}

/* ---- pools ---- */

static const es_column pool_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT, "name of the domain; text where there is only one"},
    {"tokens", "tokens", "tokens", ES_FORMAT_COUNT, "rows of the pool"},
    {"blocks", "blocks", "", ES_FORMAT_COUNT, "pieces of text that the model read one by one"},
    {"repeats", "repeats", "", ES_FORMAT_COUNT, "how often the text was begun again"},
    {0}};
static const es_table_spec pools_table = {"pools", pool_columns, NULL};

static void put_pools(const es_pools *p, es_answer *a)
{
    es_table *t = es_answer_table(a, &pools_table);
    for (int64_t d = 0; d < p->n_domains; d++) {
        const es_pool_info info = es_pool_about(p->domains[d].pool);
        const int64_t row = es_table_row(t);
        es_table_text(t, row, "domain", p->domains[d].name);
        es_table_count(t, row, "tokens", info.tokens);
        es_table_count(t, row, "blocks", info.blocks);
        es_table_count(t, row, "repeats", info.repeats);
    }
    es_answer_text(a, "model", es_model_folder(p->model));
    es_answer_text(a, "special", es_pool_special[p->asked->special]);
    es_answer_text(a, "shuffle", es_pool_shuffles[p->asked->shuffle]);
    es_answer_text(a, "store", es_pool_stores[p->asked->store]);
}

static es_status build_all(es_job *job, es_pools *p, es_error *err)
{
    for (int64_t d = 0; d < p->n_domains; d++) {
        const es_pool_spec spec = spec_of(p, &p->domains[d]);
        es_job_phase(job, "building the pool", p->domains[d].flops);
        ES_TRY(es_pool_build(&spec, &job->exec, err));
        ES_TRY(es_pool_open(spec.folder, &p->domains[d].pool, err));
    }
    return ES_OK;
}

es_status es_pools_build(es_job *job, es_pools *pools, es_error *err)
{
    es_budget *budget = job->exec.budget;
    const double held = pools->cost.held_bytes;
    if (budget && budget->limit)
        budget->limit = (double)budget->limit > held ? budget->limit - (size_t)held : 1;
    ES_TRY(name_folders(job, pools, err));
    const es_status status = build_all(job, pools, err);
    if (status == ES_OK)
        put_pools(pools, job->answer);
    if (status == ES_E_INTERRUPTED && (pools->scratch.path[0] || job->out))
        snprintf(err->hint, sizeof err->hint, "%s",
                 pools->scratch.path[0] ? "with --pool-dir DIR it could go on later"
                                        : "go on with --resume");
    es_scratch_remove(&pools->scratch); /* what is open needs no name any more */
    return status;
}

void es_pools_name(const es_pools *pools, int64_t domain, es_table *table, int64_t row)
{
    if (pools->n_domains > 1)
        es_table_text(table, row, "domain", pools->domains[domain].name);
}

void es_pools_close(es_pools *pools)
{
    for (int64_t d = 0; d < pools->n_domains; d++)
        es_pool_close(pools->domains[d].pool);
    es_scratch_remove(&pools->scratch);
    es_tokenizer_free(pools->tokenizer);
    es_model_close(pools->model);
}
