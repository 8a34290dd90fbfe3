#include <esscher/claims.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "study/claim_kit.h"

static const es_claim_entry *const tables[] = {
    es_claims_gaussian, es_claims_exponents, es_claims_ball,    es_claims_hardmax,
    es_claims_sphere,   es_claims_regimes,   es_claims_average, es_claims_collapse,
    es_claims_rope,     es_claims_pitfalls};

static const es_claim_entry *entry_at(int64_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const es_claim_entry *e = tables[t]; e->claim.id; e++)
            if (index-- == 0)
                return e;
    return NULL;
}

int64_t es_claims_count(void)
{
    int64_t count = 0;
    while (entry_at(count))
        count++;
    return count;
}

const es_claim *es_claim_at(int64_t index)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    return e ? &e->claim : NULL;
}

const char *es_verdict_name(es_verdict verdict)
{
    return verdict == ES_VERDICT_HOLDS   ? "holds"
           : verdict == ES_VERDICT_FAILS ? "does not hold"
                                         : "not decided";
}

es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    if (!opts || !out)
        return es_fail(err, ES_E_ARGUMENT, "claims.null", "", "a pointer is NULL");
    if (!e)
        return es_fail(err, ES_E_RANGE, "claims.index", "see es_claims_count()",
                       "there is no claim %lld", (long long)index);
    *out = (es_finding){0};
    return e->check(opts, out, err);
}

/* ---- evidence ---- */

static es_verdict judge(const es_evidence *e, double resolution)
{
    const double margin = ES_CLAIM_SIGMAS * e->se;
    const double above = e->measured - e->predicted;
    if (!isfinite(above) || !isfinite(margin))
        return ES_VERDICT_UNDECIDED;
    if (e->relation == ES_RELATION_EQUAL)
        return fabs(above) > margin + e->slack ? ES_VERDICT_FAILS
               : margin > resolution           ? ES_VERDICT_UNDECIDED
                                               : ES_VERDICT_HOLDS;
    const double side = e->relation == ES_RELATION_AT_LEAST ? above : -above;
    return side > margin    ? ES_VERDICT_HOLDS
           : side < -margin ? ES_VERDICT_FAILS
                            : ES_VERDICT_UNDECIDED;
}

static void add(es_finding *f, es_evidence e, double resolution, const char *fmt, va_list args)
{
    if (f->count == ES_CLAIM_EVIDENCE)
        return;
    vsnprintf(e.label, sizeof e.label, fmt, args);
    e.verdict = judge(&e, resolution);
    f->evidence[f->count++] = e;
}

void es_evidence_equal(es_finding *f, double predicted, double slack, double resolution,
                       es_measured m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(f,
        (es_evidence){.relation = ES_RELATION_EQUAL,
                      .predicted = predicted,
                      .slack = slack,
                      .measured = m.value,
                      .se = m.se},
        resolution, fmt, args);
    va_end(args);
}

void es_evidence_at_least(es_finding *f, double bound, es_measured m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(f,
        (es_evidence){
            .relation = ES_RELATION_AT_LEAST, .predicted = bound, .measured = m.value, .se = m.se},
        0.0, fmt, args);
    va_end(args);
}

void es_evidence_at_most(es_finding *f, double bound, es_measured m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(f,
        (es_evidence){
            .relation = ES_RELATION_AT_MOST, .predicted = bound, .measured = m.value, .se = m.se},
        0.0, fmt, args);
    va_end(args);
}

void es_finding_decide(es_finding *f)
{
    static const int gravity[] = {
        [ES_VERDICT_HOLDS] = 0, [ES_VERDICT_UNDECIDED] = 1, [ES_VERDICT_FAILS] = 2};
    f->decisive = 0;
    for (int i = 1; i < f->count; i++)
        if (gravity[f->evidence[i].verdict] > gravity[f->evidence[f->decisive].verdict])
            f->decisive = i;
    f->verdict = f->count ? f->evidence[f->decisive].verdict : ES_VERDICT_UNDECIDED;
}

void es_finding_conclude(es_finding *f, const char *fmt, ...)
{
    va_list args;
    es_finding_decide(f);
    va_start(args, fmt);
    vsnprintf(f->conclusion, sizeof f->conclusion, fmt, args);
    va_end(args);
}
