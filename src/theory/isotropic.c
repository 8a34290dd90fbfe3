/* SPDX-License-Identifier: Apache-2.0 */
/* isotropic.c : finite-n prediction for S = I, A = H O, V = I, by quadrature (THEORY 4.5): what two
 * tokens do together, then one token and the prediction. */
#include "theory/theory.h"

#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/influence.h"
#include "theory/predict.h"
#include "theory/quadrature.h"
#include "theory/rem.h"

/* ==== two tokens together ====
 * What two tokens do to the covariance of outputs, beyond what each does. Gamma Gamma' =
 * sum w_j w_k y_j y_k'. Given tokens y and z, the part that neither explains alone is, to leading
 * order in 1/d, E[w_y w_z] (y z' + z y') less the same of the mean, c(y) c(z)' + c(z) c(y)'. With
 * g(y) = s e^-s y, E[w_y w_z] y z' = int phi^{n-2} g(y) g(z)' dl (4.2), so that its square,
 * averaged over y and z for two queries at rho = <e, e'>, follows from the traces of E_y g g'',
 * which are the series of influence.h in Hermite coefficients of g, multiplied in pairs at every l.
 */

/* Orders k = 1 .. ORDERS; of each the coefficient of g along e, h_k, and across, h_{k-1}. */
enum { ORDERS = 16, TERMS = 2 * ORDERS };

/* E_q int phi^{n-2} a b dl for terms a and b; term 2(k-1) is along, 2(k-1)+1 across. */
typedef struct two_tokens {
    double at[TERMS][TERMS];
} two_tokens;

#define T_WIDEST 8.5   /* t is a standard normal */
#define T_SPACE  0.125 /* h_16 has waves of length 1.6 */
enum { POINTS = 137 }; /* from -T_WIDEST to T_WIDEST */

/* h_k(t), k <= ORDERS, times the normal density, at every t, as terms of a token: t h_k
 * along, h_{k-1} across. */
typedef struct term_table {
    double at[POINTS][TERMS];
} term_table;

/* Tabulates normalised Hermite functions by their recursion; rows are integration points. */
static void fill_term_table(term_table *x)
{
    for (int i = 0; i < POINTS; i++) {
        const double t = -T_WIDEST + T_SPACE * i;
        double h = 0.3989422804014327 * T_SPACE * exp(-0.5 * t * t), before = 0.0;
        for (int k = 1; k <= ORDERS; k++) {
            x->at[i][2 * (k - 1) + 1] = h;
            const double next = (t * h - sqrt((double)(k - 1)) * before) / sqrt((double)k);
            before = h;
            h = next;
            x->at[i][2 * (k - 1)] = h * t;
        }
    }
}

/* Hermite coefficients of g at one l. */
static void terms_at(const term_table *x, double q, double l, double *row)
{
    for (int a = 0; a < TERMS; a++)
        row[a] = 0.0;
    for (int i = 0; i < POINTS; i++) {
        const double score = q * (-T_WIDEST + T_SPACE * i) - l;
        if (score < -40.0 || score > 4.5) /* s e^-s is nothing */
            continue;
        const double kernel = exp(score - exp(score));
        for (int a = 0; a < TERMS; a++)
            row[a] += kernel * x->at[i][a];
    }
}

/* += factor * (at this q among n tokens; one of the others is at r e unless r is NaN). Some 1 ms.
 */
static es_status add_second(double n, double q, double r, double factor, es_mem_limit *budget,
                            two_tokens *out, es_error *err)
{
    const double others = n - (isnan(r) ? 2.0 : 3.0);
    const es_scores_grid grid = {.extra_most = q * (isnan(r) ? T_WIDEST : fmax(r, T_WIDEST))};
    es_scores s;
    term_table x;
    fill_term_table(&x);
    ES_TRY(es_scores_make(fmax(others, 1.0), q, &grid, budget, &s, err));
    for (int64_t j = 0; j < s.count; j++) {
        const double l = s.top - (double)j * s.step;
        double density = factor * s.step * es_scores_power(s.tail[j], others);
        if (!isnan(r))
            density *= exp(-exp(q * r - l));
        if (density < 1e-300)
            continue;
        double row[TERMS];
        terms_at(&x, q, l, row);
        for (int a = 0; a < TERMS; a++)
            for (int b = 0; b < TERMS; b++)
                out->at[a][b] += density * row[a] * row[b];
    }
    es_scores_free(&s);
    return ES_OK;
}

