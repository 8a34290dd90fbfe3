#include "pool_options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "talk.h"

const char *const cli_pool_special[] = {"keep", "drop", NULL};
const char *const cli_pool_store[] = {"f32", "f16", NULL};

/* ---- texts and domains ---- */

static es_status fail_options(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "pool.options", hint, "%s", message);
}

/* A name that is a folder's, too, for the domain's pool. */
static bool is_name(const char *text, size_t length)
{
    return length > 0 && text[0] != '.' && !memchr(text, '/', length);
}

static es_status add_domain(cli_pools *p, const char *name, size_t length, const char *file,
                            es_error *err)
{
    for (int64_t d = 0; d < p->n_domains; d++)
        if (strlen(p->domains[d].name) == length && memcmp(p->domains[d].name, name, length) == 0) {
            cli_strings *texts = &p->domains[d].texts;
            if (texts->count == CLI_MOST_STRINGS)
                return fail_options("put them together", "too many files of one domain", err);
            texts->at[texts->count++] = file;
            return ES_OK;
        }
    cli_domain *domain = &p->domains[p->n_domains++];
    domain->name = cli_alloc(length + 1);
    memcpy(domain->name, name, length);
    domain->name[length] = '\0';
    domain->texts = (cli_strings){1, {file}};
    return ES_OK;
}

/* Either texts, which are one domain, or domains with their files. */
static es_status read_domains(cli_pools *p, es_error *err)
{
    const cli_pool_options *o = p->asked;
    es_status status = ES_OK;
    if (!o->texts.count == !o->domains.count)
        return fail_options(
            "--text FILE, or --domain NAME=FILE for each",
            o->texts.count ? "--text and --domain exclude each other" : "there is no text", err);
    for (int64_t i = 0; i < o->texts.count && status == ES_OK; i++)
        status = add_domain(p, "text", strlen("text"), o->texts.at[i], err);
    for (int64_t i = 0; i < o->domains.count && status == ES_OK; i++) {
        const char *name = o->domains.at[i], *equals = strchr(name, '=');
        if (!equals || !equals[1] || !is_name(name, (size_t)(equals - name)))
            return fail_options("--domain poems=poems.txt",
                                "a domain is NAME=FILE, with no / in NAME and no . before it", err);
        status = add_domain(p, name, (size_t)(equals - name), equals + 1, err);
    }
    return status;
}

/* ---- sizes ---- */

static es_pool_spec spec_of(const cli_pools *p, const cli_domain *d)
{
    return (es_pool_spec){.model = p->model,
                          .tokenizer = p->tokenizer,
                          .texts = d->texts.at,
                          .n_texts = d->texts.count,
                          .tokens = p->asked->tokens,
                          .repeat = p->asked->repeat,
                          .drop_specials = p->asked->special == 1,
                          .store = p->asked->store == 1 ? ES_POOL_F16 : ES_POOL_F32,
                          .folder = d->folder};
}

