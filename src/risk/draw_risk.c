/* SPDX-License-Identifier: Apache-2.0 */
/* draw_risk.c : E|y_S - y|^2 of n draws with replacement, exactly (THEORY 13, F empty, c = 1).
 *
 * 1/Z^2 = int l e^{-lZ} dl turns the ratio of two sums over the same draws into products of
 * averages over one draw. With x = l w and l = e^t the factors l and w go together, so that
 * nothing under- or overflows whatever the weights' range:
 *
 *     E = int m D a^{m-1} + m(m-1) |B|^2 a^{m-2} dt,   E[y_S - y] = int m B a^{m-1} dt,
 *     a = mean e^{-x},  B = mean x u e^{-x},  D = mean x^2 |u|^2 e^{-x},   m the number of draws.
 *
 * Error of the trapezoid rule with step h: the integral is the mean over draws of |N|^2 l^2
 * e^{-lZ}, each of which the rule gets right to 2 |Gamma(2 + 2 pi i/h)| = 9e-12 for h = 20/64,
 * whatever its N and Z; so does their mean, and no weights can do worse. Its ends: b(0) = 0 leaves
 * at most m/2 mean x^2 |u|^2 to the left of t, and |N/Z| <= max |u| at most max|u|^2 m (a + mean x
 * e^{-x}) a^{m-1} to the right of it. */
#include "risk/draw_risk.h"

#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "risk/damping.h"
#include "risk/draw_atoms.h"

/* Up to here keys are atoms as they are. */
enum { FEW_KEYS = 4096 };

_Static_assert(ES_DRAW_STRIDE == 20 && ES_DRAW_POINTS == 64, "the step of damping.h, on the grid");
#define H ES_DAMPING_STEP
static const double ENDS = 1e-12;      /* that each end may leave */
static const double ROUNDING = 5e-11;  /* sums over many keys; powers a^m */
static const double ON_GRID = 2e-7;    /* of a grid: test_draw_risk.c compares with the keys */
static const double UNIT = 2.3e-16;    /* of a double */
static const double LOG_LEAST = -64.0; /* where the table of dampings begins */

/* ---- one node ---- */

/* On the grid, nodes t and scores s are multiples of 1/64, and so is ln x = t + s: made once. */
typedef struct dampings {
    int64_t first, count; /* ln x = (first + i)/64 */
    es_damping *at;
} dampings;

/* Tabulates the damping functions at the points of the grid. */
static es_status make_dampings(es_mem_limit *budget, dampings *d, es_error *err)
{
    d->first = (int64_t)floor(LOG_LEAST * ES_DRAW_POINTS);
    d->count = (int64_t)ceil(ES_DAMPING_LARGEST * ES_DRAW_POINTS) + 2 - d->first;
    ES_TRY(ES_MEM_NEW(budget, d->at, d->count, "a table", err));
    for (int64_t i = 0; i < d->count; i++)
        d->at[i] = es_damping_at((double)(d->first + i) / ES_DRAW_POINTS);
    return ES_OK;
}

/* Returns the damping at a point, from the table where it reaches. */
static es_damping look_up(const dampings *d, int64_t point)
{
    const int64_t i = point - d->first;
    if (i < 0) /* rarely, but such keys may be all that keeps b(0) at 0 */
        return es_damping_at((double)point / ES_DRAW_POINTS);
    return d->at[i < d->count ? i : d->count - 1];
}

/* The sums at one node l of the integral. */
typedef struct node {
    double some, lost;   /* a without the keys of weight zero; 1 - a */
    double log_a;        /* of all of a */
    double once, square; /* mean x e^{-x}; D */
    double *b, norm2;    /* B (width), |B|^2 */
} node;

/* Clears the sums of a node. */
static void clear(const es_draw_atoms *atoms, node *out)
{
    out->some = out->lost = out->once = out->square = out->norm2 = 0.0;
    for (int64_t l = 0; l < atoms->width; l++)
        out->b[l] = 0.0;
}

/* Computes the means over keys at node l = e^t, t = H k, of the integral for draws with
 * replacement (THEORY 13): a = mean e^(-lw), b = mean w u e^(-lw) l, d = mean w^2 |u|^2 e^(-lw)
 * l^2. Keys on the grid read e^(-lw) from a table, because t + s is a multiple of 1/64 for
 * them. */
