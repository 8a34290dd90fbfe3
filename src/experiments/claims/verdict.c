/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c : from evidence to a verdict, and from the verdict to words.
 *
 * A verdict follows from standard errors alone. The words follow from the verdict: the remark of a
 * claim is shown only beside the verdict that it was written for. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiments/claims/claim_kit.h"
#include "experiments/claims/claims.h"
#include "experiments/kit/answer_kit.h"
#include "stats/special.h"

static const struct {
    const char *name, *holds, *fails;
    es_verdict expected;
} groups[ES_CLAIM_GROUPS] = {
    [ES_CLAIM_PAPER] = {"statements of the papers", "consistent", "contradicted", ES_VERDICT_HOLDS},
    [ES_CLAIM_RESULT] = {"results of this project", "confirmed", "not confirmed", ES_VERDICT_HOLDS},
    [ES_CLAIM_ASSUMPTION] = {"common assumptions", "holds", "does not hold", ES_VERDICT_FAILS},
};

/* Returns whether there is such a group. */
static bool is_group(es_claim_group group)
{
    return group >= ES_CLAIM_PAPER && group <= ES_CLAIM_ASSUMPTION;
}

const char *es_claim_group_name(es_claim_group group)
{
    return is_group(group) ? groups[group].name : "";
}

es_verdict es_claim_expected(es_claim_group group)
{
    return is_group(group) ? groups[group].expected : ES_VERDICT_UNDECIDED;
}

const char *es_claim_verdict_name(es_claim_group group, es_verdict verdict)
{
    if (!is_group(group) || verdict == ES_VERDICT_UNDECIDED)
        return "undecided";
    return verdict == ES_VERDICT_HOLDS ? groups[group].holds : groups[group].fails;
}

const char *es_relation_name(es_relation relation)
{
    static const char *const names[] = {
        [ES_RELATION_EQUAL] = "=",
        [ES_RELATION_AT_LEAST] = ">=",
        [ES_RELATION_AT_MOST] = "<=",
        [ES_RELATION_ABOUT] = "~",
    };
    return relation >= ES_RELATION_EQUAL && relation <= ES_RELATION_ABOUT ? names[relation] : "";
}

/* ---- evidence ---- */

es_evidence es_evidence_equal(double predicted, double allowance, double resolution, es_measured m,
                              int64_t tries)
{
    const bool about = allowance > 1e-3 * fabs(predicted);
    return (es_evidence){.relation = about ? ES_RELATION_ABOUT : ES_RELATION_EQUAL,
                         .predicted = predicted,
                         .allowance = allowance,
                         .resolution = resolution,
                         .measured = m,
                         .tries = (double)tries};
}

es_evidence es_evidence_bound(es_relation relation, double bound, es_measured m, int64_t tries)
{
    return (es_evidence){
        .relation = relation, .predicted = bound, .measured = m, .tries = (double)tries};
}

void es_evidence_add(es_finding *f, es_evidence e)
{
    if (f->count < ES_CLAIM_EVIDENCE)
        f->evidence[f->count++] = e;
}

/* ---- one piece ---- */

/* Returns the relation of a piece. */
static es_relation relation_of(const es_evidence *e) { return (es_relation)e->relation; }

/* Returns whether measured and predicted should be equal, exactly or about. */
static bool is_equality(const es_evidence *e)
{
    return relation_of(e) == ES_RELATION_EQUAL || relation_of(e) == ES_RELATION_ABOUT;
}

/* Returns how far the measurement is inside what is claimed; below 0: outside. */
static double inside(const es_evidence *e)
{
    const double above = e->measured.value - e->predicted;
    return is_equality(e)                           ? e->allowance - fabs(above)
           : relation_of(e) == ES_RELATION_AT_LEAST ? above
                                                    : -above;
}

/* Returns the standard errors by which piece i may be outside. A claim of many pieces has as many
 * chances to fail wrongly, so they share one level (Bonferroni). A standard error from few draws is
 * itself uncertain, hence Student's law. */
static double line_of(const es_finding *f, int i)
{
    const es_evidence *e = &f->evidence[i], *before = i ? e - 1 : NULL;
    if (e->measured.se == 0.0)
        return 0.0;
    if (before && before->measured.se > 0.0 && before->tries == e->tries)
        return f->judged[i - 1].sigmas; /* the same, and a quantile is slow to find */
    return es_student_quantile(e->tries - 1.0, 0.5 * ES_CLAIM_LEVEL / f->count);
}

/* Returns the verdict of a piece. It fails only where it is outside by more than its errors allow.
 * It holds only if it could have failed: with an error larger than the resolution anything would
 * agree, and a bound that is within the error may be on either side. */
static es_verdict judge(const es_evidence *e, double sigmas)
{
    const double margin = sigmas * e->measured.se, margin_left = inside(e);
    if (!isfinite(margin_left) || !isfinite(margin))
        return ES_VERDICT_UNDECIDED;
    if (margin_left < -margin)
        return ES_VERDICT_FAILS;
    return margin > (is_equality(e) ? e->resolution : margin_left) ? ES_VERDICT_UNDECIDED
                                                                   : ES_VERDICT_HOLDS;
}

