/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/pool_params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "driver/numbers.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/default_size.h"
#include "model/model.h"
#include "model/pool_files.h"

const char *const es_pool_special[] = {"keep", "drop", NULL};
const char *const es_pool_shuffles[] = {"none", "word", "sentence", "block", NULL};
const char *const es_pool_froms[] = {"even", "start", NULL};
const char *const es_pool_stores[] = {"f32", "f16", NULL};
const char *const es_text_invalids[] = {"replace", "error", "replace-all", NULL};

/* ---- texts and domains ---- */

/* Fails because options about text do not fit together. */
static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "pool.options", hint, "%s", message);
}

/* A name that is a folder's, too, for the domain's pool. */
static bool is_name(const char *text, size_t length)
{
    return length > 0 && text[0] != '.' && !memchr(text, '/', length);
}

/* Adds a file to a domain, which it starts if the name is new. */
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
    ES_TRY(ES_JOB_NEW(job, copy, (int64_t)length + 1, err));
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
                      texts->count ? "--text and --domain exclude each other" : "missing --text",
                      err);
    ES_TRY(ES_JOB_NEW(job, p->domains, domains->count ? domains->count : 1, err));
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

/* ---- mixtures ---- */

/* Fails because shares of --mix are not as they must be. */
static es_status refuse_mix(const char *text, const char *why, es_error *err)
{
    return es_refuse(err, "pool.mix", "each domain once, shares add up to 1: --mix a=0.5 b=0.5",
                     "--mix %s: %s", text, why);
}

/* One NAME=SHARE, `length` letters of a text. */
static es_status read_share(es_pools *p, const char *text, size_t length, es_error *err)
{
    char word[256];
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : 0), text);
    char *equals = strchr(word, '=');
    double share;
    if (!equals || es_number_real(equals + 1, &share))
        return refuse_mix(word, "a share is NAME=NUMBER", err);
    if (!(share > 0.0 && share <= 1.0))
        return refuse_mix(word, "a share is above 0 and at most 1", err);
    *equals = '\0';
    for (int64_t d = 0; d < p->n_domains; d++)
        if (strcmp(p->domains[d].name, word) == 0) {
            if (p->parts[d].share > 0.0)
                return refuse_mix(word, "it has a share already", err);
            p->parts[d].share = share;
            return ES_OK;
        }
    return refuse_mix(word, "there is no --domain of that name", err);
}

/* Shares that are rounded to three digits are taken for what they stand for. */
static es_status check_shares(es_pools *p, es_error *err)
{
    double sum = 0.0;
    char text[64];
    for (int64_t d = 0; d < p->n_parts; d++) {
        if (!(p->parts[d].share > 0.0))
            return refuse_mix(p->part_names[d], "this domain has no share", err);
        sum += p->parts[d].share;
    }
    snprintf(text, sizeof text, "the shares add up to %.4g", sum);
    if (fabs(sum - 1.0) > 1e-3 * (double)p->n_parts)
        return refuse_mix("...", text, err);
    for (int64_t d = 0; d < p->n_parts; d++)
        p->parts[d].share /= sum;
    return ES_OK;
}

/* The domains become parts of one, which is called "mix". */
static es_status mix_domains(es_job *job, es_pools *p, es_error *err)
{
    const es_texts *mix = &p->asked->mix;
    if (!mix->count)
        return ES_OK;
    if (!p->asked->domains.count)
        return refuse_mix(mix->at[0], "there is no --domain NAME=FILE", err);
    if (p->n_domains > ES_TEXT_PARTS)
        return refuse_mix(mix->at[0], "too many domains", err);
    p->n_parts = p->n_domains;
    ES_TRY(ES_JOB_NEW(job, p->parts, p->n_parts, err));
    ES_TRY(ES_JOB_NEW(job, p->part_names, p->n_parts, err));
    for (int64_t d = 0; d < p->n_parts; d++) {
        p->parts[d].texts = p->domains[d].texts.at;
        p->parts[d].n_texts = p->domains[d].texts.count;
        p->part_names[d] = p->domains[d].name;
    }
    for (int64_t i = 0; i < mix->count; i++)
        for (const char *at = mix->at[i]; *at;) {
            const size_t length = strcspn(at, ",");
            ES_TRY(read_share(p, at, length, err));
            at += length + (at[length] == ',');
        }
    ES_TRY(check_shares(p, err));
    ES_TRY(ES_JOB_NEW(job, p->domains, 1, err));
    p->domains[0].name = "mix";
    p->n_domains = 1;
    return ES_OK;
}