static void node_at(const es_draw_atoms *atoms, const dampings *table, int64_t k, node *out)
{
    const double t = H * (double)k, N = atoms->keys;
    const int64_t size = ES_DRAW_VALUE + atoms->width;
    clear(atoms, out);
    for (int64_t i = 0; i < atoms->count; i++) {
        const double *row = atoms->rows + i * size;
        const es_damping d = atoms->point ? look_up(table, atoms->point[i] + k * ES_DRAW_STRIDE)
                                          : es_damping_at(t + atoms->s[i]);
        const double once = d.x * d.kept;
        out->some += row[ES_DRAW_COUNT] * d.kept;
        out->lost += row[ES_DRAW_WEIGHT] * d.lost;
        if (once == 0.0)
            continue;
        out->once += row[ES_DRAW_WEIGHT] * once;
        out->square += row[ES_DRAW_SQUARE] * d.x * once;
        for (int64_t l = 0; l < atoms->width; l++)
            out->b[l] += row[ES_DRAW_VALUE + l] * once;
    }
    for (int64_t l = 0; l < atoms->width; l++) {
        out->b[l] /= N;
        out->norm2 += out->b[l] * out->b[l];
    }
    out->some = fmax(out->some / N, 0.0);
    out->lost /= N;
    out->once = fabs(out->once) / N;
    out->square /= N;
    const double a = out->some + atoms->zeros / N; /* exact where it is small, 1 - a elsewhere */
    out->log_a = a < 0.5 ? log(a) : log1p(-out->lost);
}

/* a^p; a may be 0. */
static double power(const node *n, double p) { return p > 0.0 ? exp(p * n->log_a) : 1.0; }

/* ---- the integral ---- */

/* Sums of one size, without the factor h. */
typedef struct sum {
    double m, square;
    double end;   /* what is left of it to the right, at most */
    double *bias; /* (width) */
} sum;

/* The integrals of all sizes, which share their nodes. */
typedef struct integral {
    const es_draw_atoms *atoms;
    dampings table;
    node node;
    sum *sums; /* (n_sizes) */
    int64_t n_sizes;
    double left, mean, mean2; /* means of x^2 |u|^2, x and x^2 where the largest x is 1 */
    double *scratch;
} integral;

/* Adds node k to the sums of every size m: m d a^(m-1) + m (m-1) |b|^2 a^(m-2), and m b a^(m-1)
 * for the bias (THEORY 13). `end` bounds what is left of the integral beyond this node. */
static void add_node(integral *in, int64_t k)
{
    node *n = &in->node;
    const double reach2 = in->atoms->reach * in->atoms->reach;
    node_at(in->atoms, &in->table, k, n);
    for (int64_t i = 0; i < in->n_sizes; i++) {
        sum *s = &in->sums[i];
        const double m = s->m, one = m * power(n, m - 1.0);
        s->square += n->square * one;
        if (m > 1.0)
            s->square += n->norm2 * m * (m - 1.0) * power(n, m - 2.0);
        for (int64_t l = 0; l < in->atoms->width; l++)
            s->bias[l] += n->b[l] * one;
        s->end = reach2 * one * (n->some + n->once);
    }
}

/* Returns true while the right end of the integral still matters for some size. */
static bool more_on_the_right(const integral *in)
{
    for (int64_t i = 0; i < in->n_sizes; i++)
        if (in->sums[i].end > ENDS * H * in->sums[i].square)
            return true;
    return false;
}

/* Of the mean of y_S - y, l^2/2 E|N|Z is left at most, and E|N|Z <= (E|N|^2 E Z^2)^1/2. */
static bool more_on_the_left(const integral *in, int64_t k)
{
    const double half = 0.5 * exp(2.0 * (H * (double)k + in->atoms->top));
    for (int64_t i = 0; i < in->n_sizes; i++) {
        const sum *s = &in->sums[i];
        const double m = s->m, n2 = m * in->left, z2 = m * (in->mean2 + m * in->mean * in->mean);
        const double square = H * s->square;
        if (half * n2 > ENDS * square || half * sqrt(n2 * z2) > 10.0 * ENDS * sqrt(square))
            return true;
    }
    return false;
}

