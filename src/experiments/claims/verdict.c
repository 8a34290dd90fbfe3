/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c : from evidence to a verdict, and from the verdict to words.
 *
 * A verdict follows from standard errors alone: nobody looks at a plot and finds it convincing. And
 * the words follow from the verdict: what a claim has to say about its numbers is kept for the
 * verdict it was written for. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

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
    [ES_CLAIM_READING] = {"readings and habits", "holds as a reading", "fails as a reading",
                          ES_VERDICT_FAILS},
};

static bool is_group(es_claim_group group)
{
    return group >= ES_CLAIM_PAPER && group <= ES_CLAIM_READING;
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

static void add(es_finding *f, es_evidence e, const char *fmt, va_list args)
{
    if (f->count == ES_CLAIM_EVIDENCE)
        return;
    vsnprintf(e.label, sizeof e.label, fmt, args);
    f->evidence[f->count++] = e;
}

void es_evidence_equal(es_finding *f, double predicted, double allowance, double resolution,
                       es_measured m, int64_t tries, const char *fmt, ...)
{
    const bool about = allowance > 1e-3 * fabs(predicted);
    va_list args;
    va_start(args, fmt);
    add(f,
        (es_evidence){.relation = about ? ES_RELATION_ABOUT : ES_RELATION_EQUAL,
                      .predicted = predicted,
                      .allowance = allowance,
                      .resolution = resolution,
                      .measured = m.value,
                      .se = m.se,
                      .tries = tries},
        fmt, args);
    va_end(args);
}

void es_evidence_bound(es_finding *f, es_relation relation, double bound, es_measured m,
                       int64_t tries, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(f,
        (es_evidence){.relation = relation,
                      .predicted = bound,
                      .measured = m.value,
                      .se = m.se,
                      .tries = tries},
        fmt, args);
    va_end(args);
}

/* ---- one piece ---- */

static bool is_equality(const es_evidence *e)
{
    return e->relation == ES_RELATION_EQUAL || e->relation == ES_RELATION_ABOUT;
}

/* How far the measurement is inside what is claimed; below 0: outside. */
static double inside(const es_evidence *e)
{
    const double above = e->measured - e->predicted;
    return is_equality(e)                        ? e->allowance - fabs(above)
           : e->relation == ES_RELATION_AT_LEAST ? above
                                                 : -above;
}

/* A claim of many pieces has as many chances to be refused wrongly, so they share one level
 * (Bonferroni); and a standard error from few draws is itself uncertain, which Student's law knows.
 */
static double line_of(const es_finding *f, int i)
{
    const es_evidence *e = &f->evidence[i], *before = i ? e - 1 : NULL;
    if (e->se == 0.0)
        return 0.0;
    if (before && before->se > 0.0 && before->tries == e->tries)
        return before->sigmas; /* the same, and a quantile is slow to find */
    return es_student_quantile((double)(e->tries - 1), 0.5 * ES_CLAIM_LEVEL / f->count);
}

/* A piece fails only where it is outside by more than its errors allow. It holds only if it could
 * have failed: with an error larger than the resolution anything would agree, and a bound that is
 * within the error may be on either side. */
static es_verdict judge(const es_evidence *e)
{
    const double margin = e->sigmas * e->se, room = inside(e);
    if (!isfinite(room) || !isfinite(margin))
        return ES_VERDICT_UNDECIDED;
    if (room < -margin)
        return ES_VERDICT_FAILS;
    return margin > (is_equality(e) ? e->resolution : room) ? ES_VERDICT_UNDECIDED
                                                            : ES_VERDICT_HOLDS;
}

static void weigh(es_finding *f, int i)
{
    es_evidence *e = &f->evidence[i];
    const double room = inside(e);
    e->sigmas = line_of(f, i);
    e->slack = fabs(e->predicted) > e->allowance ? room / fabs(e->predicted) : (double)NAN;
    e->slack_se = e->se > 0.0 ? room / e->se : (double)NAN;
    e->verdict = judge(e);
}

/* ---- all of them ---- */

/* One failure outweighs everything, one open question outweighs agreement. */
static int gravity(const es_evidence *e)
{
    return e->verdict == ES_VERDICT_FAILS ? 2 : e->verdict == ES_VERDICT_UNDECIDED ? 1 : 0;
}

/* In standard errors; what is computed has none, and is inside for sure or outside for sure. */
static double room_of(const es_evidence *e)
{
    const double room = inside(e);
    return e->se > 0.0 ? room / e->se : room < 0.0 ? -(double)INFINITY : (double)INFINITY;
}

/* Is `a` nearer to refuting the claim than `b`? */
static bool graver(const es_evidence *a, const es_evidence *b)
{
    if (gravity(a) != gravity(b))
        return gravity(a) > gravity(b);
    if (room_of(a) != room_of(b))
        return room_of(a) < room_of(b);
    return a->slack < b->slack;
}

void es_finding_decide(es_finding *f)
{
    f->decisive = 0;
    for (int i = 0; i < f->count; i++)
        weigh(f, i);
    for (int i = 1; i < f->count; i++)
        if (graver(&f->evidence[i], &f->evidence[f->decisive]))
            f->decisive = i;
    f->verdict = f->count ? f->evidence[f->decisive].verdict : ES_VERDICT_UNDECIDED;
}

/* ---- words ---- */

void es_finding_remark(es_finding *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->remark, sizeof f->remark, fmt, args);
    va_end(args);
}