/* ---- sizes ---- */

/* Returns the description of a domain's pool, by which stored pools are recognised. */
static es_pool_spec spec_of(const es_pools *p, const es_domain *d)
{
    return (es_pool_spec){p->model,
                          .tokenizer = p->tokenizer,
                          .texts = d->texts.at,
                          .n_texts = d->texts.count,
                          .parts = p->parts,
                          .n_parts = p->n_parts,
                          .tokens = p->asked->tokens,
                          .length = p->asked->block,
                          .from = (es_blocks_from)p->asked->from,
                          .repeat = p->asked->repeat,
                          .invalid = (es_text_invalid)p->asked->invalid,
                          .drop_specials = p->asked->special == 1,
                          .skip = p->config->causal ? p->asked->skip : 0,
                          .store = p->asked->store == 1 ? ES_POOL_F16 : ES_POOL_F32,
                          .folder = d->folder,
                          .shuffle = (es_text_shuffle)p->asked->shuffle,
                          .seed = p->seed,
                          .keep = p->keep,
                          .keep_user = p->keep_user};
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
        memcpy(total->parts, cost.parts, sizeof total->parts);
        p->domains[d].flops = cost.flops;
        p->domains[d].text = cost.text;
        total->tokens = cost.tokens < total->tokens ? cost.tokens : total->tokens;
        total->flops += cost.flops;
        total->disk_bytes += cost.disk_bytes;
        total->run_bytes += cost.run_bytes;
        total->held_bytes += cost.held_bytes;
        total->bytes = cost.bytes > total->bytes ? cost.bytes : total->bytes;
    }
    return ES_OK;
}

/* Job and pools, for the work of a pool's size. */
typedef struct sizing_user {
    const es_job *job;
    const es_pools *pools;
} sizing_user;

enum { LENGTH, BLOCKS, SIZES };

/* Returns the operations of pools of values[BLOCKS] blocks of values[LENGTH] tokens, and of the
 * study. */
static double work_of(const void *user, const int64_t *values)
{
    const sizing_user *u = user;
    const es_pools *p = u->pools;
    const int64_t n = values[LENGTH];
    const es_model_cost pass = es_model_cost_of(p->config, ES_F32, n, 1, false);
    const double blocks = (double)(p->n_domains * values[BLOCKS]);
    return blocks * es_model_work(&pass) +
           (p->asked->work ? p->asked->work(u->job, p, n * values[BLOCKS], n) : 0.0);
}

/* Chooses the tokens of pools, unless given, so that the run takes no longer than a default run
 * should; blocks become shorter only if eight of them do not fit. */
static es_status fit_pools(const es_job *job, bool block_given, es_pool_params *asked, es_pools *p,
                           es_error *err)
{
    static const es_size_step steps[] = {
        {BLOCKS, ES_SIZE_BLOCKS}, {LENGTH, ES_SIZE_SHORT}, {BLOCKS, ES_SIZE_FEWEST}};
    const sizing_user user = {job, p};
    es_size sizes[SIZES] = {
        [LENGTH] = {"block", .usual = asked->block, .fixed = block_given, .halves = true},
        [BLOCKS] = {"pool", .usual = p->cost.tokens, .of = 1 + LENGTH, .in_tokens = true,
                    .averaged = true}};
    const es_sizing sizing = {sizes, SIZES, steps, sizeof steps / sizeof *steps, work_of, &user};
    if (!es_sizes_fit(&sizing))
        return ES_OK;
    es_sizes_add_finding(&sizing, job->answer);
    asked->block = sizes[LENGTH].value;
    asked->tokens = sizes[BLOCKS].value * asked->block;
    return add_costs(job, p, err);
}

/* Completes the sizes of pools. They are equal, or errors of domains could not be compared, and
 * have no more than 100000 tokens unless asked, because the limit hardly moves beyond. */