/* Fills the factors of tr E_y g g*' for two queries e and e* at rho = <e, e*> (THEORY 4.5):
 *
 *     tr E_y g g*' = sum_k sum_{i,j} factor[k-1][i][j] x_i x*_j,   x_0 = a_k (along), x_1 = b_k
 *     g(y) = f(t) y,  t = <e, y>,  a_k = E t f(t) h_k(t),  b_k = E f(t) h_{k-1}(t),  k >= 1.
 *
 * Write y = t e + y_perp for each query. Mehler's formula E h_j(t) h_k(t*) = rho^k for j = k, else
 * 0, and Stein's identity E (t - rho t*) F(t) G(t*) = (1 - rho^2) E F'(t) G(t*) give
 *
 *     along,  along :  rho E (t f)(t* f*)         = sum rho^{k+1} a_k a*_k
 *     along,  across:  E t f (t - rho t*) f*      = sum sqrt(k) rho^{k-1} (1 - rho^2) a_k b*_k
 *     across, across:  E f f* <y_perp, y*_perp>   = sum rho^{k-1} (d - 1 - k (1 - rho^2)) b_k b*_k
 *
 * (in the last, d - 2 directions are orthogonal to both queries, and the one that is left has
 * rho^2 E f f* - rho (1 - rho^2) E f' f*'). Order 0, the constant a_0 e, does not depend on the
 * token and is left out. */
static void trace_factors(double rho, double d, double factor[ORDERS][2][2])
{
    const double across = 1.0 - rho * rho;
    double power = 1.0; /* rho^{k-1} */
    for (int k = 1; k <= ORDERS; k++, power *= rho) {
        factor[k - 1][0][0] = power * rho * rho;
        factor[k - 1][0][1] = factor[k - 1][1][0] = sqrt((double)k) * power * across;
        factor[k - 1][1][1] = power * (d - 1.0 - k * across);
    }
}

/* E (tr E_y g g'')^2 over l and both q, at one rho. */
static double square_at(const two_tokens *s, double rho, double d)
{
    double f[ORDERS][2][2], sum = 0.0;
    trace_factors(rho, d, f);
    for (int k = 0; k < ORDERS; k++)
        for (int m = k % 2; m < ORDERS; m += 2)
            for (int i = 0; i < 16; i++) {
                const int a = i & 1, b = i >> 1 & 1, c = i >> 2 & 1, e = i >> 3;
                sum += f[k][a][b] * f[m][c][e] * s->at[2 * k + a][2 * m + c] *
                       s->at[2 * k + b][2 * m + e];
            }
    return sum;
}

/* n^2 times the average square, directions e uniform in d dimensions, with c(y) = w y. */
static double second_variance(const two_tokens *s, int64_t d, double n, double w)
{
    enum { ANGLES = 64 };
    const double D = (double)d;
    double square = 0.0, total = 0.0;
    for (int i = 0; i < ANGLES; i++) {
        const double angle = 1.5707963267948966 * (i + 0.5) / ANGLES;
        const double p = d == 1 ? 1.0 : pow(sin(angle), D - 2.0);
        total += p;
        square += p * square_at(s, d == 1 ? 1.0 : cos(angle), D);
    }
    square /= total;
    /* against y z' it is one trace alone: along, and d - 1 times across */
    const double one =
        s->at[0][0] + 2.0 * (D - 1.0) * s->at[0][1] + (D - 1.0) * (D - 1.0) * s->at[1][1];
    /* Of leading order in 1/d, so that a factor 1 + O(1/d) is open. The traces alone suggest 1 +
     * 1/d; 1 - 1/d was chosen by comparison with simulation, where one dimension needs no
     * correction (docs/TRUST.md). */
    return n * n * (1.0 - 1.0 / D) * fmax(square - 2.0 * w * w * one + w * w * w * w * D * D, 0.0);
}

/* ==== the prediction ====
 * A query has q = H r, r ~ chi_d, and a direction e, uniform and independent of q, so that a
 * token's influence, averaged over queries, depends on r = |eta| alone: c(eta) = C(r) eta/r, and
 * the conditional second moment is alpha(r) along eta, beta(r) across. */