/* From the node where the largest m has lost most of its draws, to the right, then to the left.
 * Both ends come: x > 735 for every key on the right, doubly exponentially, e^{2t} on the left. */
static void integrate(integral *in)
{
    const double log_mean = in->atoms->top + log(in->mean);
    double most = 1.0;
    for (int64_t i = 0; i < in->n_sizes; i++)
        most = fmax(most, in->sums[i].m);
    const int64_t middle = (int64_t)floor(-(log_mean + log(most)) / H);
    if (!(in->atoms->reach > 0.0))
        return; /* all values that have weight are the same */
    int64_t k = middle;
    do
        add_node(in, k);
    while (k++, more_on_the_right(in));
    for (k = middle; more_on_the_left(in, k);)
        add_node(in, --k);
}

/* ---- the output of the keys ---- */

/* Returns the row of one atom. */
static double *row_at(const es_draw_atoms *atoms, int64_t i)
{
    return atoms->rows + i * (ES_DRAW_VALUE + atoms->width);
}

/* Measure values from `off` beyond the present center. (w/e^s)^2 u is (w/e^s) u on a grid, whose
 * cubics do not care for a factor e^s. */
static void move(es_draw_atoms *atoms, const double *off)
{
    double length2 = 0.0;
    for (int64_t l = 0; l < atoms->width; l++) {
        atoms->center[l] += off[l];
        length2 += off[l] * off[l];
    }
    atoms->reach += sqrt(length2);
    for (int64_t i = 0; i < atoms->count; i++) {
        double *row = row_at(atoms, i), *u = row + ES_DRAW_VALUE, along = 0.0, square = 0.0;
        for (int64_t l = 0; l < atoms->width; l++) {
            along += off[l] * u[l];
            u[l] -= off[l] * row[ES_DRAW_WEIGHT];
            square += u[l] * u[l];
        }
        /* one key: nothing cancels */
        row[ES_DRAW_SQUARE] =
            !atoms->point ? square
                          : row[ES_DRAW_SQUARE] - 2.0 * along + length2 * row[ES_DRAW_WEIGHT];
    }
    if (!atoms->point)
        atoms->reach = 0.0;
    for (int64_t i = 0; i < atoms->count && !atoms->point; i++)
        atoms->reach = fmax(atoms->reach, sqrt(row_at(atoms, i)[ES_DRAW_SQUARE]));
}

/* Sum of the weights over that of the largest; `off` (width) from the center to the output. */
static double output_of(const es_draw_atoms *atoms, double *off)
{
    double total = 0.0;
    for (int64_t l = 0; l < atoms->width; l++)
        off[l] = 0.0;
    for (int64_t i = 0; i < atoms->count; i++) {
        const double w = exp(atoms->s[i] - atoms->top), *row = row_at(atoms, i);
        total += w * row[ES_DRAW_WEIGHT];
        for (int64_t l = 0; l < atoms->width; l++)
            off[l] += w * row[ES_DRAW_VALUE + l];
    }
    for (int64_t l = 0; l < atoms->width; l++)
        off[l] /= total;
    return total;
}

/* Describes the weights of a query: effective number of keys (sum w)^2/sum w^2, largest weight,
 * first-order error keys * sum w^2 |u|^2, spread sum w |u|^2 and |y|^2. Keeps the means that
 * bound the left end of the integral. */
static void describe(integral *in, double total, es_draw_query *about)
{
    const es_draw_atoms *atoms = in->atoms;
    double squares = 0.0, sampling = 0.0, spread = 0.0, output2 = 0.0;
    for (int64_t i = 0; i < atoms->count; i++) {
        const double w = exp(atoms->s[i] - atoms->top), *row = row_at(atoms, i);
        squares += w * w * row[ES_DRAW_WEIGHT];
        sampling += w * w * row[ES_DRAW_SQUARE];
        spread += w * row[ES_DRAW_SQUARE];
    }
    for (int64_t l = 0; l < atoms->width; l++)
        output2 += atoms->center[l] * atoms->center[l];
    if (about)
        *about = (es_draw_query){.ess = total * total / squares,
                                 .top = 1.0 / total,
                                 .sampling = atoms->keys * sampling / (total * total),
                                 .spread2 = spread / total,
                                 .output2 = output2};
    in->left = sampling / atoms->keys;
    in->mean = total / atoms->keys;
    in->mean2 = squares / atoms->keys;
}