static int count_of(const es_finding *f, es_verdict verdict)
{
    int count = 0;
    for (int i = 0; i < f->count; i++)
        count += f->evidence[i].verdict == verdict;
    return count;
}

/* "Contradicted in 2 of 9 comparisons; furthest off" */
static void say_verdict(const es_finding *f, es_claim_group group, char *out, size_t room)
{
    const char *which = f->verdict == ES_VERDICT_HOLDS   ? "closest to failing"
                        : f->verdict == ES_VERDICT_FAILS ? "furthest off"
                                                         : "most in doubt";
    snprintf(out, room, "%s in %d of %d comparison%s; %s", es_claim_verdict_name(group, f->verdict),
             count_of(f, f->verdict), f->count, f->count == 1 ? "" : "s", which);
    out[0] = (char)toupper((unsigned char)out[0]);
}

/* "5.1", "248": two digits, and from ten on whole. */
static const char *say_distance(double se, char out[ES_SAY_ROOM])
{
    if (se >= 9.95)
        return es_say_size(rint(se), out);
    snprintf(out, ES_SAY_ROOM, "%.2g", se);
    return out;
}

/* "11 standard errors inside"; outside, also how many the verdict allows. */
static void say_room(const es_evidence *e, char *out, size_t room)
{
    char by[ES_SAY_ROOM];
    if (e->se == 0.0)
        snprintf(out, room, e->tries ? "of %lld draws" : "computed, not sampled",
                 (long long)e->tries);
    else if (e->slack_se < 0.0)
        snprintf(out, room, "%s standard errors outside, up to %.2g allowed",
                 say_distance(-e->slack_se, by), e->sigmas);
    else
        snprintf(out, room, "%s standard errors inside", say_distance(e->slack_se, by));
}

/* "rate of the mean, H = 1: 0.36 ± 0.01, expected >= 0.25 (11 standard errors inside)" */
static void say_piece(const es_evidence *e, char *out, size_t room)
{
    char measured[ES_SAY_ROOM], distance[160];
    say_room(e, distance, sizeof distance);
    snprintf(out, room, "%s: %s, expected %s %.4g (%s)", e->label,
             es_say_number(e->measured, e->se > 0.0 ? e->se : (double)NAN, measured),
             es_relation_name(e->relation), e->predicted, distance);
}

void es_finding_conclude(es_finding *f, es_claim_group group)
{
    char verdict[96], piece[256] = "there is no evidence";
    es_finding_decide(f);
    say_verdict(f, group, verdict, sizeof verdict);
    if (f->count)
        say_piece(&f->evidence[f->decisive], piece, sizeof piece);
    const bool fits = f->verdict == es_claim_expected(group) && f->remark[0];
    snprintf(f->conclusion, sizeof f->conclusion, "%s: %s.%s%s", verdict, piece, fits ? " " : "",
             fits ? f->remark : "");
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

/* " (2 undecided)", or nothing. */
static const char *say_undecided(const es_claim_tally *tally, es_claim_group group,
                                 char out[ES_SAY_ROOM])
{
    const int64_t count = tally->of[group][ES_VERDICT_UNDECIDED];
    out[0] = '\0';
    if (count)
        snprintf(out, ES_SAY_ROOM, " (%lld undecided)", (long long)count);
    return out;
}

void es_claim_headline(const es_claim_tally *tally, char *out, size_t room)
{
    const long long contradicted = tally->of[ES_CLAIM_PAPER][ES_VERDICT_FAILS];
    char some[ES_SAY_ROOM] = "none is", open[ES_CLAIM_GROUPS][ES_SAY_ROOM];
    if (contradicted)
        snprintf(some, sizeof some, "%lld %s", contradicted, contradicted == 1 ? "is" : "are");
    snprintf(out, room,
             "Of %lld statements of four papers %s contradicted at the sizes tried%s; %lld of %lld "
             "results of this project are confirmed%s; %lld of %lld readings and habits fail as "
             "readings%s.",
             (long long)es_claim_tally_group(tally, ES_CLAIM_PAPER), some,
             say_undecided(tally, ES_CLAIM_PAPER, open[ES_CLAIM_PAPER]),
             (long long)tally->of[ES_CLAIM_RESULT][ES_VERDICT_HOLDS],
             (long long)es_claim_tally_group(tally, ES_CLAIM_RESULT),
             say_undecided(tally, ES_CLAIM_RESULT, open[ES_CLAIM_RESULT]),
             (long long)tally->of[ES_CLAIM_READING][ES_VERDICT_FAILS],
             (long long)es_claim_tally_group(tally, ES_CLAIM_READING),
             say_undecided(tally, ES_CLAIM_READING, open[ES_CLAIM_READING]));
}