enum { NODES = 48, ANGLES = 600 };
#define SPREAD 8.5  /* chi_d stays within sqrt(d) +- SPREAD */
#define WIDEST 13.0 /* t = <e, eta> is a standard normal */

/* What a token does to other queries. */
typedef struct effect {
    double C;           /* c(eta) along eta */
    double alpha, beta; /* E[Gamma Gamma' | eta] along and across */
} effect;

/* A token of norm r: its influence on others, and what it asks for itself. */
typedef struct token {
    double r, weight;     /* quadrature over chi_d */
    effect on_others;     /* on fresh queries */
    effect on_tokens;     /* on queries that are tokens, and see themselves */
    double b;             /* |E Gamma(eta)| as a query */
    double along, across; /* E[Gamma Gamma'](eta) as a query, along e and across */
    double missed;        /* E |Gamma(eta) - limit|^2 */
    double part, part2;   /* E sum w^2 and E (sum w^2)^2, over the keys of others */
} token;

/* The prediction for isotropic tokens, where all queries of a norm are alike. */
typedef struct model {
    int64_t d;
    double H, n;
    es_rotation rotation;
    es_mem_limit *budget;
    es_influence_table table;       /* averaged over q */
    es_influence_table beside;      /* the same where the query is one of the tokens; NONE only */
    two_tokens pairs, pairs_beside; /* of tokens, as the two tables */
    double query;                   /* E |Gamma_n - Gamma|^2 */
    double second;                  /* E |Gamma_n|^2 */
    token tokens[NODES];
} model;

/* ---- queries ---- */

/* Nodes in r = q/H. What happens at the freezing point q ~ sqrt(2 log n) gets half of them. */
static int query_nodes(const model *m, double *r, double *w)
{
    const double root = sqrt((double)m->d), low = fmax(0.0, root - SPREAD), high = root + SPREAD;
    const double split = 1.5 * sqrt(2.0 * log(m->n)) / m->H;
    if (split < low + 0.1 || split > high - 0.1) {
        es_legendre(NODES, low, high, r, w);
    } else {
        es_legendre(NODES / 2, low, split, r, w);
        es_legendre(NODES / 2, split, high, r + NODES / 2, w + NODES / 2);
    }
    return NODES;
}

/* Averages over queries at distance r: influence tables, pairs of tokens, and the error of one
 * output. r has the chi density of d degrees, q = H r. */
static es_status ask(model *m, es_error *err)
{
    double r[NODES], w[NODES];
    const int count = query_nodes(m, r, w);
    const double others = (double)(m->d - 1);
    for (int i = 0; i < count; i++) {
        const double factor = w[i] * es_chi_density(r[i], m->d);
        if (factor < DBL_EPSILON)
            continue;
        es_rem moments;
        const double q = fmax(m->H * r[i], ES_SCORES_MIN_Q);
        ES_TRY(es_influence_add(m->n, q, factor, m->budget, &m->table, &moments, err));
        ES_TRY(add_second(m->n, q, NAN, factor, m->budget, &m->pairs, err));
        if (m->rotation == ES_ROTATION_NONE) {
            ES_TRY(es_influence_add_beside(m->n, q, r[i], factor, m->budget, &m->beside, err));
            ES_TRY(add_second(m->n, q, r[i], factor, m->budget, &m->pairs_beside, err));
        }
        m->query += factor * (moments.error + others * moments.participation);
        m->second += factor * (moments.second + others * moments.participation);
    }
    return ES_OK;
}

/* ---- tokens ---- */