/* Fills what follows from piece i. */
static void weigh(es_finding *f, int i)
{
    const es_evidence *e = &f->evidence[i];
    es_judgement *j = &f->judged[i];
    const double left = inside(e), size = fabs(e->predicted), se = e->measured.se;
    j->sigmas = line_of(f, i);
    j->slack = size > e->allowance ? left / size : (double)NAN;
    j->slack_se = se > 0.0 ? left / se : (double)NAN;
    j->verdict = judge(e, j->sigmas);
}

/* ---- all of them ---- */

/* Returns how much a verdict weighs: one failure outweighs everything, one open question outweighs
 * agreement. */
static int gravity(const es_judgement *j)
{
    return j->verdict == ES_VERDICT_FAILS ? 2 : j->verdict == ES_VERDICT_UNDECIDED ? 1 : 0;
}

/* Returns how far piece i is inside, in standard errors; a computed number has none, and is
 * infinitely far inside or outside. */
static double margin_of(const es_finding *f, int i)
{
    const double left = inside(&f->evidence[i]), se = f->evidence[i].measured.se;
    return se > 0.0 ? left / se : left < 0.0 ? -(double)INFINITY : (double)INFINITY;
}

/* Returns whether piece a is nearer to refuting the claim than piece b. */
static bool graver(const es_finding *f, int a, int b)
{
    if (gravity(&f->judged[a]) != gravity(&f->judged[b]))
        return gravity(&f->judged[a]) > gravity(&f->judged[b]);
    if (margin_of(f, a) != margin_of(f, b))
        return margin_of(f, a) < margin_of(f, b);
    return f->judged[a].slack < f->judged[b].slack;
}

void es_finding_decide(es_finding *f)
{
    f->decisive = 0;
    for (int i = 0; i < f->count; i++)
        weigh(f, i);
    for (int i = 1; i < f->count; i++)
        if (graver(f, i, f->decisive))
            f->decisive = i;
    f->verdict = f->count ? f->judged[f->decisive].verdict : ES_VERDICT_UNDECIDED;
}

/* ---- words ---- */

/* Appends a text to out (capacity), of which *used bytes are taken. */
static void append(char *out, size_t capacity, size_t *used, const char *text)
{
    const int wrote = snprintf(out + *used, capacity - *used, "%s", text);
    *used += (size_t)wrote < capacity - *used ? (size_t)wrote : capacity - *used - 1;
}

/* Copies the label of a piece; each {key} becomes the next of its numbers. */
static void write_label(const es_evidence *e, const char *from, char *out, size_t capacity)
{
    size_t used = 0;
    int next = 0;
    while (*from && used + 1 < capacity) {
        if (*from != '{') {
            out[used++] = *from++;
            continue;
        }
        char number[32] = "";
        if (next < ES_LABEL_NUMBERS)
            snprintf(number, sizeof number, "%.6g", e->shown[next++]);
        append(out, capacity, &used, number);
        from = strchr(from, '}') + 1;
    }
    out[used] = '\0';
}

/* Returns the number that stands in a remark for piece e: m, p, s or x. */
static double remark_number(const es_evidence *e, char which)
{
    return which == 'p'   ? e->predicted
           : which == 's' ? e->measured.se
           : which == 'x' ? exp(e->measured.value)
                          : e->measured.value;
}

/* Copies a remark; {m3.2} becomes what evidence 3 measured, with 2 decimals. */
static void write_remark(const es_finding *f, const char *from, char *out, size_t capacity)
{
    size_t used = 0;
    while (*from && used + 1 < capacity) {
        char which, close, number[32];
        int piece, digits;
        if (sscanf(from, "{%c%d.%d%c", &which, &piece, &digits, &close) != 4 || close != '}') {
            out[used++] = *from++;
            continue;
        }
        snprintf(number, sizeof number, "%.*f", digits, remark_number(&f->evidence[piece], which));
        append(out, capacity, &used, number);
        from = strchr(from, '}') + 1;
    }
    out[used] = '\0';
}

/* Returns how many pieces have a verdict. */
static int count_of(const es_finding *f, es_verdict verdict)
{
    int count = 0;
    for (int i = 0; i < f->count; i++)
        count += f->judged[i].verdict == verdict;
    return count;
}

/* Writes "Contradicted in 2 of 9 comparisons; furthest off". */
static void say_verdict(const es_finding *f, es_claim_group group, char *out, size_t capacity)
{
    const char *which = f->verdict == ES_VERDICT_HOLDS   ? "closest to failing"
                        : f->verdict == ES_VERDICT_FAILS ? "furthest off"
                                                         : "most in doubt";
    snprintf(out, capacity, "%s in %d of %d comparison%s; %s",
             es_claim_verdict_name(group, f->verdict), count_of(f, f->verdict), f->count,
             f->count == 1 ? "" : "s", which);
    out[0] = (char)toupper((unsigned char)out[0]);
}