static es_status size_pools(const es_job *job, bool block_given, es_pool_params *asked, es_pools *p,
                            es_error *err)
{
    const int64_t most = 100000, given = asked->tokens;
    ES_TRY(add_costs(job, p, err));
    if (!given && (p->n_domains > 1 || p->cost.tokens > most)) {
        asked->tokens = p->cost.tokens < most ? p->cost.tokens : most;
        ES_TRY(add_costs(job, p, err));
    }
    if (!given)
        ES_TRY(fit_pools(job, block_given, asked, p, err));
    if (asked->store < 0) {
        asked->store = p->cost.disk_bytes > 0x1p32 && !asked->stream;
        if (asked->store) /* half of the layers; checksums stay */
            p->cost.disk_bytes -= (p->cost.disk_bytes - p->cost.run_bytes) / 2.0;
    }
    return ES_OK;
}

/* A causal model may read a hundred thousand tokens at a time; few texts have such blocks, and none
 * enough of them to compare. */
static es_status size_blocks(es_pool_params *asked, const es_model_config *config, es_error *err)
{
    const int64_t usual = 2048, most = config->positions;
    if (asked->block > most)
        return es_refuse(err, "pool.block", "a shorter block",
                         "--block %lld: the model reads %lld tokens at a time, at most",
                         (long long)asked->block, (long long)most);
    if (!asked->block)
        asked->block = config->causal && most > usual ? usual : most;
    return ES_OK;
}

es_status es_pools_open(es_job *job, es_pool_params *asked, es_pools *pools, es_error *err)
{
    const es_model_opts opts = {.budget = job->exec.budget,
                                .weights = asked->streams ? ES_WEIGHTS_AUTO : ES_WEIGHTS_RESIDENT,
                                .allow_trailing = asked->allow_trailing};
    *pools = (es_pools){.asked = asked, .seed = job->seed, .scratch = {.fd = -1}};
    if (!asked->model)
        return refuse("--model MODEL", "missing --model", err);
    ES_TRY(read_domains(job, pools, err));
    ES_TRY(mix_domains(job, pools, err));
    ES_TRY(es_job_model(job, asked->model, &opts, &pools->model, err));
    pools->config = es_model_config_of(pools->model);
    ES_TRY(
        es_tokenizer_open(es_model_folder(pools->model), job->exec.budget, &pools->tokenizer, err));
    const bool block_given = asked->block > 0;
    ES_TRY(size_blocks(asked, pools->config, err));
    es_job_phase(job, "reading the text", 0.0);
    return size_pools(job, block_given, asked, pools, err);
}

es_status es_pools_blocks(const es_pools *pools, int64_t domain, es_mem_limit *budget,
                          es_blocks *out, es_error *err)
{
    const es_pool_spec spec = spec_of(pools, &pools->domains[domain]);
    es_pool_text text;
    const es_exec quiet = {.budget = budget};
    const es_status status = es_pool_text_read(&spec, &quiet, true, &text, err);
    *out = text.blocks;
    return status;
}

es_status es_pools_keep(es_job *job, es_pools *pools, es_pool_keep_fn keep, void *user,
                        es_error *err)
{
    pools->keep = keep;
    pools->keep_user = user;
    return add_costs(job, pools, err);
}

/* ---- folders ---- */

/* A temporary folder is rank 0's: the others know its name, and leave removing it to that one. */
static es_status make_scratch(es_job *job, es_pools *p, const char **base, es_error *err)
{
    const int rank = es_executor_of(&job->exec)->rank;
    char *name;
    const es_status status = rank == 0 ? es_scratch_make("pool", &p->scratch, err) : ES_OK;
    ES_TRY(es_work_agree(&job->exec, status, "", err));
    ES_TRY(ES_JOB_NEW(job, name, (int64_t)sizeof p->scratch.path, err));
    memcpy(name, p->scratch.path, sizeof p->scratch.path);
    ES_TRY(es_work_share(&job->exec, name, sizeof p->scratch.path, err));
    *base = name;
    return ES_OK;
}

/* One domain in a folder of the user's is that folder; several, or a temporary one, have a
 * folder each inside it. */
