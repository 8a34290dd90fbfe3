/* oracle_verdict.c : is it the attention you asked for, and if not, what is it? Tables and
 * sentences of measure --compare. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/oracle.h"
#include "table/table.h"

/* ---- tables ---- */

static const es_column their_columns[] = {
    {"head", "head", "", ES_FORMAT_COUNT},
    {"rows", "rows", "", ES_FORMAT_COUNT},
    {"relative_l2", "relative L2", "", ES_FORMAT_SHORT,
     "|theirs - ours| / |ours| over the whole head"},
    {"rms", "rms error", "", ES_FORMAT_SHORT, "root mean square over elements"},
    {"max_abs", "max error", "", ES_FORMAT_SHORT},
    {"max_ulps", "max error", "ulp", ES_FORMAT_SHORT,
     "in units in the last place of our value, in the number format of their file"},
    {"worst_row", "worst row", "", ES_FORMAT_COUNT,
     "the query with the largest relative error of its output row"},
    {"worst_row_relative", "its error", "", ES_FORMAT_SHORT},
    {"largest", "largest error", "", ES_FORMAT_SHORT,
     "of an output row: root mean square over its elements"},
    {"ratio", "of expected", "", ES_FORMAT_SHORT,
     "the largest ratio of a row's error to the error that a kernel of the format may have "
     "(THEORY 17): up to 1 it is met",
     .standing = ES_STANDING_HEURISTIC},
    {"expected", "expected error", "", ES_FORMAT_SHORT, "of the row with that ratio",
     .standing = ES_STANDING_HEURISTIC},
    {"ratio_row", "in row", "", ES_FORMAT_COUNT, "the row with that ratio"},
    {"beyond", "rows beyond", "", ES_FORMAT_COUNT, "rows with a ratio above 1"},
    {"nonfinite", "NaN, Inf", "", ES_FORMAT_COUNT, "elements of theirs that are no finite number"},
    {0}};
static const es_table_spec their_table = {
    "compare_heads",
    their_columns,
    ES_VIEW(
        "Their output against ours (f64 engine)",
        "head ratio beyond largest expected ratio_row relative_l2 rms max_abs max_ulps worst_row "
        "worst_row_relative rows nonfinite"),
    .inside = "compare",
    .nested = "heads",
    .only_inside = true,
    .keys = "head"};

static const es_column verdict_columns[] = {
    {"met", "met", "", ES_FORMAT_FLAG,
     "every row is within the expected error of the format, or of a kernel in it that rounds "
     "scores, which looks_like then names; empty: that is larger than the values, "
     "and nothing can be told"},
    {"format", "format", "", ES_FORMAT_TEXT,
     "in which it was computed: as --compare-dtype says, or the narrowest that holds all its "
     "numbers"},
    {"ratio", "of expected", "", ES_FORMAT_SHORT,
     "the largest ratio of a row's error to the expected error", .standing = ES_STANDING_HEURISTIC},
    {"head", "in head", "", ES_FORMAT_COUNT},
    {"row", "in row", "", ES_FORMAT_COUNT},
    {"largest", "largest error", "", ES_FORMAT_SHORT,
     "of a row: root mean square over its elements"},
    {"expected", "expected error", "", ES_FORMAT_SHORT, "of the row with the largest ratio",
     .standing = ES_STANDING_HEURISTIC},
    {"beyond", "rows beyond", "", ES_FORMAT_COUNT, "rows with a ratio above 1, of all heads"},
    {"rms", "rms error", "", ES_FORMAT_SHORT, "root mean square over all elements"},
    {"relative_l2", "relative L2, all heads", "", ES_FORMAT_SHORT},
    {"ulp_format", "format of their file", "", ES_FORMAT_TEXT},
    {"tolerance", "tolerance", "", ES_FORMAT_SHORT},
    {"passed", "within it", "", ES_FORMAT_FLAG},
    {"looks_like", "looks like", "", ES_FORMAT_TEXT, "the hypothesis that explains all its rows"},
    {0}};