/* ---- the answer ---- */

/* Allocates the sums of every size and the vectors of a node, and tabulates e^(-e^x) if the
 * keys are on the grid. */
static es_status prepare(integral *in, const int64_t *sizes, es_error *err)
{
    const int64_t width = in->atoms->width;
    es_mem_limit *budget = in->atoms->budget;
    ES_TRY(ES_MEM_NEW(budget, in->sums, in->n_sizes, "sums", err));
    ES_TRY(ES_MEM_NEW_2D(budget, in->scratch, in->n_sizes + 2, width, "sums", err));
    in->node.b = in->scratch;
    for (int64_t i = 0; i < in->n_sizes; i++)
        in->sums[i] = (sum){.m = (double)sizes[i], .bias = in->scratch + (i + 2) * width};
    return in->atoms->point ? make_dampings(budget, &in->table, err) : ES_OK;
}

/* Given that a drawn key has weight. Rounding of some u moves |N/Z| by as much, at most. */
static void finish(const integral *in, const sum *s, es_draw_risk *out)
{
    const double share = in->atoms->zeros / in->atoms->keys, m = s->m;
    const double log_empty = share > 0.0 ? m * log(share) : -(double)INFINITY;
    const double given = -expm1(log_empty);
    const double square = H * s->square / given, off = 4.0 * UNIT * in->atoms->reach;
    const double relative =
        ES_DAMPING_RULE + 2.0 * ENDS + ROUNDING + (in->atoms->point ? ON_GRID : 0.0);
    double bias = 0.0;
    for (int64_t l = 0; l < in->atoms->width; l++)
        bias += s->bias[l] * s->bias[l];
    *out = (es_draw_risk){
        .square = {.val = square, .err = relative * square + off * (2.0 * sqrt(square) + off)},
        .bias = H * sqrt(bias) / given,
        .empty = exp(log_empty)};
}

es_status es_draw_solve(es_draw_atoms *atoms, const int64_t *sizes, int64_t n_sizes,
                        es_draw_risk *out, es_draw_query *about, es_error *err)
{
    integral in = {.atoms = atoms, .n_sizes = n_sizes};
    const es_status status = prepare(&in, sizes, err);
    if (status == ES_OK) {
        double *off = in.scratch + atoms->width, total = 0.0;
        for (int twice = 0; twice < 2; twice++) { /* what rounding left of the first time */
            total = output_of(atoms, off);
            move(atoms, off);
        }
        describe(&in, total, about);
        integrate(&in);
        for (int64_t i = 0; i < n_sizes; i++)
            finish(&in, &in.sums[i], &out[i]);
    }
    es_mem_free(atoms->budget, in.table.at);
    es_mem_free(atoms->budget, in.scratch);
    es_mem_free(atoms->budget, in.sums);
    return status;
}

/* ==== questions from outside ==== */

/* ---- checks ---- */

/* Fails for an empty or long list of sizes, and for sizes outside their range. */
static es_status check_sizes(const int64_t *sizes, int64_t n_sizes, es_error *err)
{
    if (n_sizes < 1 || n_sizes > ES_DRAW_MOST_CHOSEN)
        return es_fail(err, ES_E_RANGE, "draw.sizes", "give 1 to 4096 sizes", "%lld sizes",
                       (long long)n_sizes);
    for (int64_t i = 0; i < n_sizes; i++)
        if (sizes[i] < 1 || sizes[i] > ES_DRAW_MOST_N)
            return es_fail(err, ES_E_RANGE, "draw.sizes", "1 to 10^12 draws", "%lld draws",
                           (long long)sizes[i]);
    return ES_OK;
}

/* Fails unless scores are (queries, keys) and values (keys, channels) and nothing is empty. */
static es_status check_shapes(const es_view *scores, const es_view *values, es_error *err)
{
    ES_TRY(es_view_check(scores, "scores", err));
    ES_TRY(es_view_check(values, "values", err));
    if (scores->rows < 1 || scores->cols < 1 || values->cols < 1 || values->cols > ES_MAX_DIM)
        return es_fail(err, ES_E_SHAPE, "draw.shape",
                       "give at least one query, one key and one channel",
                       "%lld queries, %lld keys, %lld channels", (long long)scores->rows,
                       (long long)scores->cols, (long long)values->cols);
    if (scores->cols != values->rows)
        return es_fail(err, ES_E_SHAPE, "draw.shape", "give one column of scores per row of values",
                       "scores of %lld keys, values of %lld", (long long)scores->cols,
                       (long long)values->rows);
    return ES_OK;
}