/* Writes "5.1" or "248": two digits, and from ten on whole. */
static const char *say_distance(double se, char out[ES_SAY_SIZE])
{
    if (se >= 9.95)
        return es_say_size(rint(se), out);
    snprintf(out, ES_SAY_SIZE, "%.2g", se);
    return out;
}

/* Writes "11 standard errors inside"; outside, also how many the verdict allows. */
static void say_margin(const es_evidence *e, const es_judgement *j, char *out, size_t capacity)
{
    char by[ES_SAY_SIZE];
    if (e->measured.se == 0.0)
        snprintf(out, capacity, e->tries > 0.0 ? "of %.0f draws" : "computed, not sampled",
                 e->tries);
    else if (j->slack_se < 0.0)
        snprintf(out, capacity, "%s standard errors outside, up to %.2g allowed",
                 say_distance(-j->slack_se, by), j->sigmas);
    else
        snprintf(out, capacity, "%s standard errors inside", say_distance(j->slack_se, by));
}

/* Writes "rate of the mean, H = 1: 0.36 ± 0.01, expected >= 0.25 (11 standard errors inside)". */
static void say_piece(const es_finding *f, int i, char *out, size_t capacity)
{
    const es_evidence *e = &f->evidence[i];
    const es_measured m = e->measured;
    char measured[ES_SAY_SIZE], distance[160];
    say_margin(e, &f->judged[i], distance, sizeof distance);
    snprintf(out, capacity, "%s: %s, expected %s %.4g (%s)", f->judged[i].label,
             es_say_number(m.value, m.se > 0.0 ? m.se : (double)NAN, measured),
             es_relation_name(relation_of(e)), e->predicted, distance);
}

void es_finding_conclude(es_finding *f, const es_claim_entry *entry)
{
    const es_claim_group group = entry->claim.group;
    char verdict[96], piece[256] = "there is no evidence", remark[352] = "";
    es_finding_decide(f);
    for (int i = 0; i < f->count; i++)
        write_label(&f->evidence[i], entry->pieces[(int)f->evidence[i].piece].label,
                    f->judged[i].label, sizeof f->judged[i].label);
    say_verdict(f, group, verdict, sizeof verdict);
    if (f->count)
        say_piece(f, f->decisive, piece, sizeof piece);
    if (f->verdict == es_claim_expected(group) && entry->remark)
        write_remark(f, entry->remark, remark, sizeof remark);
    snprintf(f->conclusion, sizeof f->conclusion, "%s: %s.%s%s", verdict, piece, *remark ? " " : "",
             remark);
}

/* ---- tallies ---- */

int64_t es_claim_tally_group(const es_claim_tally *tally, es_claim_group group)
{
    return tally->of[group][ES_VERDICT_HOLDS] + tally->of[group][ES_VERDICT_FAILS] +
           tally->of[group][ES_VERDICT_UNDECIDED];
}

int64_t es_claim_tally_unexpected(const es_claim_tally *tally)
{
    return tally->of[ES_CLAIM_PAPER][ES_VERDICT_FAILS] +
           tally->of[ES_CLAIM_RESULT][ES_VERDICT_FAILS];
}

/* Writes " (2 undecided)", or nothing. */
static const char *say_undecided(const es_claim_tally *tally, es_claim_group group,
                                 char out[ES_SAY_SIZE])
{
    const int64_t count = tally->of[group][ES_VERDICT_UNDECIDED];
    out[0] = '\0';
    if (count)
        snprintf(out, ES_SAY_SIZE, " (%lld undecided)", (long long)count);
    return out;
}

void es_claim_headline(const es_claim_tally *tally, char *out, size_t capacity)
{
    const long long contradicted = tally->of[ES_CLAIM_PAPER][ES_VERDICT_FAILS];
    char some[ES_SAY_SIZE] = "none is", open[ES_CLAIM_GROUPS][ES_SAY_SIZE];
    if (contradicted)
        snprintf(some, sizeof some, "%lld %s", contradicted, contradicted == 1 ? "is" : "are");
    snprintf(out, capacity,
             "Of %lld statements of four papers %s contradicted at the sizes tried%s; %lld of %lld "
             "results of this project are confirmed%s; %lld of %lld common assumptions that no "
             "paper states do not hold%s.",
             (long long)es_claim_tally_group(tally, ES_CLAIM_PAPER), some,
             say_undecided(tally, ES_CLAIM_PAPER, open[ES_CLAIM_PAPER]),
             (long long)tally->of[ES_CLAIM_RESULT][ES_VERDICT_HOLDS],
             (long long)es_claim_tally_group(tally, ES_CLAIM_RESULT),
             say_undecided(tally, ES_CLAIM_RESULT, open[ES_CLAIM_RESULT]),
             (long long)tally->of[ES_CLAIM_ASSUMPTION][ES_VERDICT_FAILS],
             (long long)es_claim_tally_group(tally, ES_CLAIM_ASSUMPTION),
             say_undecided(tally, ES_CLAIM_ASSUMPTION, open[ES_CLAIM_ASSUMPTION]));
}
