/* SPDX-License-Identifier: Apache-2.0 */
/* law_row.h : the descriptor of a token law: one row of functions and facts.
 *
 * A law is one file, src/law/law_NAME.c, which ends with its row es_law_row_NAME. Samplers, limits
 * and options read the row; no other code knows which laws exist. To add a law: its file and an
 * entry in the list ES_LAWS of law.h.
 *
 *     law_table.c    the rows; es_law_check() and other questions; a law ready to be drawn from
 *     law_tilt.c     K of Y = mean + B Z from K of Z; laws with independent coordinates
 *     affine.c       the image mean + B z
 *     bessel.c       the functions of the sphere, which several laws are made of
 */
#ifndef ES_LAW_LAW_ROW_H
#define ES_LAW_LAW_ROW_H

#include "law/bessel.h"
#include <esscher/random.h>

#include "law/law.h"

typedef struct es_law_row es_law_row;

/* ---- images: affine.c ---- */

/* y = mean + B z for many rows z, each row by itself. A BLAS would sum in an order that depends on
 * how many rows it is given, and a token may not depend on that. So B is kept in panels of eight of
 * its rows, k-th column next to (k+1)-st, and an element of y is one chain of multiplications and
 * additions in the order of k: the same for one row and for a million. */
enum { ES_PANEL = 8, ES_PANEL_TALL = 4 }; /* rows of a panel; rows of z it meets at a time */

/* A linear map of drawn rows, in panels for the product. */
typedef struct es_affine {
    int64_t dim;
    const double *mean; /* (dim), the caller's; NULL: 0 */
    double *panels;     /* panel p, column k, row i of the panel at (p*dim + k)*ES_PANEL + i; NULL:
                           B is the identity */
    int64_t *spans;     /* columns [spans[2p], spans[2p+1]) of panel p hold all that is not 0 */
} es_affine;

es_status es_affine_new(int64_t dim, const double *mean, const double *factor, es_mem_limit *budget,
                        es_affine *out, es_error *err);
void es_affine_free(es_affine *a, es_mem_limit *budget);

/* sums (ES_PANEL_TALL, ES_PANEL) = z panel', columns span[0] .. span[1]-1 of the panel. */
typedef void es_panel_fn(const double *panel, const int64_t span[2],
                         const double *const z[ES_PANEL_TALL], double *sums);

/*! es_panel_portable() : for any CPU; es_panel_best() : the fastest this one runs. Same bits. */
es_panel_fn es_panel_portable;
es_panel_fn *es_panel_best(void);

/*! es_affine_rows() : row i of z (count, dim) becomes row place[i] of y; place NULL: row i. z and y
 *  do not overlap, except that without a factor and without places they may be the same. */
void es_affine_rows(const es_affine *a, const double *z, int64_t count, const int64_t *place,
                    double *y);

/* ---- drawing ---- */

/* Lanes of a token, counted from first->lane. Coordinates take up to ES_MAX_DIM/2 = 2048. A part
 * of a mixture uses the lanes it would use by itself: a token comes from one part only. */
enum {
    ES_LANE_COORDINATES = 0,
    ES_LANE_RADIUS = 4096,   /* of ball and Student; 64 */
    ES_LANE_CHOICE = 8192,   /* of a part or a point; 64 */
    ES_LANE_ATTEMPT = 16384, /* of vMF: 64 attempts of 256 lanes, up to the end */
    ES_LANE_END = 1 << 15
};

/* A checked law, ready to be drawn from. Never written to after es_source_prepare(). */
typedef struct es_source {
    es_law law; /* a copy; its arrays are the caller's */
    const es_law_row *row;
    es_mem_limit *budget;
    es_affine affine;        /* z -> mean + B z */
    void *own;               /* what row->prepare() computed, one block of memory; NULL: nothing */
    struct es_source *parts; /* (law.n_parts) of a mixture; NULL: none */
} es_source;

/*! es_source_prepare() : fill *s, which is zero, for a checked law. Release with
 *  es_source_release(), also after a failure. */
es_status es_source_prepare(es_source *s, const es_law *law, es_mem_limit *budget, es_error *err);
void es_source_release(es_source *s);

/* Space for the rows that are being made, one per call. Members that a law does not need are NULL.
 */
typedef struct es_law_scratch {
    int64_t rows;   /* that fit */
    double *base;   /* (rows, dim) : z, before the image mean + B z */
    double *gather; /* (rows, dim) : z of the tokens of one part of a mixture */
} es_law_scratch;

/* The address of token first->token + row, `lane` lanes into what the token owns. */
static inline es_address es_token_at(const es_address *first, int64_t row, uint32_t lane)
{
    es_address at = *first;
    at.token += (uint64_t)row;
    at.lane += lane;
    return at;
}