static es_status name_folders(es_job *job, es_pools *p, es_error *err)
{
    const char *base = p->asked->folder;
    if (!base) {
        ES_TRY(make_scratch(job, p, &base, err));
    } else if (p->n_domains > 1) {
        mkdir(base, 0777); /* es_pool_build() complains if it is not there */
    }
    const bool inner = p->n_domains > 1 || !p->asked->folder;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const char *name = inner ? p->domains[d].name : "";
        const size_t size = strlen(base) + strlen(name) + 2;
        char *folder;
        ES_TRY(ES_JOB_NEW(job, folder, (int64_t)size, err));
        snprintf(folder, size, "%s%s%s", base, inner ? "/" : "", name);
        p->domains[d].folder = folder;
    }
    return ES_OK;
}

/* ---- pools ---- */

/* A row of the table of texts. */
typedef struct pool_row {
    const char *domain;
    int64_t tokens, blocks, repeats;
    double share, unknown, repeated;
} pool_row;

static const es_column pool_columns[] = {
    ES_COL(
        pool_row, domain, ES_FORMAT_TEXT, "domain", "",
        "name of the domain; text where there is only one; mix of a mixture, whose parts follow"),
    ES_COL(pool_row, tokens, ES_FORMAT_COUNT, "tokens", "tokens", "rows of the pool"),
    ES_COL(pool_row, blocks, ES_FORMAT_COUNT, "blocks", "",
           "pieces of text that the model read one by one"),
    ES_COL(pool_row, repeats, ES_FORMAT_COUNT, "repeats", "", "how often the text was begun again"),
    ES_COL(pool_row, share, ES_FORMAT_REAL, "share", "", "of the mixture's tokens"),
    ES_COL(pool_row, unknown, ES_FORMAT_SHORT, "unknown", "share",
           "of the text's tokens that are [UNK]: words that the tokenizer cannot spell"),
    ES_COL(pool_row, repeated, ES_FORMAT_SHORT, "repeated", "share",
           "of the text's runs of 16 tokens that repeat an earlier run word for word"),
    {0}};
static const es_table_spec pools_table = {"pools", pool_columns,
                                          ES_VIEW("Text that was read", .only_with_full = true),
                                          ES_ROW(pool_row), .keys = "domain"};

/* Returns the share of tokens that the tokenizer does not know. */
static double unknown_of(const es_text_facts *t) { return (double)t->unknown / (double)t->tokens; }

/* Rows of a part: its tokens, less those of each block that were left out. */
static int64_t rows_of_part(const es_pools *p, int64_t part)
{
    const es_tokenizer_info info = es_tokenizer_frame(p->tokenizer);
    const bool drop = p->asked->special == 1;
    const int64_t skip = p->config->causal ? p->asked->skip : 0;
    const int64_t prefix = drop && info.prefix_count > skip ? info.prefix_count : skip;
    return p->cost.parts[part].tokens -
           (prefix + (drop ? info.suffix_count : 0)) * p->cost.parts[part].blocks;
}

/* Fills the rows of a mixture: tokens of each of its parts. */
static void put_parts(const es_pools *p, es_table *t)
{
    double all = 0.0;
    for (int64_t i = 0; i < p->n_parts; i++)
        all += (double)rows_of_part(p, i);
    for (int64_t i = 0; i < p->n_parts; i++) {
        pool_row *r = es_rows_add(t, pool_row);
        if (!r)
            return;
        r->domain = es_table_format(t, "%s", p->part_names[i]);
        r->tokens = rows_of_part(p, i);
        r->blocks = p->cost.parts[i].blocks;
        r->repeats = p->cost.parts[i].repeats;
        r->share = (double)rows_of_part(p, i) / all;
    }
}

/* What was read, where it is not simply the text. */
static void report_pools(const es_pools *p, es_answer *a)
{
    char parts[256] = "";
    int64_t repeats = 0;
    for (int64_t i = 0; i < p->n_parts; i++) {
        const size_t used = strlen(parts);
        snprintf(parts + used, sizeof parts - used, "%s%s %.3g %%", i ? ", " : "", p->part_names[i],
                 100.0 * p->parts[i].share);
        repeats += p->cost.parts[i].repeats;
    }
    if (p->n_parts)
        es_answer_add_finding(a, "The text is a mixture, by tokens: %s%s.", parts,
                              repeats ? "; a part was read more than once" : "");
    if (p->asked->shuffle)
        es_answer_add_finding(
            a, "The text was shuffled: its %ss changed places before the model read it.",
            es_pool_shuffles[p->asked->shuffle]);
}