/* Average over the angle between e and eta, cos = u. */
static effect effect_of(const model *m, const es_influence_table *table, double r)
{
    const int angles = m->d == 1 ? 2 : ANGLES;
    const double across = fmax(1.0, (double)(m->d - 1)),
                 limit = (double)table->half * ES_INFLUENCE_STEP;
    effect k = {0};
    double total = 0.0;
    for (int i = 0; i < angles; i++) {
        const double angle = 3.14159265358979323846 * (i + 0.5) / angles;
        const double u = m->d == 1 ? (i ? 1.0 : -1.0) : cos(angle), u2 = u * u;
        const double p = m->d <= 2 ? 1.0 : pow(sin(angle), (double)(m->d - 2));
        if (p < DBL_MIN || fabs(r * u) > limit)
            continue;
        const es_influence f = es_influence_at(table, r * u);
        total += p;
        k.C += p * (f.weight * r + u * f.along);
        k.alpha += p * (f.weight_squared * r * r + 2.0 * f.cross * r * u + f.square * u2 +
                        f.part * (1.0 - u2));
        k.beta += p * (f.square * (1.0 - u2) / across + f.part * (1.0 - (1.0 - u2) / across));
    }
    return (effect){k.C / total, k.alpha / total, k.beta / total};
}

/* What the token gets as a query: its own key is at an angle to e whose cosine is u, 1 without
 * rotation, and has the score q r u. Here for one u. */
static void add_asked(const model *m, const es_rem_extra *x, double q, double u, double weight,
                      token *k)
{
    const es_influence f = es_influence_of(x, q, 0.0);
    const double own = k->r * u, others = (double)(m->d - 1);
    const double b = f.weight * own + f.along + q;
    const double along = f.weight_squared * own * own + 2.0 * f.cross * own + f.square;
    const double aside = m->d > 1 ? f.weight_squared * (k->r * k->r - own * own) / others : 0.0;
    k->part += weight * f.part;
    k->part2 += weight * x->participation_squared;
    k->b += weight * b;
    k->along += weight * along;
    k->across += weight * (f.part + aside);
    k->missed += weight * (along - 2.0 * q * b + q * q + others * (f.part + aside));
}

/* Computes the output of a token asking about the others, given the angle u between it and its
 * own query direction: 1 without a rotation, averaged over the sphere for a random one. */
static es_status ask_as_token(const model *m, token *k, es_error *err)
{
    enum { TURNS = 40 };
    const int turns = m->rotation == ES_ROTATION_HAAR ? TURNS : 1;
    const double q = fmax(m->H * k->r, ES_SCORES_MIN_Q);
    double u[TURNS] = {1.0}, weight[TURNS] = {1.0}, a[TURNS], total = 0.0;
    es_rem_extra x[TURNS];
    for (int i = 0; i < turns; i++) {
        const double angle = 3.14159265358979323846 * (i + 0.5) / TURNS;
        if (turns > 1) {
            u[i] = cos(angle);
            weight[i] = pow(sin(angle), (double)(m->d - 2));
        }
        total += weight[i];
        a[i] = q * k->r * u[i];
    }
    ES_TRY(es_rem_extra_at(m->n - 1.0, q, a, turns, m->budget, x, err));
    for (int i = 0; i < turns; i++)
        add_asked(m, &x[i], q, u[i], weight[i] / total, k);
    return ES_OK;
}

/* Computes what a token at distance r from the origin does to outputs, at NODES radii with the
 * weights of the chi density of d degrees. With a rotation of A a token is never its own
 * nearest key, so that its effect on other tokens is that on fresh queries. */
static es_status meet_tokens(model *m, es_error *err)
{
    double r[NODES], w[NODES];
    const double root = sqrt((double)m->d);
    es_legendre(NODES, fmax(0.0, root - SPREAD), root + SPREAD, r, w);
    for (int i = 0; i < NODES; i++) {
        token *k = &m->tokens[i];
        *k = (token){.r = r[i], .weight = w[i] * es_chi_density(r[i], m->d)};
        k->on_others = k->on_tokens = effect_of(m, &m->table, k->r);
        if (m->rotation == ES_ROTATION_NONE)
            k->on_tokens = effect_of(m, &m->beside, k->r);
        ES_TRY(ask_as_token(m, k, err));
    }
    return ES_OK;
}

/* ---- errors ---- */

/* Variance of the sum over tokens of a matrix a ee' + b (I - ee'), e = eta/r, which is n times that
 * of one; a and b come with their weights in tokens[]. */
static double matrix_variance(const model *m, const double *a, const double *b)
{
    const double others = (double)(m->d - 1);
    double mean = 0.0, variance = 0.0;
    for (int i = 0; i < NODES; i++)
        mean += m->tokens[i].weight * (a[i] + others * b[i]) / (double)m->d;
    for (int i = 0; i < NODES; i++)
        variance += m->tokens[i].weight *
                    ((a[i] - mean) * (a[i] - mean) + others * (b[i] - mean) * (b[i] - mean));
    return m->n * variance;
}