/*! es_source_radii() : multiply row i of z (count, dim) with a number of its own, which `radius`
 *  makes for count <= 256 rows from the lanes of ES_LANE_RADIUS. */
typedef es_status es_radius_fn(const es_law *law, const es_address *first, int64_t count,
                               double *out, es_error *err);
es_status es_source_radii(const es_source *s, es_radius_fn *radius, const es_address *first,
                          int64_t count, double *z, es_error *err);

/* ---- tilting ---- */

/* The functions of the sphere for callers that have checked d >= 1 and r >= 0: bessel.c. */

/*! es_bessel_ratio_slope() : A_d(r) and A_d'(r), which share nearly all their work. */
void es_bessel_ratio_slope(int64_t dim, double r, es_num *ratio, es_num *slope);

/*! es_bessel_log() : K_d(r). */
es_num es_bessel_log(int64_t dim, double r);

/* K and its derivatives at one point, and bounds to propagate errors: curvature and third bound
 * the second and third derivatives in operator norm, which limit the effect of an error of the
 * point on gradient and Hessian. */
typedef struct es_tilt {
    double K, K_err;
    double *grad, grad_err; /* (d), never NULL; error in Euclidean norm */
    double *hess, hess_err; /* (d, d) or NULL; error of an element */
    double curvature, third;
} es_tilt;

/*! es_tilt_law() : a law that es_law_check() has accepted, at a finite t. */
es_status es_tilt_law(const es_law *law, const double *t, es_mem_limit *budget, es_tilt *out,
                      es_error *err);

/* K of one coordinate at s, its first three derivatives and errors (third: a bound on it). */
typedef struct es_coordinate {
    double K, K_err, grad, grad_err, hess, hess_err, third;
} es_coordinate;

/*! es_tilt_product() : row->tilt of a law whose coordinates are independent and alike, from
 *  row->coordinate: K is the sum, the Hessian is diagonal. Beyond row->edge this fails as
 *  es_limit_log_mgf() says. */
es_status es_tilt_product(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                          es_tilt *out, es_error *err);

/*! es_tilt_radial() : K_q(|v|) for v (d) that depends on s as R s + constant and is known within
 *  v_err: gradient R A u, Hessian R^2 [(A/r) I + (A' - A/r) uu'], r = |v|, u = v/r (THEORY 1). */
void es_tilt_radial(int64_t q, double R, const double *v, int64_t d, double v_err, es_tilt *out);

/*! es_tilt_norm() : |x| (d), which neither overflows nor vanishes on the way. */
double es_tilt_norm(const double *x, int64_t d);

/* ---- the row ---- */

struct es_law_row {
    es_law_kind kind;
    const char *name;  /* as es_law_name() says */
    const char *title; /* in a sentence: "Laplace", "Student's t" */
    unsigned uses;     /* ES_LAW_USES_...: members of es_law beside dim, mean and factor */
    unsigned traits;   /* ES_LAW_... of es_law_traits() */
    int above;         /* ES_LAW_SHADOW: the sphere has this many dimensions more */
    double edge;       /* K is finite where size |s_i| < edge for all i; 0: K has no such edge */

    /* Beyond what es_law_check() does for every law; NULL: nothing. */
    es_status (*check)(const es_law *law, es_error *err);

    /* Once for a sampler, into s->own or s->parts; NULL: nothing. */
    es_status (*prepare)(es_source *s, es_error *err);
    /* Tokens first->token.. of Z into z (count, dim), count <= stage->rows; addresses are fine. */
    es_status (*rows)(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err);
    /* How many tokens there are in a cell; NULL: no end. */
    int64_t (*most)(const es_law *law);

    /* K_Z and its derivatives at s (d); work (d) is scratch. */
    es_status (*tilt)(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                      es_tilt *out, es_error *err);
    void (*coordinate)(const es_law *law, double s, es_coordinate *out); /* for es_tilt_product() */
    /* Mean (d) and covariance (d, d) of Y, either may be NULL; NULL: derivatives of K at 0. */
    es_status (*moments)(const es_law *law, double *mean, double *cov, es_error *err);

    /* On the line: Z/size has the density `density`(z/reach), up to a factor, on [-reach, reach];
     * NULL: it is uniform there. reach 0: Z is +-size with odds exp(2 lean), lean NULL: even. */
    double reach;
    double (*density)(double z);
    double (*lean)(const es_law *law);
};

/*! es_law_row_of() : the row of a kind; NULL for a number that is no law. */
const es_law_row *es_law_row_of(es_law_kind kind);

/*! es_law_positive() : ES_E_RANGE with this rule unless value is positive and finite. */
es_status es_law_positive(double value, const char *rule, const char *name, es_error *err);

#endif
