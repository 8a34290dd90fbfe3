/* SPDX-License-Identifier: Apache-2.0 */
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

/* One head. */
typedef struct their_row {
    int64_t head, rows;
    double relative_l2, rms, max_abs, max_ulps;
    int64_t worst_row;
    double worst_row_relative, largest, ratio, expected;
    int64_t ratio_row, beyond, nonfinite;
} their_row;

static const es_column their_columns[] = {
    ES_COL(their_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(their_row, rows, ES_FORMAT_COUNT, "rows", ""),
    ES_COL(their_row, relative_l2, ES_FORMAT_SHORT, "relative L2", "",
           "`|theirs - ours| / |ours|` over the whole head"),
    ES_COL(their_row, rms, ES_FORMAT_SHORT, "rms error", "", "root mean square over elements"),
    ES_COL(their_row, max_abs, ES_FORMAT_SHORT, "max error", ""),
    ES_COL(their_row, max_ulps, ES_FORMAT_SHORT, "max error", "ulp",
           "in units in the last place of our value, in the number format of their file"),
    ES_COL(their_row, worst_row, ES_FORMAT_COUNT, "worst row", "",
           "the query with the largest relative error of its output row"),
    ES_COL(their_row, worst_row_relative, ES_FORMAT_SHORT, "its error", ""),
    ES_COL(their_row, largest, ES_FORMAT_SHORT, "largest error", "",
           "of an output row: root mean square over its elements"),
    ES_COL(their_row, ratio, ES_FORMAT_SHORT, "of expected", "",
           "the largest ratio of a row's error to the error that a kernel of the format may have "
           "(THEORY 17): up to 1 it is met",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(their_row, expected, ES_FORMAT_SHORT, "expected error", "", "of the row with that ratio",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(their_row, ratio_row, ES_FORMAT_COUNT, "in row", "", "the row with that ratio"),
    ES_COL(their_row, beyond, ES_FORMAT_COUNT, "rows beyond", "", "rows with a ratio above 1"),
    ES_COL(their_row, nonfinite, ES_FORMAT_COUNT, "NaN, Inf", "",
           "elements of theirs that are no finite number"),
    {0}};
static const es_table_spec their_table = {
    "compare_heads",
    their_columns,
    ES_VIEW(
        "Their output against ours (f64 engine)",
        "head ratio beyond largest expected ratio_row relative_l2 rms max_abs max_ulps worst_row "
        "worst_row_relative rows nonfinite"),
    ES_ROW(their_row),
    .inside = "compare",
    .nested = "heads",
    .only_inside = true,
    .keys = "head"};

/* The verdict on all heads. */
typedef struct verdict_row {
    double met; /* 1, 0, or NaN: undecided */
    const char *format;
    double ratio;
    int64_t head, row;
    double largest, expected, beyond, rms, relative_l2;
    const char *ulp_format;
    double tolerance, passed; /* NaN without --tolerance */
    const char *looks_like;
} verdict_row;

static const es_column verdict_columns[] = {
    ES_COL(verdict_row, met, ES_FORMAT_FLAG, "met", "",
           "every row is within the expected error of the format, or of a kernel in it that rounds "
           "scores, which looks_like then names; empty: that is larger than the values, "
           "and the row cannot be judged"),
    ES_COL(verdict_row, format, ES_FORMAT_TEXT, "format", "",
           "in which it was computed: as --compare-dtype says, or the narrowest that holds all its "
           "numbers"),
    ES_COL(verdict_row, ratio, ES_FORMAT_SHORT, "of expected", "",
           "the largest ratio of a row's error to the expected error",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(verdict_row, head, ES_FORMAT_COUNT, "in head", ""),
    ES_COL(verdict_row, row, ES_FORMAT_COUNT, "in row", ""),
    ES_COL(verdict_row, largest, ES_FORMAT_SHORT, "largest error", "",
           "of a row: root mean square over its elements"),
    ES_COL(verdict_row, expected, ES_FORMAT_SHORT, "expected error", "",
           "of the row with the largest ratio", .standing = ES_STANDING_HEURISTIC),
    ES_COL(verdict_row, beyond, ES_FORMAT_COUNT, "rows beyond", "",
           "rows with a ratio above 1, of all heads"),
    ES_COL(verdict_row, rms, ES_FORMAT_SHORT, "rms error", "",
           "root mean square over all elements"),
    ES_COL(verdict_row, relative_l2, ES_FORMAT_SHORT, "relative L2, all heads", ""),
    ES_COL(verdict_row, ulp_format, ES_FORMAT_TEXT, "format of their file", ""),
    ES_COL(verdict_row, tolerance, ES_FORMAT_SHORT, "tolerance", ""),
    ES_COL(verdict_row, passed, ES_FORMAT_FLAG, "within it", ""),
    ES_COL(verdict_row, looks_like, ES_FORMAT_TEXT, "looks like", "",
           "the hypothesis that explains all its rows"),
    {0}};
static const es_table_spec verdict_table = {
    "compare", verdict_columns,
    ES_VIEW("Verdict",
            "met format ratio head row beyond largest expected rms relative_l2 tolerance passed "
            "looks_like"),
    ES_ROW(verdict_row), .record = true};

/* One hypothesis that was tried. */
typedef struct try_row {
    const char *hypothesis, *verdict;
    double ratio, largest, expected, rms;
    int64_t rows;
    const char *is;
} try_row;

static const es_column try_columns[] = {
    ES_COL(try_row, hypothesis, ES_FORMAT_TEXT, "hypothesis", ""),
    ES_COL(try_row, verdict, ES_FORMAT_TEXT, "verdict", "",
           "met: it explains every row that was looked at; sample: a look at all rows was not "
           "needed"),
    ES_COL(try_row, ratio, ES_FORMAT_SHORT, "of expected", "",
           "the largest ratio of a row's error to the expected error",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(try_row, largest, ES_FORMAT_SHORT, "largest error", "",
           "of a row: root mean square over its elements"),
    ES_COL(try_row, expected, ES_FORMAT_SHORT, "expected error", "",
           "of the row with the largest ratio", .standing = ES_STANDING_HEURISTIC),
    ES_COL(try_row, rms, ES_FORMAT_SHORT, "rms error", "", "root mean square over elements"),
    ES_COL(try_row, rows, ES_FORMAT_COUNT, "rows", "", "of all heads, that were computed"),
    ES_COL(try_row, is, ES_FORMAT_TEXT, "what it is", ""),
    {0}};
static const es_table_view try_views[] = {
    {"What else it may be", "hypothesis verdict ratio largest expected rms rows is",
     "Each is attention with one thing changed, or two where one is a causal mask.",
     .only_with_full = true},
    {0}};
static const es_table_spec try_table = {
    "compare_hypotheses", try_columns,         try_views,
    ES_ROW(try_row),      .inside = "compare", .nested = "hypotheses",
    .only_inside = true,  .keys = "hypothesis"};

/* ---- numbers ---- */

/* Of all heads. */
typedef struct total {
    double squares, ours2, allowed, nonfinite, beyond;
    double largest, ratio, expected;
    int64_t head, row;
    int64_t only;   /* the head with all rows beyond; -1: several have some */
    int64_t bad[3]; /* head, row and column of the first element that is not finite */
    double relative, rms;
} total;

/* Fills the row of a head. Norms over elements that are not finite do not exist: NaN. */
static void fill_their(const measure_state *s, const measure_their *x, int64_t head, their_row *r)
{
    const double unknown = x->nonfinite > 0.0 ? (double)NAN : 0.0;
    r->head = head;
    r->rows = measure_queries(s, 0);
    r->relative_l2 = (x->error > 0.0 ? sqrt(x->error / x->total) : 0.0) + unknown;
    r->rms = sqrt(x->error / ((double)r->rows * (double)s->dv)) + unknown;
    r->max_abs = x->max_abs + unknown;
    r->max_ulps = x->max_ulps + unknown;
    r->worst_row = (int64_t)x->worst_row;
    r->worst_row_relative = x->worst + unknown;
    r->largest = x->largest + unknown;
    r->ratio = x->ratio + unknown;
    r->expected = x->expected;
    r->ratio_row = (int64_t)x->expected_row;
    r->beyond = (int64_t)x->beyond;
    r->nonfinite = (int64_t)x->nonfinite;
}

/* Adds a row for each head and sums them up. */
static es_status add_heads(const es_job *job, es_answer *answer, total *out, es_error *err)
{
    const measure_state *s = job->state;
    es_table *t = es_answer_table(answer, &their_table);
    total all = {.only = -1};
    for (int64_t h = 0; h < s->heads; h++) {
        const measure_their *x = &measure_found(job, h, 0)->their;
        their_row *r = es_rows_add(t, their_row);
        if (!r)
            return es_answer_status(answer, err);
        fill_their(s, x, h, r);
        all.squares += x->error;
        all.ours2 += x->total;
        all.allowed += x->allowed;
        if (x->nonfinite > 0.0 && all.nonfinite == 0.0) {
            all.bad[0] = h;
            all.bad[1] = (int64_t)x->nonfinite_row;
            all.bad[2] = (int64_t)x->nonfinite_col;
        }
        if (x->beyond > 0.0)
            all.only = all.beyond > 0.0 ? -1 : h;
        all.nonfinite += x->nonfinite;
        all.beyond += x->beyond;
        all.largest = fmax(all.largest, x->largest);
        if (x->ratio > all.ratio || h == 0) {
            all.ratio = x->ratio;
            all.expected = x->expected;
            all.head = h;
            all.row = (int64_t)x->expected_row;
        }
    }
    const double unknown = all.nonfinite > 0.0 ? (double)NAN : 0.0;
    const double count = (double)s->heads * (double)measure_queries(s, 0) * (double)s->dv;
    all.relative = (all.squares == 0.0 ? 0.0 : sqrt(all.squares / all.ours2)) + unknown;
    all.rms = sqrt(all.squares / count) + unknown;
    all.ratio += unknown;
    all.largest += unknown;
    *out = all;
    return ES_OK;
}

/* ---- hypotheses ---- */

enum { SAID = 256 };

/* Writes "attention with another scale: 0.05, and causal", followed by `after`. The note stands at
 * the # of the sentence, or behind it. A comma that ends the sentence is dropped before another
 * comma, and at the end. */
static const char *say_try(const compare_try *t, const char *after, char out[SAID])
{
    const char *sentence = t->hypothesis->sentence, *note = t->variant.note;
    const size_t size = strlen(sentence), place = strcspn(sentence, "#");
    const bool comma = size && sentence[size - 1] == ',' && (t->mask || *after != ' ');
    const bool inside = place < size;
    snprintf(out, SAID, "%.*s%s%s%s%s%s%s", (int)(inside ? place : size - comma), sentence,
             *note && !inside ? " " : "", note, inside ? sentence + place + 1 : "",
             t->mask ? ", and " : "", t->mask ? t->mask->also : "", after);
    return out;
}

/* Orders tries by ratio; those held against a coarser format come last. */
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

/* Writes "causal+scale-none". */
static const char *name_try(es_table *table, const compare_try *t)
{
    return es_table_format(table, "%s%s%s", t->mask ? t->mask->name : "", t->mask ? "+" : "",
                           t->hypothesis->name);
}

/* Adds the hypotheses that were tried, nearest first. */
static es_status add_tries(compare_found *found, es_answer *answer, es_error *err)
{
    es_table *table = es_answer_table(answer, &try_table);
    char said[SAID];
    if (found->count)
        qsort(found->tries, (size_t)found->count, sizeof *found->tries, nearest_first);
    for (int64_t i = 0; i < found->count; i++) {
        const compare_try *t = &found->tries[i];
        try_row *r = es_rows_add(table, try_row);
        if (!r)
            return es_answer_status(answer, err);
        r->hypothesis = name_try(table, t);
        r->is = es_table_format(table, "%s", say_try(t, "", said));
        r->verdict = t->confirmed ? "met" : t->explains ? "met on a sample" : "not met";
        r->rows = t->sum.rows;
        r->rms = sqrt(t->sum.squares / (double)t->sum.elements);
        r->largest = t->sum.largest;
        r->expected = t->sum.expected;
        r->ratio = t->sum.ratio;
    }
    return ES_OK;
}

/* ---- sentences ---- */

enum { NAMED = 64 };

/* Writes the name of a file: without directories, cut to a readable length. */
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

/* A hypothesis is named as nearest only if it is nearer than what was asked for by this factor, and
 * its rows are within this share of the size of outputs. */
static const double NEARER = 0.1, NEAR = 0.1;

/* Writes "all 4096 rows agree", "64 of 4096 rows agree", "1 row agrees" */
static const char *say_rows(const measure_state *s, const compare_try *t, char out[ES_FORMAT_SIZE])
{
    const long long rows = (long long)(s->heads * measure_queries(s, 0));
    if (t->sum.rows < rows)
        snprintf(out, ES_FORMAT_SIZE, "%lld of %lld rows agree", (long long)t->sum.rows, rows);
    else
        snprintf(out, ES_FORMAT_SIZE, rows == 1 ? "%lld row agrees" : "all %lld rows agree", rows);
    return out;
}

/* Names the attention that the options describe: "full", "causal", "causal windowed", "windowed".
 */
static const char *name_mask(const measure_params *p)
{
    if (p->window)
        return p->causal ? "causal windowed" : "windowed";
    return p->causal ? "causal" : "full";
}

/* Returns the distance of a try from the output, over the size of outputs. */
static double distance_of(const compare_try *t) { return sqrt(t->sum.squares / t->sum.ours2); }

/* Returns the try that is nearest over all of its rows, if it is near enough to be named although
 * it explains nothing; else NULL. Dropout is judged on few rows, whose distance says nothing. */
static const compare_try *nearest_try(const compare_found *found, const total *all)
{
    const compare_try *nearest = NULL;
    double least = INFINITY;
    for (int64_t i = 0; i < found->count; i++)
        if (found->tries[i].variant.dropout == 0.0 && distance_of(&found->tries[i]) < least) {
            nearest = &found->tries[i];
            least = distance_of(nearest);
        }
    return least <= NEAR && nearest->sum.ratio < NEARER * all->ratio ? nearest : NULL;
}

/* Writes "; all wrong rows are in head 3", or nothing where several heads have some. */
static const char *say_only(const measure_state *s, const total *all, char out[ES_FORMAT_SIZE])
{
    out[0] = '\0';
    if (s->heads > 1 && all->only >= 0 && all->beyond > 1.0)
        snprintf(out, ES_FORMAT_SIZE, "; all wrong rows are in head %lld", (long long)all->only);
    return out;
}

/* Reports an output that nothing explains. Rows that are right are counted first. */
static void report_unexplained(const measure_state *s, const compare_found *found, const total *all,
                               es_answer *a)
{
    char said[SAID], file[NAMED], nearest[SAID + 64] = "", only[ES_FORMAT_SIZE];
    const long long rows = (long long)(s->heads * measure_queries(s, 0));
    const long long right = rows - (long long)all->beyond;
    const char *name = name_file(s->p->compare, file), *mask = name_mask(s->p);
    const compare_try *near = nearest_try(found, all);
    if (near)
        snprintf(nearest, sizeof nearest, "; the nearest is %s %.2g of the size of outputs away",
                 say_try(near, ",", said), distance_of(near));
    if (2 * right >= rows)
        es_answer_add_finding(a,
                              "MISMATCH: %lld of %lld rows of %s are the %s attention you asked "
                              "for; row %lld of head %lld is not%s. No known mistake explains "
                              "it%s.",
                              right, rows, name, mask, (long long)all->row, (long long)all->head,
                              say_only(s, all, only), nearest);
    else
        es_answer_add_finding(a,
                              "MISMATCH: %s is not the %s attention you asked for: %lld of %lld "
                              "rows are right. No known mistake explains it%s.%s",
                              name, mask, right, rows, nearest,
                              *nearest ? ""
                                       : " Q, K or V themselves may differ: another rotary base, "
                                         "another entry of the batch.");
}

/* Writes "holds 1 element that is not finite (NaN or infinity), in head 2, row 7, column 5". */
static const char *say_nonfinite(const total *all, char out[SAID])
{
    const bool one = all->nonfinite == 1.0;
    snprintf(out, SAID,
             "holds %.0f element%s that %s not finite (NaN or infinity), %sin head %lld, row %lld, "
             "column %lld",
             all->nonfinite, one ? "" : "s", one ? "is" : "are", one ? "" : "the first ",
             (long long)all->bad[0], (long long)all->bad[1], (long long)all->bad[2]);
    return out;
}

/* Returns the number of rows of theirs with elements that are not finite. */
static int64_t nonfinite_rows(const measure_state *s)
{
    int64_t count = 0;
    for (int64_t h = 0; h < s->heads; h++) {
        const es_view y = es_array_head(&s->arrays[MEASURE_Y], &s->at[MEASURE_Y], h);
        for (int64_t i = 0; i < measure_queries(s, 0); i++) {
            int64_t c = 0;
            while (c < y.cols && isfinite(es_view_get(&y, i, c)))
                c++;
            count += c < y.cols;
        }
    }
    return count;
}

/* Writes "The other 4 rows hold the NaN or infinities." if no other row is wrong. */
static const char *say_rest(const measure_state *s, const total *all, char out[SAID])
{
    if ((double)nonfinite_rows(s) < all->beyond)
        snprintf(out, SAID, "No known mistake explains the rest.");
    else if (all->beyond == 1.0)
        snprintf(out, SAID, "The other row holds %s.",
                 all->nonfinite == 1.0 ? "that element" : "those elements");
    else
        snprintf(out, SAID, "The other %.0f rows hold the NaN or infinities.", all->beyond);
    return out;
}

/* Reports an output with elements that are not finite, which no hypothesis explains. */
static void report_nonfinite(const measure_state *s, const total *all, es_answer *a)
{
    char said[SAID], file[NAMED], only[ES_FORMAT_SIZE], rest[SAID];
    const long long rows = (long long)(s->heads * measure_queries(s, 0));
    es_answer_add_finding(
        a, "MISMATCH: %s %s. %lld of %lld rows are the %s attention you asked for%s. %s",
        name_file(s->p->compare, file), say_nonfinite(all, said), rows - (long long)all->beyond,
        rows, name_mask(s->p), say_only(s, all, only), say_rest(s, all, rest));
}

/* Reports how far off an output is, or which of its elements are not finite. Sizes are root mean
 * squares over elements. */
static void report_distance(const measure_state *s, const total *all, es_answer *a)
{
    const double count = (double)s->heads * (double)measure_queries(s, 0) * (double)s->dv;
    char file[NAMED], said[SAID];
    if (all->nonfinite > 0.0)
        es_answer_add_finding(a, "%s %s.", name_file(s->p->compare, file),
                              say_nonfinite(all, said));
    else
        es_answer_add_finding(
            a,
            "%.0f of %lld rows %s further from the attention you asked for than %s explains. The "
            "worst, row %lld of head %lld, is off by %.2g times the size of the outputs, which is "
            "%.3g times the expected error.",
            all->beyond, (long long)(s->heads * measure_queries(s, 0)),
            all->beyond == 1.0 ? "is" : "are", s->their_format->name, (long long)all->row,
            (long long)all->head, all->ratio * all->expected / sqrt(all->ours2 / count),
            all->ratio);
}

/* Reports a mismatch: what it is instead, and how far it is off. */
static void report_mismatch(const es_job *job, const compare_found *found, const compare_try *match,
                            const total *all, es_answer *a)
{
    const measure_state *s = job->state;
    char said[SAID], file[NAMED], rows[ES_FORMAT_SIZE];
    if (match)
        es_answer_add_finding(a, "MISMATCH: %s agrees with %s %s (%s); you asked for %s attention.",
                              name_file(s->p->compare, file), say_try(match, " in", said),
                              s->their_format->name, say_rows(s, match, rows), name_mask(s->p));
    else if (all->nonfinite > 0.0) {
        report_nonfinite(s, all, a);
        return;
    } else
        report_unexplained(s, found, all, a);
    report_distance(s, all, a);
}

/* Reports a match. */
static void report_met(const es_job *job, const total *all, es_answer *a)
{
    const measure_state *s = job->state;
    char file[NAMED];
    es_answer_add_finding(
        a,
        "MATCH: %s is the %s attention you asked for, computed in %s: its worst row has %.2g of "
        "the error expected of that format.",
        name_file(s->p->compare, file), name_mask(s->p), s->their_format->name, all->ratio);
}

/* Reports a match of a kernel that rounds scores: beyond (C5), but explained. */
static void report_ordinary(const es_job *job, const compare_try *match, const total *all,
                            es_answer *a)
{
    const measure_state *s = job->state;
    char said[SAID], file[NAMED], rows[ES_FORMAT_SIZE];
    es_answer_add_finding(
        a,
        "MATCH: %s is the %s attention you asked for, from a kernel that rounds scores "
        "to %s: %s (%s). Relative L2 error: %.2g.",
        name_file(s->p->compare, file), name_mask(s->p), s->their_format->name,
        say_try(match, "", said), say_rows(s, match, rows), all->relative);
}

/* Returns whether correct kernels of the format may do what the match does. */
static bool ordinary(const compare_try *match)
{
    return match && !match->mask && match->hypothesis->ordinary;
}

/* Returns whether the values are smaller than the errors of their format. Then an output within a
 * few such errors cannot be judged; one that is further off, or equal number by number, can. */
static bool lost(const total *all)
{
    const double few = 4.0;
    return all->nonfinite == 0.0 && all->squares > 0.0 && all->allowed >= all->ours2 &&
           all->squares <= few * few * all->allowed;
}

/* Reports that the output cannot be judged. */
static void report_lost(const es_job *job, const total *all, es_answer *a)
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

/* Searches for what the output is instead. */
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

/* Fails the check if the output does not match. With --tolerance that alone decides; an undecided
 * output is no failure. */
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

/* Adds the verdict; match is NULL where no hypothesis explains the output. */
static es_status add_verdict(const measure_state *s, const total *all, bool met,
                             const compare_try *match, es_answer *answer, es_error *err)
{
    es_table *t = es_answer_table(answer, &verdict_table);
    verdict_row *r = es_rows_add(t, verdict_row);
    if (!r)
        return es_answer_status(answer, err);
    r->met = lost(all) ? (double)NAN : met;
    r->format = s->their_format->name;
    r->ratio = all->ratio;
    r->head = all->head;
    r->row = all->row;
    r->largest = all->largest;
    r->expected = all->expected;
    r->beyond = all->beyond;
    r->rms = all->rms;
    r->relative_l2 = all->relative;
    r->ulp_format = measure_ulps_of(s);
    r->tolerance = s->p->tolerance;
    r->passed = isnan(r->tolerance) ? (double)NAN : all->relative <= r->tolerance;
    if (match)
        r->looks_like = name_try(t, match);
    return ES_OK;
}

es_status compare_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const measure_state *s = job->state;
    total all = {0};
    es_answer_table(answer, &verdict_table); /* the first table */
    ES_TRY(add_heads(job, answer, &all, err));
    const bool near = all.nonfinite == 0.0 && all.ratio <= 1.0, searched = !near && !lost(&all);
    compare_found found = {0};
    if (searched)
        ES_TRY(look_for(job, &all, &found, err));
    const compare_try copy = found.match ? *found.match : (compare_try){0};
    const compare_try *match = found.match ? &copy : NULL; /* add_tries() sorts the list */
    const bool met = near || ordinary(match);
    ES_TRY(add_verdict(s, &all, met, match, answer, err));
    if (searched)
        ES_TRY(add_tries(&found, answer, err));
    if (lost(&all))
        report_lost(job, &all, answer);
    else if (near)
        report_met(job, &all, answer);
    else if (met)
        report_ordinary(job, match, &all, answer);
    else
        report_mismatch(job, &found, match, &all, answer);
    decide(answer, s->p, &all, met);
    return ES_OK;
}
