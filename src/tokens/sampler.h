/* sampler.h : what the laws of this room share: the sampler, the lanes of a token, the stage. */
#ifndef ES_TOKENS_SAMPLER_H
#define ES_TOKENS_SAMPLER_H

#include <esscher/tokens.h>

#include "tokens/affine.h"

/* Lanes of a token, counted from first->lane. Coordinates take up to ES_MAX_DIM/2 = 2048. A part
 * of a mixture uses the lanes it would use by itself: a token comes from one part only. */
enum {
    ES_LANE_COORDINATES = 0,
    ES_LANE_RADIUS = 4096,  /* of ball and Student; 64 */
    ES_LANE_CHOICE = 8192,  /* of a part or a point; 64 */
    ES_LANE_ATTEMPT = 16384 /* of vMF: 64 attempts of 256 lanes, up to the end */
};

/* Room for the rows that are being made, one per call. Members that a law does not need are NULL.
 */
typedef struct es_stage {
    int64_t rows;   /* that fit */
    double *base;   /* (rows, dim) : z, before the image mean + B z */
    double *image;  /* (rows, dim) : after it, when the caller wants f32 */
    double *gather; /* (rows, dim) : z of the tokens of one part of a mixture */
} es_stage;

/* Rows of a law before its own mean and factor: tokens first->token.. into out (count, dim), where
 * count <= stage->rows. Addresses have been checked. */
typedef es_status es_base_fn(const es_sampler *s, const es_address *first, int64_t count,
                             const es_stage *stage, double *out, es_error *err);

/* Wood's constants; see vmf.c. */
typedef struct es_vmf {
    double kappa, m;      /* m = dim - 1 */
    double b;             /* of the proposal */
    double gap, mode;     /* 1 - x0 and x0, where the proposal touches */
    double sign, divisor; /* of the reflection */
} es_vmf;

struct es_sampler {
    es_law law; /* a copy; its arrays are the caller's */
    es_budget *budget;
    es_base_fn *base;
    es_affine affine;
    es_vmf vmf;
    double *reflection; /* (dim) of vMF */
    double *cumulative; /* (n_parts) of a mixture; the last is 1 */
    es_sampler *parts;  /* (n_parts) of a mixture */
};

es_base_fn es_base_gaussian, es_base_cube, es_base_rademacher, es_base_laplace; /* product.c */
es_base_fn es_base_sphere, es_base_ball, es_base_student;                       /* round.c */
es_base_fn es_base_vmf, es_base_mixture, es_base_empirical;

/*! es_sampler_prepare() : fill *s, which is zero, for a checked law. What it holds after a failure
 *  is released with the sampler that it is or is a part of. */
es_status es_sampler_prepare(es_sampler *s, const es_law *law, es_budget *budget, es_error *err);

/*! es_sampler_check() : may these rows be asked for? All reasons to refuse but a lack of memory. */
es_status es_sampler_check(const es_sampler *s, const es_address *first, int64_t count,
                           const void *out, es_error *err);

es_status es_vmf_prepare(es_sampler *s, es_error *err);
es_status es_mixture_prepare(es_sampler *s, es_error *err);

/* The address of token first->token + row, `lane` lanes into what the token owns. */
static inline es_address es_token_at(const es_address *first, int64_t row, uint32_t lane)
{
    es_address at = *first;
    at.token += (uint64_t)row;
    at.lane += lane;
    return at;
}

#endif