/* Writes the predicted errors from variances: E|m_n - m|, its mean, and the covariance's bias
 * (second moment less the variance of the mean, per channel, less H^2) and root mean square
 * (THEORY 4.5). */
static void set(const model *m, double mean_variance, double second, double cov_variance,
                es_predicted *out)
{
    const double d = (double)m->d;
    out->mean_rms = sqrt(mean_variance);
    out->mean_abs = out->mean_rms * es_norm_ratio(m->d);
    out->cov_bias = ((second - mean_variance) / d - m->H * m->H) * sqrt(d);
    out->cov_rms = sqrt(out->cov_bias * out->cov_bias + cov_variance);
}

/* c(eta) = w eta, as well as can be. */
static double slope_of_mean(const model *m, bool self)
{
    double sum = 0.0;
    for (int i = 0; i < NODES; i++) {
        const token *k = &m->tokens[i];
        sum += k->weight * k->r * (self ? k->on_tokens.C : k->on_others.C);
    }
    return sum / (double)m->d;
}

/* Predicts the errors for fresh queries: Var m_n = n E_r C(r)^2, and for the covariance the
 * matrix variance of alpha - C^2 along and beta across, plus that of pairs of tokens (THEORY
 * 4.5). */
static void predict_population(const model *m, es_predicted *out)
{
    double a[NODES], b[NODES], variance = 0.0;
    for (int i = 0; i < NODES; i++) {
        const effect *k = &m->tokens[i].on_others;
        variance += m->n * m->tokens[i].weight * k->C * k->C;
        a[i] = k->alpha - k->C * k->C;
        b[i] = k->beta;
    }
    out->query_rms = sqrt(m->query);
    const double pairs = second_variance(&m->pairs, m->d, m->n, slope_of_mean(m, false));
    set(m, variance, m->second, matrix_variance(m, a, b) + pairs, out);
}

/* Variance of the mean over n queries that are the tokens: E|Gamma|^2 / n, and what two queries
 * have in common, which is to first order their n keys. Without rotation two of those are the
 * queries themselves, and what they get, b, points where they are. */
static double mean_variance(const model *m)
{
    const double n = m->n, others = (double)(m->d - 1);
    double sum = 0.0;
    for (int i = 0; i < NODES; i++) {
        const token *k = &m->tokens[i];
        const double C = k->on_tokens.C, asked = k->along + others * k->across;
        const double common =
            m->rotation == ES_ROTATION_HAAR ? n * C * C : (n - 2.0) * C * C + 2.0 * C * k->b;
        sum += k->weight * (asked / n + (1.0 - 1.0 / n) * common);
    }
    return sum;
}

/* What a token adds to (1/n) sum Gamma Gamma' - m m', as key of all queries and as one of them: a
 * along itself, b across. Across a random rotation only the trace of what it gets is coherent with
 * what it gives. */
static void self_effect(const model *m, const token *k, double *a, double *b)
{
    const double n = m->n, d = (double)m->d, asked = k->along + (d - 1.0) * k->across;
    const effect *f = &k->on_tokens;
    if (m->rotation == ES_ROTATION_HAAR) {
        const double share = (asked / n - k->b * k->b / (n * n)) / d;
        *a = f->alpha - f->C * f->C + share;
        *b = f->beta + share;
        return;
    }
    const double key = 1.0 - 1.0 / n, c = key * f->C + k->b / n;
    *a = key * f->alpha + k->along / n - c * c;
    *b = key * f->beta + k->across / n;
}

/* What else a query's own output Gamma - m contributes: E|.|^4, less what was coherent. Given the
 * weights, |.|^2 across e is sum w^2 times a chi-square, and both factors vary. */
static double apart(const model *m, const token *k, double variance)
{
    const double d = (double)m->d, along = k->along - variance / d,
                 across = k->across - variance / d;
    const double asked = along + (d - 1.0) * across;
    const double spread =
        (d * d - 1.0) * fmax(k->part2 - k->part * k->part, 0.0) + 2.0 * (d - 1.0) * across * across;
    const double coherent = m->rotation == ES_ROTATION_HAAR
                                ? asked * asked / d
                                : along * along + (d - 1.0) * across * across;
    return (asked * asked + spread - coherent) / m->n;
}