static const es_table_spec verdict_table = {
    "compare", verdict_columns,
    ES_VIEW("Verdict",
            "met format ratio head row beyond largest expected rms relative_l2 tolerance passed "
            "looks_like"),
    .record = true};

static const es_column try_columns[] = {
    {"hypothesis", "hypothesis", "", ES_FORMAT_TEXT},
    {"verdict", "verdict", "", ES_FORMAT_TEXT,
     "met: it explains every row that was looked at; sample: a look at all rows was not needed"},
    {"ratio", "of expected", "", ES_FORMAT_SHORT,
     "the largest ratio of a row's error to the expected error", .standing = ES_STANDING_HEURISTIC},
    {"largest", "largest error", "", ES_FORMAT_SHORT,
     "of a row: root mean square over its elements"},
    {"expected", "expected error", "", ES_FORMAT_SHORT, "of the row with the largest ratio",
     .standing = ES_STANDING_HEURISTIC},
    {"rms", "rms error", "", ES_FORMAT_SHORT, "root mean square over elements"},
    {"rows", "rows", "", ES_FORMAT_COUNT, "of all heads, that were computed"},
    {"is", "what it is", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_view try_views[] = {
    {"What else it may be", "hypothesis verdict ratio largest expected rms rows is",
     "Each is attention with one thing changed, or two where one is a causal mask.",
     .only_with_full = true},
    {0}};
static const es_table_spec try_table = {
    "compare_hypotheses",   try_columns,         try_views,           .inside = "compare",
    .nested = "hypotheses", .only_inside = true, .keys = "hypothesis"};

/* ---- numbers ---- */

/* Of all heads. */
typedef struct total {
    double squares, ours2, allowed, nonfinite, beyond;
    double largest, ratio, expected;
    int64_t head, row;
    double relative, rms;
} total;

static void put_their_head(const measure_state *s, const double *x, int64_t head, es_table *t)
{
    const int64_t rows = measure_queries(s, 0), row = es_table_row(t);
    /* no norm of what is not a number */
    const double unknown = x[MEASURE_THEIR_NONFINITE] > 0.0 ? (double)NAN : 0.0;
    const double error = x[MEASURE_THEIR_ERROR];
    es_put(t, row, {"head", (double)head}, {"rows", (double)rows},
           {"relative_l2", (error > 0.0 ? sqrt(error / x[MEASURE_THEIR_TOTAL]) : 0.0) + unknown},
           {"rms", sqrt(error / ((double)rows * (double)s->dv)) + unknown},
           {"max_abs", x[MEASURE_THEIR_MAX_ABS] + unknown},
           {"max_ulps", x[MEASURE_THEIR_MAX_ULPS] + unknown},
           {"worst_row", x[MEASURE_THEIR_WORST_ROW]},
           {"worst_row_relative", x[MEASURE_THEIR_WORST] + unknown},
           {"largest", x[MEASURE_THEIR_LARGEST] + unknown},
           {"ratio", x[MEASURE_THEIR_RATIO] + unknown}, {"expected", x[MEASURE_THEIR_EXPECTED]},
           {"ratio_row", x[MEASURE_THEIR_ROW]}, {"beyond", x[MEASURE_THEIR_BEYOND]},
           {"nonfinite", x[MEASURE_THEIR_NONFINITE]});
}

static total add_heads(const es_job *job, es_table *heads)
{
    const measure_state *s = job->state;
    total all = {0};
    for (int64_t h = 0; h < s->heads; h++) {
        const double *x = es_job_numbers(job, MEASURE_ATTENTION, h);
        put_their_head(s, x, h, heads);
        all.squares += x[MEASURE_THEIR_ERROR];
        all.ours2 += x[MEASURE_THEIR_TOTAL];
        all.allowed += x[MEASURE_THEIR_ALLOWED];
        all.nonfinite += x[MEASURE_THEIR_NONFINITE];
        all.beyond += x[MEASURE_THEIR_BEYOND];
        all.largest = fmax(all.largest, x[MEASURE_THEIR_LARGEST]);
        if (x[MEASURE_THEIR_RATIO] > all.ratio || h == 0) {
            all.ratio = x[MEASURE_THEIR_RATIO];
            all.expected = x[MEASURE_THEIR_EXPECTED];
            all.head = h;
            all.row = (int64_t)x[MEASURE_THEIR_ROW];
        }
    }
    const double unknown = all.nonfinite > 0.0 ? (double)NAN : 0.0;
    const double count = (double)s->heads * (double)measure_queries(s, 0) * (double)s->dv;
    all.relative = (all.squares == 0.0 ? 0.0 : sqrt(all.squares / all.ours2)) + unknown;
    all.rms = sqrt(all.squares / count) + unknown;
    all.ratio += unknown;
    all.largest += unknown;
    return all;
}

/* ---- hypotheses ---- */

enum { SAID = 256 };

/* "attention with another scale: 0.05, and causal". `after` follows it; a comma that ends it is
 * not needed where another follows, or nothing. */
static const char *say_try(const compare_try *t, const char *after, char out[SAID])
{
    const char *sentence = t->hypothesis->sentence;
    const size_t size = strlen(sentence);
    const bool comma = size && sentence[size - 1] == ',' && (t->mask || *after != ' ');
    snprintf(out, SAID, "%.*s%s%s%s%s%s", (int)(size - comma), sentence,
             t->variant.note[0] ? " " : "", t->variant.note, t->mask ? ", and " : "",
             t->mask ? t->mask->also : "", after);
    return out;
}

/* What is held against a coarser format comes last, however near it looks. */
static int nearest_first(const void *a, const void *b)
{
    const compare_try *s = a, *t = b;
    const double x = s->sum.ratio, y = t->sum.ratio;
    if (!s->variant.format != !t->variant.format)
        return s->variant.format ? 1 : -1;
    if (isnan(x) != isnan(y))
        return isnan(x) ? 1 : -1;
    return x > y ? 1 : x < y ? -1 : (s->at > t->at) - (s->at < t->at);
}

/* "causal+scale-none" */
static const char *name_try(const compare_try *t, char out[ES_KEY_ROOM])
{
    snprintf(out, ES_KEY_ROOM, "%s%s%s", t->mask ? t->mask->name : "", t->mask ? "+" : "",
             t->hypothesis->name);
    return out;
}

static void put_try(const compare_try *t, es_table *table)
{
    char said[SAID], name[ES_KEY_ROOM];
    const compare_sum *sum = &t->sum;
    const int64_t row = es_table_row(table);
    es_table_text(table, row, "hypothesis", name_try(t, name));
    es_table_text(table, row, "is", say_try(t, "", said));
    es_table_text(table, row, "verdict",
                  t->confirmed  ? "met"
                  : t->explains ? "met on a sample"
                                : "not met");
    es_put(table, row, {"rows", (double)sum->rows},
           {"rms", sqrt(sum->squares / (double)sum->elements)}, {"largest", sum->largest},
           {"expected", sum->expected}, {"ratio", sum->ratio});
}

static void put_tries(compare_found *found, es_answer *a)
{
    es_table *t = es_answer_table(a, &try_table);
    if (found->count)
        qsort(found->tries, (size_t)found->count, sizeof *found->tries, nearest_first);
    for (int64_t i = 0; i < found->count; i++)
        put_try(&found->tries[i], t);
}

/* ---- sentences ---- */

enum { NAMED = 64 };

/* A file in a sentence: without its folders, and no longer than one can read. */
static const char *name_file(const char *path, char out[NAMED])
{
    static const char cut[] = "…";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t size = strlen(name);
    const bool all = size < NAMED;
    if (!all)
        size = NAMED - sizeof cut;
    while (!all && ((unsigned char)name[size] & 0xC0) == 0x80) /* inside a character */
        size--;
    snprintf(out, NAMED, "%.*s%s", (int)size, name, all ? "" : cut);
    return out;
}

/* What is not nearer by a factor is no explanation. */
static const double NEARER = 0.1;

/* "all 4096 rows agree", "64 of 4096 rows agree", "1 row agrees" */
static const char *say_rows(const measure_state *s, const compare_try *t, char out[ES_FORMAT_ROOM])
{
    const long long rows = (long long)(s->heads * measure_queries(s, 0));
    if (t->sum.rows < rows)
        snprintf(out, ES_FORMAT_ROOM, "%lld of %lld rows agree", (long long)t->sum.rows, rows);
    else
        snprintf(out, ES_FORMAT_ROOM, rows == 1 ? "%lld row agrees" : "all %lld rows agree", rows);
    return out;
}

/* "full", "causal", "causal windowed", "windowed": the attention that the options describe. */
static const char *name_mask(const measure_params *p)
{
    if (p->window)
        return p->causal ? "causal windowed" : "windowed";
    return p->causal ? "causal" : "full";
}

static void tell_mismatch(const es_job *job, const compare_found *found, const compare_try *match,
                          const total *all, es_answer *a)
{
    const measure_state *s = job->state;
    char said[SAID], file[NAMED], rows[ES_FORMAT_ROOM];
    const char *name = name_file(s->p->compare, file), *format = s->their_format->name;
    const char *mask = name_mask(s->p);
    if (match) {
        es_answer_add_finding(a, "MISMATCH: %s is %s %s (%s); you asked for %s attention.", name,
                              say_try(match, " in", said), format, say_rows(s, match, rows), mask);
    } else if (found->count && found->tries[0].sum.ratio < NEARER * all->ratio) {
        es_answer_add_finding(
            a,
            "MISMATCH: %s is not the %s attention you asked for, and none of %lld known "
            "mistakes explains it; the nearest is %s %.2g times the expected error "
            "away.",
            name, mask, (long long)found->count, say_try(&found->tries[0], ",", said),
            found->tries[0].sum.ratio);
    } else {
        es_answer_add_finding(
            a,
            "MISMATCH: %s is not the %s attention you asked for, and none of %lld known "
            "mistakes explains it.",
            name, mask, (long long)found->count);
    }
    if (all->nonfinite > 0.0)
        es_answer_add_finding(a, "%s holds %.0f element%s that %s not finite (NaN or infinity).",
                              name, all->nonfinite, all->nonfinite == 1.0 ? "" : "s",
                              all->nonfinite == 1.0 ? "is" : "are");
    else
        es_answer_add_finding(
            a,
            "%.0f of %lld rows are further from the exact output than %s explains; the worst is "
            "row %lld of head %lld, %.3g times the expected error of %.2g. Relative L2 error: "
            "%.2g.",
            all->beyond, (long long)(s->heads * measure_queries(s, 0)), format, (long long)all->row,
            (long long)all->head, all->ratio, all->expected, all->relative);
}

static void tell_met(const es_job *job, const total *all, es_answer *a)
{
    const measure_state *s = job->state;
    char file[NAMED];
    es_answer_add_finding(
        a,
        "MATCH: %s is the %s attention you asked for, computed in %s: the worst row "
        "(head %lld, row %lld) has %.2g of the error expected of that format. Relative "
        "L2 error: %.2g.",
        name_file(s->p->compare, file), name_mask(s->p), s->their_format->name,
        (long long)all->head, (long long)all->row, all->ratio, all->relative);
}

/* Beyond (C5) by what kernels of the format may do, and all of it explained. */
static void tell_ordinary(const es_job *job, const compare_try *match, const total *all,
                          es_answer *a)
{
    const measure_state *s = job->state;
    char said[SAID], file[NAMED], rows[ES_FORMAT_ROOM];
    es_answer_add_finding(
        a,
        "MATCH: %s is the %s attention you asked for, from a kernel that rounds scores "
        "to %s: %s (%s). Relative L2 error: %.2g.",
        name_file(s->p->compare, file), name_mask(s->p), s->their_format->name,
        say_try(match, "", said), say_rows(s, match, rows), all->relative);
}

static bool ordinary(const compare_try *match)
{
    return match && !match->mask && match->hypothesis->ordinary;
}

/* Are the values lost among the errors of their format? An output that is of the size of a few of
 * its last digits can then be anything; what is larger, or the same number by number, is told. */
static bool lost(const total *all)
{
    const double few = 4.0;
    return all->nonfinite == 0.0 && all->squares > 0.0 && all->allowed >= all->ours2 &&
           all->squares <= few * few * all->allowed;
}

static void tell_lost(const es_job *job, const total *all, es_answer *a)
{
    const measure_state *s = job->state;
    const double count = (double)s->heads * (double)measure_queries(s, 0) * (double)s->dv;
    char file[NAMED];
    es_answer_add_finding(
        a,
        "UNDECIDED: %s cannot be judged, because the error expected of %s (rms %.2g) is "
        "larger than the outputs (rms %.2g); it is off by %.2g (rms).",
        name_file(s->p->compare, file), s->their_format->name, sqrt(all->allowed / count),
        sqrt(all->ours2 / count), all->rms);
}

/* ---- all of it ---- */

static es_status look_for(es_job *job, const total *all, compare_found *found, es_error *err)
{
    const measure_state *s = job->state;
    es_exec given = job->exec;
    compare_case c = {.s = s,
                      .format = s->their_format,
                      .z = compare_quantile(s->heads * measure_queries(s, 0)),
                      .exec = job->exec,
                      .furthest = {all->head, all->row},
                      .arena = {.budget = job->exec.budget}};
    c.exec.progress = measure_stop_only;
    c.exec.progress_user = &given;
    es_job_phase(job, "looking what it is instead", 0.0);
    ES_TRY(ES_JOB_NEW(job, found->tries, compare_most_tries(), err));
    const es_status status = compare_search(&c, found, err);
    es_arena_free(&c.arena);
    return status;
}

/* With --tolerance that alone decides what the program ends with; what cannot be told is no
 * failure. */
static void decide(es_answer *a, const measure_params *p, const total *all, bool met)
{
    if (isnan(p->tolerance) ? met || lost(all) : all->relative <= p->tolerance)
        return;
    char file[NAMED];
    es_answer_fail_check(a);
    if (isnan(p->tolerance))
        es_log(ES_LOG_ERROR, "check failed: %s is not the %s attention you asked for",
               name_file(p->compare, file), name_mask(p));
    else
        es_log(ES_LOG_ERROR, "check failed: relative L2 error %.3g is above --tolerance %.3g",
               all->relative, p->tolerance);
}

static void put_verdict(const measure_state *s, const total *all, bool met, es_table *t)
{
    const int64_t row = es_table_row(t);
    const double limit = s->p->tolerance;
    es_table_text(t, row, "ulp_format", measure_ulps_of(s));
    es_table_text(t, row, "format", s->their_format->name);
    es_put(t, row, {"met", lost(all) ? (double)NAN : met}, {"ratio", all->ratio},
           {"head", (double)all->head}, {"row", (double)all->row}, {"beyond", all->beyond},
           {"largest", all->largest}, {"expected", all->expected}, {"rms", all->rms},
           {"relative_l2", all->relative}, {"tolerance", limit},
           {"passed", isnan(limit) ? (double)NAN : all->relative <= limit});
}

es_status compare_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    es_table *verdict = es_answer_table(answer, &verdict_table);
    const total all = add_heads(job, es_answer_table(answer, &their_table));
    const bool near = all.nonfinite == 0.0 && all.ratio <= 1.0, searched = !near && !lost(&all);
    compare_found found = {0};
    if (searched)
        ES_TRY(look_for(job, &all, &found, err));
    const compare_try copy = found.match ? *found.match : (compare_try){0};
    const compare_try *match = found.match ? &copy : NULL; /* the list is put in order below */
    const bool met = near || ordinary(match);
    char name[ES_KEY_ROOM];
    put_verdict(s, &all, met, verdict);
    es_table_text(verdict, 0, "looks_like", match ? name_try(match, name) : NULL);
    if (searched)
        put_tries(&found, answer);
    if (lost(&all))
        tell_lost(job, &all, answer);
    else if (near)
        tell_met(job, &all, answer);
    else if (met)
        tell_ordinary(job, match, &all, answer);
    else
        tell_mismatch(job, &found, match, &all, answer);
    decide(answer, s->p, &all, met);
    return ES_OK;
}