/* What the pools of all domains take, and the tokens of the smallest. */
static es_status add_costs(cli_pools *p, es_error *err)
{
    es_pool_cost *total = &p->cost;
    *total = (es_pool_cost){.tokens = INT64_MAX};
    for (int64_t d = 0; d < p->n_domains; d++) {
        es_pool_cost cost;
        const es_pool_spec spec = spec_of(p, &p->domains[d]);
        const es_status status = es_pool_cost_of(&spec, &p->session->exec, &cost, err);
        if (status != ES_OK)
            return status;
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
static es_status size_pools(cli_pools *p, es_error *err)
{
    const int64_t most = 100000;
    cli_pool_options *o = p->asked;
    es_status status = add_costs(p, err);
    /* every domain the same number: what the shortest has */
    if (status == ES_OK && !o->tokens && (p->n_domains > 1 || p->cost.tokens > most)) {
        o->tokens = p->cost.tokens < most ? p->cost.tokens : most;
        status = add_costs(p, err);
    }
    if (status == ES_OK && o->store < 0) {
        o->store = p->cost.disk_bytes > 0x1p32;
        if (o->store) /* half of the layers; checksums stay */
            p->cost.disk_bytes -= (p->cost.disk_bytes - p->cost.run_bytes) / 2.0;
    }
    return status;
}

es_status cli_pools_open(cli_session *session, cli_pool_options *asked, cli_pools *pools,
                         es_error *err)
{
    const es_model_opts opts = {.budget = &session->budget,
                                .allow_trailing = asked->allow_trailing};
    *pools = (cli_pools){.session = session, .asked = asked};
    if (!asked->model)
        return fail_options("--model MODEL", "there is no model", err);
    pools->domains = cli_alloc_array(CLI_MOST_STRINGS, sizeof *pools->domains);
    memset(pools->domains, 0, CLI_MOST_STRINGS * sizeof *pools->domains);
    es_status status = read_domains(pools, err);
    if (status == ES_OK)
        status = es_model_open(asked->model, &opts, &pools->model, err);
    if (status != ES_OK)
        return status;
    pools->config = es_model_config_of(pools->model);
    status =
        es_tokenizer_open(es_model_folder(pools->model), &session->budget, &pools->tokenizer, err);
    return status == ES_OK ? size_pools(pools, err) : status;
}

/* ---- folders ---- */

static es_status name_folders(cli_pools *p, es_error *err)
{
    const char *base = p->asked->folder;
    if (!base) {
        const es_status status = cli_scratch_make("pool", &p->scratch, err);
        if (status != ES_OK)
            return status;
        base = p->scratch.path;
    } else if (p->n_domains > 1) {
        mkdir(base, 0777); /* es_pool_build() complains if it is not there */
    }
    for (int64_t d = 0; d < p->n_domains; d++) {
        cli_domain *domain = &p->domains[d];
        const int used =
            p->n_domains > 1 || !p->asked->folder
                ? snprintf(domain->folder, sizeof domain->folder, "%s/%s", base, domain->name)
                : snprintf(domain->folder, sizeof domain->folder, "%s", base);
        if (used >= (int)sizeof domain->folder)
            return fail_options("a shorter one", "the name of the pool's folder is too long", err);
    }
    return ES_OK;
}

/* ---- pools ---- */

static void answer_pools(const cli_pools *p)
{
    json_t *answer = p->session->answer, *pools = json_array();
    for (int64_t d = 0; d < p->n_domains; d++) {
        const es_pool_info info = es_pool_about(p->domains[d].pool);
        json_array_append_new(pools, json_pack("{s:s, s:I, s:I, s:I}", "domain", p->domains[d].name,
                                               "tokens", (json_int_t)info.tokens, "blocks",
                                               (json_int_t)info.blocks, "repeats",
                                               (json_int_t)info.repeats));
    }
    json_object_set_new(answer, "model", json_string(es_model_folder(p->model)));
    json_object_set_new(answer, "pools", pools);
    json_object_set_new(answer, "special", json_string(cli_pool_special[p->asked->special]));
    json_object_set_new(answer, "store", json_string(cli_pool_store[p->asked->store]));
}

es_status cli_pools_build(cli_pools *pools, es_error *err)
{
    es_status status = name_folders(pools, err);
    pools->session->progress.parts = (double)pools->n_domains;
    for (int64_t d = 0; d < pools->n_domains && status == ES_OK; d++) {
        const es_pool_spec spec = spec_of(pools, &pools->domains[d]);
        pools->session->progress.part = (double)d;
        status = es_pool_build(&spec, &pools->session->exec, err);
        if (status == ES_OK)
            status = es_pool_open(spec.folder, &pools->domains[d].pool, err);
    }
    if (status == ES_OK)
        answer_pools(pools);
    if (status == ES_E_INTERRUPTED && pools->scratch.path[0])
        snprintf(err->hint, sizeof err->hint, "with --pool-dir DIR it could go on later");
    cli_scratch_remove(&pools->scratch); /* what is open needs no name any more */
    return status;
}

void cli_pools_close(cli_pools *pools)
{
    for (int64_t d = 0; d < pools->n_domains; d++)
        es_pool_close(pools->domains[d].pool);
    cli_scratch_remove(&pools->scratch);
    for (int64_t d = 0; d < pools->n_domains; d++)
        free(pools->domains[d].name);
    free(pools->domains);
    es_tokenizer_free(pools->tokenizer);
    es_model_close(pools->model);
}