/* Predicts the errors if the queries are the tokens themselves. A token then acts twice, as a
 * key and as a query, and both effects add coherently (THEORY 4.5). */
static void predict_self(const model *m, es_predicted *out)
{
    const double mean = mean_variance(m), others = (double)(m->d - 1);
    double a[NODES], b[NODES], second = 0.0, rest = 0.0, missed = 0.0;
    for (int i = 0; i < NODES; i++) {
        const token *k = &m->tokens[i];
        second += k->weight * (k->along + others * k->across);
        missed += k->weight * k->missed;
        rest += k->weight * apart(m, k, mean);
        self_effect(m, k, &a[i], &b[i]);
    }
    out->query_rms = sqrt(missed);
    const two_tokens *both = m->rotation == ES_ROTATION_NONE ? &m->pairs_beside : &m->pairs;
    const double pairs = second_variance(both, m->d, m->n, slope_of_mean(m, true));
    set(m, mean, second, matrix_variance(m, a, b) + rest + pairs, out);
}

/* Allocates the two influence tables, for a fresh query and for one that is a token. They reach
 * as far as t = <e, eta> of a token at sqrt(d) + SPREAD. */
static es_status tables_make(model *m, es_error *err)
{
    const double widest = fmin(WIDEST, sqrt((double)m->d) + SPREAD);
    es_influence_table table = {.half = (int64_t)ceil(widest / ES_INFLUENCE_STEP) + 2};
    table.count = 2 * table.half + 1;
    ES_TRY(ES_MEM_NEW_2D(m->budget, table.at, table.count, 2, "influence", err));
    m->table = m->beside = table;
    m->beside.at = m->table.at + table.count;
    return ES_OK;
}

/* Computes the prediction at one horizon: first the average over queries, then over tokens,
 * then the two modes. */
static es_status run(model *m, es_prediction *out, es_error *err)
{
    ES_TRY(tables_make(m, err));
    m->query = m->second = 0.0;
    m->pairs = m->pairs_beside = (two_tokens){0};
    es_status status = ask(m, err);
    if (status == ES_OK)
        status = meet_tokens(m, err);
    es_mem_free(m->budget, m->table.at);
    if (status != ES_OK)
        return status;
    out->sampling = 0.0;
    predict_population(m, &out->population);
    predict_self(m, &out->self);
    return ES_OK;
}

/* With the covariance of a small horizon from a larger one. */
static es_status run_or_shrink(model *m, es_prediction *out, es_error *err)
{
    ES_TRY(run(m, out, err));
    const double H = m->H, least = ES_PREDICT_SMALL / sqrt((double)m->d);
    if (H >= least)
        return ES_OK;
    es_prediction larger;
    m->H = least;
    const es_status status = run(m, &larger, err);
    m->H = H;
    if (status == ES_OK)
        es_predict_shrink(out, &larger, H / least);
    return status;
}

es_status es_predict_isotropic(int64_t d, double horizon, es_rotation rotation, double n,
                               es_mem_limit *budget, es_prediction *out, es_prediction *slope,
                               es_error *err)
{
    ES_TRY(es_predict_check(d, n, err));
    if (!(horizon >= 1e-4 && horizon <= 1e3))
        return es_fail(err, ES_E_RANGE, "theory.predict.horizon", "scale A",
                       "a horizon of %g is outside [1e-4, 1e3]", horizon);
    if (rotation != ES_ROTATION_NONE && rotation != ES_ROTATION_HAAR)
        return es_fail(err, ES_E_ARGUMENT, "theory.predict.rotation", "", "unknown rotation %d",
                       (int)rotation);
    model m = {.d = d, .H = horizon, .n = n, .budget = budget};
    m.rotation = d == 1 ? ES_ROTATION_NONE : rotation;
    ES_TRY(run_or_shrink(&m, out, err));
    if (!slope)
        return ES_OK;
    es_prediction next;
    m.n = es_predict_next(n);
    ES_TRY(run_or_shrink(&m, &next, err));
    es_predict_slope(out, &next, log(m.n / n), slope);
    return ES_OK;
}