/* ---- what all queries share ---- */

/* Scores of several queries over one set of keys. */
typedef struct question {
    const es_view *scores;
    es_draw_input input;
    int64_t keys, width;
    double *values; /* (keys, width), in units of `unit` */
    double unit;    /* a power of two: squares neither over- nor underflow */
    const int64_t *sizes;
    int64_t n_sizes;
    es_mem_limit *budget;
    es_draw_risk *out;
    es_draw_query *about;
} question;

/* Reads the values in units of a power of two near the largest of them, so that squares neither
 * overflow nor lose digits; scale_back() undoes it. */
static es_status read_values(question *q, const es_view *values, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_scan(values, "values", &scan, err));
    if (scan.max_abs > ES_DRAW_MOST_VALUE)
        return es_fail(err, ES_E_RANGE, "draw.value",
                       "use values up to 1e150: their squares must be finite",
                       "a value of magnitude %g", scan.max_abs);
    q->unit = scan.max_abs > 0.0 ? exp2(floor(log2(scan.max_abs))) : 1.0;
    ES_TRY(ES_MEM_NEW_2D(q->budget, q->values, q->keys, q->width, "values", err));
    for (int64_t j = 0; j < q->keys; j++) {
        es_view_read_row(values, j, q->values + j * q->width);
        for (int64_t l = 0; l < q->width; l++)
            q->values[j * q->width + l] /= q->unit;
    }
    return ES_OK;
}

/* ---- one query ---- */

/* Turns an input number into a score: the logarithm of a weight, or the score itself. Fails
 * with row and column for NaN, +inf, a negative weight or a score beyond 1e6. */
static es_status read_score(const question *q, int64_t row, int64_t j, double *s, es_error *err)
{
    const double x = *s;
    if (q->input == ES_DRAW_WEIGHTS) {
        if (!isfinite(x))
            return es_fail_at(err, ES_E_NONFINITE, row, j, "draw.weight", "weights are numbers",
                              "a weight is %g", x);
        if (x < 0.0)
            return es_fail_at(err, ES_E_RANGE, row, j, "draw.weight",
                              "weights are at least 0; logarithms of weights are scores",
                              "a weight is %g", x);
        *s = log(x); /* -inf of 0 */
        return ES_OK;
    }
    if (isnan(x) || x == (double)INFINITY)
        return es_fail_at(err, ES_E_NONFINITE, row, j, "draw.score",
                          "use numbers, or -inf for a weight of zero", "a score is %g", x);
    if (isfinite(x) && fabs(x) > ES_DRAW_MOST_SCORE)
        return es_fail_at(
            err, ES_E_RANGE, row, j, "draw.score",
            "keep scores within 1e6: add a constant to all, or use -inf for a weight of zero",
            "a score is %g", x);
    return ES_OK;
}

/* Reads the scores of one query and finds the largest. Fails if no key has weight. */
static es_status read_scores(const question *q, int64_t row, double *scores, double *top,
                             es_error *err)
{
    *top = -(double)INFINITY;
    es_view_read_row(q->scores, row, scores);
    for (int64_t j = 0; j < q->keys; j++) {
        ES_TRY(read_score(q, row, j, &scores[j], err));
        *top = fmax(*top, scores[j]);
    }
    if (*top > -(double)INFINITY)
        return ES_OK;
    return es_fail_at(err, ES_E_RANGE, row, 0,
                      q->input == ES_DRAW_WEIGHTS ? "draw.weight" : "draw.score",
                      "at least one key must have weight", "all weights of a query are zero");
}

/* What values are measured from: the output, or |u|^2 would be a difference of larger numbers on
 * the grid; but the value of the largest weight where the output is so near to it, as one key has
 * nearly all of the weight, that their difference, its u, would be rounding. */
