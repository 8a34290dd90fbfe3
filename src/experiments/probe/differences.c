/* SPDX-License-Identifier: Apache-2.0 */
/* differences.c : the table differences: do domains differ? The same head has other numbers on two
 * texts of one kind. It is called different where they differ by more than sections of either text
 * do among themselves, corrected for the number of rows. */
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

/* One quantity of a head on a domain and on the first. */
typedef struct difference_row {
    const char *domain, *against;
    int64_t layer, head;
    const char *quantity;
    es_measured ratio;
    double ratio_low, ratio_high, t, freedom, p_alone, p;
    const char *differs;
} difference_row;

static const es_column difference_columns[] = {
    ES_COL(difference_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(difference_row, against, ES_FORMAT_TEXT, "against", ""),
    ES_COL(difference_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(difference_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(difference_row, quantity, ES_FORMAT_TEXT, "of", "",
           "tokens: for outputs within a tenth of their spread, by the form for large n, sampling "
           "over a "
           "hundredth of the squared spread; score sd: standard deviation of scores, as among the "
           "heads"),
    ES_COL(difference_row, ratio, ES_FORMAT_REAL, "ratio", "",
           "of the two domains; standard error by the jackknife over 16 sections of either text, "
           "keys and "
           "queries"),
    ES_COL_KEY(difference_row, ratio_low, "ratio_ci.0", ES_FORMAT_REAL, "ratio from", "",
               "95 % interval, Student's t of the logarithm"),
    ES_COL_KEY(difference_row, ratio_high, "ratio_ci.1", ES_FORMAT_REAL, "ratio to", ""),
    ES_COL(difference_row, t, ES_FORMAT_SHORT, "t", "errors",
           "of the logarithm of the ratio, by Welch"),
    ES_COL(difference_row, freedom, ES_FORMAT_SHORT, "freedom", "", "degrees of freedom of t"),
    ES_COL(difference_row, p_alone, ES_FORMAT_SHORT, "p alone", "", "two-sided, of this row alone"),
    ES_COL(difference_row, p, ES_FORMAT_SHORT, "p", "", "for all rows together, by Holm"),
    ES_COL(
        difference_row, differs, ES_FORMAT_TEXT, "differs", "",
        "p at most 0.01: where all texts are of one kind, any row says yes with probability 0.01"),
    {0}};
const es_table_spec probe_differences_table = {
    "differences", difference_columns,
    ES_VIEW("Do domains differ?", "domain against layer head quantity ratio t p_alone p differs"),
    ES_ROW(difference_row), .keys = "domain against layer head quantity"};

static const char *const trait_names[ES_PROBE_TRAITS] = {"tokens", "score sd"};

/* The trait of a head, and its error over sections. */
static es_grouped trait_of(const es_job *job, int64_t domain, int64_t head, int trait)
{
    const probe_state *s = job->state;
    const double *cell = es_job_numbers(job, PROBE_SECTIONS, domain * s->layers + head / s->heads) +
                         (head % s->heads * ES_PROBE_TRAITS + trait) * (1 + ES_PROBE_SECTIONS);
    return es_jackknife(cell[0], cell + 1, ES_PROBE_SECTIONS);
}

/* Traits are logarithms, so that their difference is that of a ratio. */
static void fill_difference(const es_job *job, int64_t domain, int64_t head, int trait,
                            es_table *table, difference_row *r)
{
    const probe_state *s = job->state;
    const es_grouped here = trait_of(job, domain, head, trait),
                     first = trait_of(job, 0, head, trait);
    const es_welch_test test = es_welch(here, first);
    const double ratio = exp(here.value - first.value), se = hypot(here.se, first.se);
    const double reach = se * es_student_quantile(test.freedom, 0.025);
    r->domain = es_pools_domain(&s->pools, domain, table);
    r->against = es_pools_domain(&s->pools, 0, table);
    r->quantity = trait_names[trait];
    r->layer = head / s->heads;
    r->head = head % s->heads;
    r->ratio = (es_measured){ratio, ratio * se};
    r->ratio_low = ratio * exp(-reach);
    r->ratio_high = ratio * exp(reach);
    r->t = test.t;
    r->freedom = test.freedom;
    r->p_alone = test.p;
}

/* Corrects p for the number of rows. */
static es_status correct(es_job *job, const es_table *t, es_error *err)
{
    difference_row *rows = es_rows(t, difference_row);
    const int64_t count = es_table_rows(t);
    double *p;
    ES_TRY(ES_JOB_NEW(job, p, count, err));
    for (int64_t i = 0; i < count; i++)
        p[i] = rows[i].p_alone;
    ES_TRY(es_holm(p, count, p, err));
    for (int64_t i = 0; i < count; i++) {
        rows[i].p = p[i];
        rows[i].differs = p[i] <= 0.01 ? "yes" : "no";
    }
    return ES_OK;
}

/* Heads that differ from those of the first domain in one quantity, and the range of ratios. */
static void report_trait(const es_table *t, int trait, es_answer *a)
{
    const difference_row *rows = es_rows(t, difference_row);
    long long differ = 0, all = 0;
    double least = INFINITY, most = 0.0;
    for (int64_t i = trait; i < es_table_rows(t); i += ES_PROBE_TRAITS) {
        differ += rows[i].differs[0] == 'y';
        all++;
        least = fmin(least, rows[i].ratio.value);
        most = fmax(most, rows[i].ratio.value);
    }
    es_answer_add_finding(
        a,
        "%s: %lld of %lld heads differ from the same head on the first domain by more than "
        "sections "
        "of one text do (p at most 0.01, Holm). The ratios to the first domain are %.3g to %.3g.",
        trait == ES_PROBE_NEED ? "Tokens for 10 % error" : "Standard deviation of scores", differ,
        all, least, most);
}

es_status probe_compare_domains(es_job *job, es_table *table, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    for (int64_t d = 1; d < s->pools.n_domains; d++)
        for (int64_t h = 0; h < s->layers * s->heads; h++)
            for (int trait = 0; trait < ES_PROBE_TRAITS; trait++) {
                difference_row *r = es_rows_add(table, difference_row);
                if (!r)
                    return es_answer_status(answer, err);
                fill_difference(job, d, h, trait, table, r);
            }
    ES_TRY(correct(job, table, err));
    for (int trait = 0; trait < ES_PROBE_TRAITS; trait++)
        report_trait(table, trait, answer);
    return ES_OK;
}