/* Fills the table of pools: tokens, blocks, repetition, unknown tokens. */
static void put_pools(const es_pools *p, es_answer *a)
{
    es_table *t = es_answer_table(a, &pools_table);
    for (int64_t d = 0; d < p->n_domains; d++) {
        const es_pool_info info = es_pool_about(p->domains[d].pool);
        pool_row *r = es_rows_add(t, pool_row);
        if (!r)
            return;
        r->domain = es_table_format(t, "%s", p->domains[d].name);
        r->tokens = info.tokens;
        r->blocks = info.blocks;
        r->repeats = info.repeats;
        r->unknown = unknown_of(&p->domains[d].text);
        r->repeated = p->domains[d].text.repeated;
    }
    put_parts(p, t);
    report_pools(p, a);
    es_answer_text(a, "model", es_model_folder(p->model));
    es_answer_text(a, "special", es_pool_special[p->asked->special]);
    if (p->config->causal && p->asked->skip)
        es_answer_count(a, "skipped_first", p->asked->skip);
    es_answer_text(a, "shuffle", es_pool_shuffles[p->asked->shuffle]);
    es_answer_text(a, "store", es_pool_stores[p->asked->store]);
}

/* ---- texts that are hardly one ---- */

/* From where on it is said. A twentieth of unknown words is a text in another script or language;
 * a fifth of repeats is more than licences and refrains bring; and the limit of a thousand tokens
 * is about as far from that of their text as errors at n = 1000 are. */
#define SOME_UNKNOWN  0.05
#define MOST_UNKNOWN  0.5
#define MUCH_REPEATED 0.2
#define FEW_TOKENS    1000

/* " of domain a", where there are several. */
static const char *of_domain(const es_pools *p, const es_domain *d, char out[ES_SAY_SIZE])
{
    const bool several = p->n_domains > 1;
    snprintf(out, ES_SAY_SIZE, "%s%.60s", several ? " of " : "", several ? d->name : "");
    return out;
}

void es_pools_unreadable(const es_pools *pools, es_answer *answer)
{
    char of[ES_SAY_SIZE];
    for (int64_t i = 0; i < pools->n_domains; i++) {
        const es_domain *d = &pools->domains[i];
        if (unknown_of(&d->text) > MOST_UNKNOWN)
            es_answer_add_finding(
                answer,
                "Caution: %.3g %% of the text%s is unknown to this model's tokenizer "
                "(%lld of %lld tokens are [UNK]); what follows describes copies of one "
                "token, not the text.",
                100.0 * unknown_of(&d->text), of_domain(pools, d, of), (long long)d->text.unknown,
                (long long)d->text.tokens);
    }
}

/* Adds cautions about the text of one domain: unknown tokens, repetition, few tokens. */
static void caution_domain(const es_pools *p, const es_domain *d, es_answer *a)
{
    const es_text_facts *t = &d->text;
    const long long rows = (long long)es_pool_about(d->pool).tokens;
    char of[ES_SAY_SIZE], fresh[ES_SAY_SIZE];
    of_domain(p, d, of);
    if (unknown_of(t) > SOME_UNKNOWN && unknown_of(t) <= MOST_UNKNOWN)
        es_answer_add_finding(
            a,
            "Caution: %.3g %% of the text%s is unknown to this model's tokenizer (%lld "
            "of %lld tokens are [UNK]).",
            100.0 * unknown_of(t), of, (long long)t->unknown, (long long)t->tokens);
    if (t->repeated > MUCH_REPEATED)
        es_answer_add_finding(
            a,
            "Caution: %.3g %% of the text%s repeats earlier parts of it word for word (runs of "
            "%d tokens): its %lld tokens are worth about %s tokens of new text.",
            100.0 * t->repeated, of, ES_TEXT_STRETCH, (long long)t->tokens,
            es_say_size(ceil((1.0 - t->repeated) * (double)t->tokens), fresh));
    if (rows < FEW_TOKENS)
        es_answer_add_finding(
            a,
            "Caution: only %lld tokens of the text%s were read. The numbers say little about more "
            "text of this kind; take %d tokens or more.",
            rows, of, 10 * FEW_TOKENS);
}