static void center_of(const question *q, const double *scores, double top, double *center)
{
    const double *most = NULL;
    double total = 0.0, reach2 = 0.0, apart2 = 0.0;
    for (int64_t j = 0; j < q->keys && !most; j++)
        most = scores[j] == top ? q->values + j * q->width : NULL;
    for (int64_t j = 0; j < q->keys; j++) {
        const double w = exp(scores[j] - top), *v = q->values + j * q->width;
        double off2 = 0.0;
        total += w;
        for (int64_t l = 0; l < q->width; l++) {
            center[l] += w * (v[l] - most[l]);
            off2 += (v[l] - most[l]) * (v[l] - most[l]);
        }
        reach2 = fmax(reach2, off2);
    }
    for (int64_t l = 0; l < q->width; l++) {
        center[l] /= total;
        apart2 += center[l] * center[l];
    }
    for (int64_t l = 0; l < q->width; l++)
        center[l] = most[l] + (apart2 > 1e-6 * reach2 ? center[l] : 0.0);
}

/* Collects the keys of one query: as they are if there are few, else on the grid, which makes
 * the price of a node independent of their number. */
static es_status gather(const question *q, const double *scores, double top, double *center,
                        es_draw_atoms *atoms, es_error *err)
{
    es_draw_grid grid;
    center_of(q, scores, top, center);
    if (q->keys <= FEW_KEYS)
        return es_draw_atoms_exactly(scores, q->values, q->keys, q->width, center, q->budget, atoms,
                                     err);
    es_status status = es_draw_grid_init(&grid, q->budget, q->width, center, err);
    if (status == ES_OK)
        status = es_draw_grid_add(&grid, scores, q->values, q->keys, err);
    if (status == ES_OK)
        status = es_draw_atoms_of(&(const es_draw_grid *){&grid}, 1, atoms, err);
    es_draw_grid_free(&grid);
    return status;
}

/* Undoes the unit of read_values(): squares by unit^2, lengths by unit. */
static void scale_back(const question *q, es_draw_risk *out, es_draw_query *about)
{
    const double square = q->unit * q->unit;
    for (int64_t i = 0; i < q->n_sizes; i++) {
        out[i].square.val *= square;
        out[i].square.err *= square;
        out[i].bias *= q->unit;
    }
    if (!about)
        return;
    about->sampling *= square;
    about->spread2 *= square;
    about->output2 *= square;
}

/* Answers one query, on any thread: scores, atoms, integral, units. */
static es_status answer_query(void *user, int64_t row, int thread, es_error *err)
{
    const question *q = user;
    es_draw_risk *out = q->out + row * q->n_sizes;
    es_draw_query *about = q->about ? q->about + row : NULL;
    es_draw_atoms atoms = {0};
    double *scores, top;
    (void)thread;
    ES_TRY(ES_MEM_NEW(q->budget, scores, q->keys + q->width, "scores", err));
    es_status status = read_scores(q, row, scores, &top, err);
    if (status == ES_OK)
        status = gather(q, scores, top, scores + q->keys, &atoms, err);
    if (status == ES_OK)
        status = es_draw_solve(&atoms, q->sizes, q->n_sizes, out, about, err);
    if (status == ES_OK)
        scale_back(q, out, about);
    es_draw_atoms_free(&atoms);
    es_mem_free(q->budget, scores);
    return status;
}

es_status es_draw_risks(const es_view *scores, es_draw_input input, const es_view *values,
                        const int64_t *sizes, int64_t n_sizes, const es_exec *exec,
                        es_draw_risk *out, es_draw_query *about, es_error *err)
{
    if (input != ES_DRAW_SCORES && input != ES_DRAW_WEIGHTS)
        return es_fail(err, ES_E_ARGUMENT, "draw.input", "scores or weights", "input %d",
                       (int)input);
    ES_TRY(check_sizes(sizes, n_sizes, err));
    ES_TRY(check_shapes(scores, values, err));
    const es_exec here = exec ? *exec : (es_exec){0};
    question q = {.scores = scores,
                  .input = input,
                  .keys = scores->cols,
                  .width = values->cols,
                  .sizes = sizes,
                  .n_sizes = n_sizes,
                  .budget = here.budget,
                  .out = out,
                  .about = about};
    es_status status = read_values(&q, values, err);
    if (status == ES_OK)
        status = es_parallel_run(&here, scores->rows, answer_query, &q, err);
    es_mem_free(q.budget, q.values);
    return status;
}
