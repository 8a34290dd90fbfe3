/* domains.c : do domains differ? The same head on two texts has other numbers even if both
 * are of one kind, because texts are: it is called different where that is more than sections of
 * either text differ among themselves, and after as many questions as there are rows. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"
#include "stats/special.h"

/* ---- the stage ---- */

es_probe_price probe_sections_price(const probe_state *s)
{
    return s->pools.n_domains > 1 ? es_probe_sections_price(&s->spec, s->pools.cost.tokens)
                                  : (es_probe_price){0};
}

int64_t probe_sections_group(const es_job *job)
{
    return probe_layers_together(job, (double)probe_sections_price(job->state).bytes);
}

/* Layers that are together in a group are of one domain or of two, one after the other. */
static es_status run_sections(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                              double *out, es_error *err)
{
    const probe_state *s = job->state;
    const es_stage *stage = &job->stages[PROBE_SECTIONS];
    const int64_t after = (group + 1) * stage->group;
    const int64_t end = after < stage->cells ? after : stage->cells;
    (void)part;
    for (int64_t at = group * stage->group, count; at < end; at += count) {
        const es_probe_spec spec = probe_spec_at(s, at, exec);
        const int64_t next = (at / s->layers + 1) * s->layers;
        count = (next < end ? next : end) - at;
        ES_TRY(es_probe_sections_of(&spec, at % s->layers, count, out, err));
        out += count * stage->rows;
    }
    return ES_OK;
}

es_status probe_add_sections(es_job *job, es_error *err)
{
    static const char *const number[] = {"number"};
    const probe_state *s = job->state;
    const int64_t cells = s->pools.n_domains > 1 ? probe_places(s) : 0;
    const int64_t group = cells ? probe_sections_group(job) : 1;
    const int64_t rows = s->heads * ES_PROBE_TRAITS * (1 + ES_PROBE_SECTIONS);
    const es_stage stage = {"sections",
                            .phase = "leaving out sections of the text",
                            .noun = "layers",
                            .cells = cells,
                            .rows = rows,
                            .cols = 1,
                            .columns = number,
                            .reports_progress = true,
                            .flops = probe_sections_price(s).flops +
                                     s->pools.cost.flops * probe_forwards(s, 1, group) /
                                         (double)probe_places(s),
                            .group = group,
                            .part_numbers = group * rows,
                            .run_part = run_sections};
    return es_job_stage(job, &stage, err);
}

/* ---- the table ---- */

static const es_column difference_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"against", "against", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"quantity", "of", "", ES_FORMAT_TEXT,
     "tokens: for outputs within a tenth of their spread, by the form for large n, sampling over a "
     "hundredth of the squared spread; score sd: standard deviation of scores, as among the heads"},
    {"ratio", "ratio", "", ES_FORMAT_REAL,
     "of the two domains; its standard error is from leaving out one of 16 sections of either text "
     "after the other, keys and queries",
     .error = "ratio_se"},
    {"ratio_ci.0", "ratio from", "", ES_FORMAT_REAL, "95 % interval, Student's t of the logarithm"},
    {"ratio_ci.1", "ratio to", "", ES_FORMAT_REAL},
    {"t", "t", "errors", ES_FORMAT_SHORT, "of the logarithm of the ratio, by Welch"},
    {"freedom", "freedom", "", ES_FORMAT_SHORT, "degrees of freedom of t"},
    {"p_alone", "p alone", "", ES_FORMAT_SHORT, "two-sided, of this row alone"},
    {"p", "p", "", ES_FORMAT_SHORT, "for all rows together, by Holm"},
    {"differs", "differs", "", ES_FORMAT_TEXT,
     "p at most 0.01: that any row at all says yes where texts are of one kind has probability "
     "0.01"},
    {0}};
const es_table_spec probe_differences_table = {
    "differences", difference_columns,
    ES_VIEW("Do domains differ?", "domain against layer head quantity ratio t p_alone p differs"),
    .keys = "domain against layer head quantity"};

static const char *const trait_names[ES_PROBE_TRAITS] = {"tokens", "score sd"};

static es_grouped trait_of(const es_job *job, int64_t domain, int64_t head, int trait)
{
    const probe_state *s = job->state;
    const double *cell = es_job_numbers(job, PROBE_SECTIONS, domain * s->layers + head / s->heads) +
                         (head % s->heads * ES_PROBE_TRAITS + trait) * (1 + ES_PROBE_SECTIONS);
    return es_jackknife(cell[0], cell + 1, ES_PROBE_SECTIONS);
}

static void put_difference(const es_job *job, int64_t domain, int64_t head, int trait, es_table *t)
{
    const probe_state *s = job->state;
    const es_grouped here = trait_of(job, domain, head, trait),
                     first = trait_of(job, 0, head, trait);
    const es_welch_test test = es_welch(here, first);
    const double ratio = exp(here.value - first.value), se = hypot(here.se, first.se);
    const double reach = se * es_student_quantile(test.freedom, 0.025);
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "domain", s->pools.domains[domain].name);
    es_table_text(t, row, "against", s->pools.domains[0].name);
    es_table_text(t, row, "quantity", trait_names[trait]);
    es_put(t, row, {"layer", (double)(head / s->heads)}, {"head", (double)(head % s->heads)},
           {"ratio", ratio}, {"ratio_se", ratio * se}, {"ratio_ci.0", ratio * exp(-reach)},
           {"ratio_ci.1", ratio * exp(reach)}, {"t", test.t}, {"freedom", test.freedom},
           {"p_alone", test.p});
}

static es_status correct(es_job *job, es_table *t, es_error *err)
{
    const int64_t rows = es_table_rows(t);
    double *p;
    ES_TRY(ES_JOB_NEW(job, p, rows, err));
    for (int64_t i = 0; i < rows; i++)
        p[i] = es_table_get(t, i, "p_alone");
    ES_TRY(es_holm(p, rows, p, err));
    for (int64_t i = 0; i < rows; i++) {
        es_table_real(t, i, "p", p[i]);
        es_table_text(t, i, "differs", p[i] <= 0.01 ? "yes" : "no");
    }
    return ES_OK;
}

/* Heads that differ from those of the first domain in one quantity, and the ratios' range. */
static void tell_trait(const es_table *t, int trait, es_answer *a)
{
    long long differ = 0, all = 0;
    double least = INFINITY, most = 0.0;
    for (int64_t i = trait; i < es_table_rows(t); i += ES_PROBE_TRAITS) {
        const double ratio = es_table_get(t, i, "ratio");
        differ += es_table_get_text(t, i, "differs")[0] == 'y';
        all++;
        least = fmin(least, ratio);
        most = fmax(most, ratio);
    }
    es_answer_add_finding(
        a,
        "%s: %lld of %lld heads differ from those on the first domain by more than "
        "sections of one text do (p at most 0.01 for all %lld questions together, by "
        "Holm); ratios are from %.3g to %.3g.",
        trait == ES_PROBE_NEED ? "Tokens for a tenth" : "Score sd", differ, all,
        (long long)es_table_rows(t), least, most);
}

es_status probe_compare_domains(es_job *job, es_table *table, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    for (int64_t d = 1; d < s->pools.n_domains; d++)
        for (int64_t h = 0; h < s->layers * s->heads; h++)
            for (int trait = 0; trait < ES_PROBE_TRAITS; trait++)
                put_difference(job, d, h, trait, table);
    ES_TRY(correct(job, table, err));
    for (int trait = 0; trait < ES_PROBE_TRAITS; trait++)
        tell_trait(table, trait, answer);
    return ES_OK;
}