void es_pools_caution(const es_pools *pools, es_answer *answer)
{
    for (int64_t d = 0; d < pools->n_domains; d++)
        caution_domain(pools, &pools->domains[d], answer);
}

void es_caution_scores(const es_model_config *config, const char *what, es_answer *answer)
{
    const bool turned = !config->causal && config->rotary.width;
    char more[128] = "";
    if (turned)
        snprintf(more, sizeof more, "rotary positions%s",
                 es_model_narrowest(config) ? " and windows" : "");
    if (config->head_norms)
        snprintf(more + strlen(more), sizeof more - strlen(more), "%snorms of queries and keys",
                 *more ? ", " : "");
    if (config->score_cap > 0.0)
        snprintf(more + strlen(more), sizeof more - strlen(more), "%sa cap", *more ? ", " : "");
    if (*more)
        es_answer_add_finding(answer,
                              "Caution: %s of scores x'A'y, content alone. Scores of the model "
                              "also have %s.",
                              what, more);
}

/* Ctrl-C ends it. */
static es_status pause_job(const es_job *job, double seconds)
{
    const double until = es_seconds() + seconds;
    while (es_seconds() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        ES_TRY(es_job_tick(job, 0, 1));
    }
    return ES_OK;
}

/* Shards that start together want the same pool: one makes it, the others wait. To look takes
 * reading the text, and so they rest for ten times as long as a look has taken. */
static es_status build_or_wait(es_job *job, const es_pool_spec *spec, es_error *err)
{
    const double shortest = 1.0, longest = 30.0;
    bool waits = false;
    for (;;) {
        const double began = es_seconds();
        const es_status status = es_pool_build(spec, &job->exec, err);
        if (status != ES_E_IO || !job->shards || strcmp(err->rule, "run.locked") != 0)
            return status;
        if (!waits)
            es_log(ES_LOG_WARN, "%s: %s: waiting for the pool", spec->folder, err->message);
        waits = true;
        const double rest = 10.0 * (es_seconds() - began);
        ES_TRY(pause_job(job, fmin(fmax(rest, shortest), longest)));
    }
}

/* Builds or reuses the pool of each domain; all ranks wait for the one that builds it. */
static es_status build_all(es_job *job, es_pools *p, es_error *err)
{
    for (int64_t d = 0; d < p->n_domains; d++) {
        const es_pool_spec spec = spec_of(p, &p->domains[d]);
        es_job_phase(job, "building the pool", p->domains[d].flops);
        ES_TRY(build_or_wait(job, &spec, err));
        es_status status = es_pool_open(spec.folder, &p->domains[d].pool, err);
        if (status == ES_OK && spec.keep)
            status = es_pool_stream(p->domains[d].pool, &spec, err);
        ES_TRY(es_work_agree(&job->exec, status, "", err));
    }
    return ES_OK;
}

es_status es_pools_build(es_job *job, es_pools *pools, es_error *err)
{
    es_mem_limit *budget = job->exec.budget;
    const double held = pools->cost.held_bytes;
    if (budget && budget->limit)
        budget->limit = (double)budget->limit > held ? budget->limit - (size_t)held : 1;
    ES_TRY(name_folders(job, pools, err));
    const es_status status = build_all(job, pools, err);
    if (status == ES_OK)
        put_pools(pools, job->answer);
    if (status == ES_E_INTERRUPTED && (pools->scratch.path[0] || job->out))
        snprintf(err->hint, sizeof err->hint, "%s",
                 pools->scratch.path[0] ? "nothing was stored; --pool-dir DIR allows to continue"
                                        : "repeat the command with --resume to continue");
    /* what is open needs no name any more; unless another machine has it open, too */
    if (es_executor_of(&job->exec)->ranks < 2)
        es_scratch_remove(&pools->scratch);
    return status;
}

const char *es_pools_domain(const es_pools *pools, int64_t domain, es_table *table)
{
    return pools->n_domains > 1 ? es_table_format(table, "%s", pools->domains[domain].name) : NULL;
}

void es_pools_close(es_pools *pools)
{
    for (int64_t d = 0; d < pools->n_domains; d++)
        es_pool_close(pools->domains[d].pool);
    es_scratch_remove(&pools->scratch);
    es_tokenizer_free(pools->tokenizer);
    es_model_close(pools->model);
}
