/* SPDX-License-Identifier: Apache-2.0 */
/* spectrum.h : covariances to draw tokens with, built from a few numbers or read from a file.
 *
 * What decides how attention converges is the spectrum of the tokens' covariance S, so an
 * es_spectrum describes one, and an es_covariance is the matrix, a factor B with BB' = S for
 * es_law.factor, and the eigenvalues:
 *
 *     es_spectrum s = {.kind = ES_SPECTRUM_POWER, .dim = 64, .level = 1.0, .decay = 1.5,
 *                      .scale = ES_SPECTRUM_TRACE, .target = 64.0, .rotation = &address};
 *     es_covariance cov;
 *     es_covariance_make(&s, NULL, &cov, &err);
 *     es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 64, .size = 1.0, .factor = cov.factor};
 *     ...
 *     es_covariance_free(&cov);
 *
 * Without a rotation all numbers but the eigenvalues of Toeplitz matrices have the same bits on
 * every machine; with one they come from BLAS and have the same bits on one kind of CPU.
 */
#ifndef ES_TOKENS_SPECTRUM_H
#define ES_TOKENS_SPECTRUM_H

#include <esscher/exec.h>
#include <esscher/random.h>
#include <esscher/view.h>

/* Shapes of S, with eigenvalues l_1, l_2, ...; c is `level`, d is `dim`. */
typedef enum es_spectrum_kind {
    ES_SPECTRUM_SCALAR = 1,      /* S = c I */
    ES_SPECTRUM_DIAGONAL = 2,    /* S = diag(diagonal) */
    ES_SPECTRUM_POWER = 3,       /* l_i = c i^-decay */
    ES_SPECTRUM_EXPONENTIAL = 4, /* l_i = c e^(-decay (i-1)) */
    ES_SPECTRUM_LOW_RANK = 5,    /* l_i = c for i <= rank, then floor */
    ES_SPECTRUM_TOEPLITZ = 6,    /* S_ij = c correlation^|i-j|, the AR(1) process; eigenvalues
                                    c (1-r^2) / (1 - 2 r cos t + r^2) at d angles t in (0, pi) */
    ES_SPECTRUM_BLOCK = 7        /* c on the diagonal, c correlation inside each of `blocks` nearly
                                    equal blocks, 0 elsewhere. A block of m rows has c (1 + (m-1) r)
                                    once and c (1-r) m-1 times */
} es_spectrum_kind;

/* What S is multiplied with in the end. */
typedef enum es_spectrum_scale {
    ES_SPECTRUM_AS_IS = 0, /* nothing */
    ES_SPECTRUM_TRACE = 1, /* so that its trace is `target` */
    ES_SPECTRUM_TOP = 2    /* so that its largest eigenvalue is `target` */
} es_spectrum_scale;

/* The eigenvalues of a covariance. */
typedef struct es_spectrum {
    es_spectrum_kind kind;
    int64_t dim;
    double level;           /* c > 0; all but DIAGONAL */
    double decay;           /* >= 0; POWER, EXPONENTIAL */
    const double *diagonal; /* (dim), >= 0; DIAGONAL */
    int64_t rank;           /* 1 .. dim; LOW_RANK */
    double floor;           /* >= 0; LOW_RANK */
    double correlation;     /* r; TOEPLITZ: -1 < r < 1; BLOCK: from -1/(m-1) to 1 */
    int64_t blocks;         /* 1 .. dim; BLOCK */
    es_spectrum_scale scale;
    double target; /* > 0 unless AS_IS */
    /* NULL: S as it stands. Else S becomes Q S Q' with Q uniform on O(d), made of the normals of
     * tokens 0 .. dim-1 from this address on. */
    const es_address *rotation;
} es_spectrum;

/* A covariance that owns its numbers. */
typedef struct es_covariance {
    int64_t dim;
    double *matrix; /* (dim, dim), symmetric to the bit */
    double *factor; /* B (dim, dim), BB' = matrix + jitter I up to rounding, some d eps top */
    double *values; /* (dim) eigenvalues, largest first, within some d eps values[0] */
    double jitter;  /* 0 unless a matrix that was given is singular up to rounding */
    es_mem_limit *budget;
} es_covariance;

/*! es_covariance_make() : what `spectrum` describes. B is diagonal, lower triangular (TOEPLITZ),
 * the symmetric root (BLOCK), or Q times that. O(d^2); O(d^3) for TOEPLITZ and with a rotation.
 * Memory is counted against `budget` (may be NULL), which must outlive *out. Release with
 *  es_covariance_free(), which is fine after a failure too. Thread-safe.
 *  @return : ES_OK; ES_E_ARGUMENT: spectrum.kind, spectrum.scale,
 *  spectrum.diagonal (no array); ES_E_SHAPE: spectrum.dim; ES_E_RANGE: spectrum.level,
 *  spectrum.decay, spectrum.diagonal, spectrum.rank, spectrum.floor, spectrum.correlation,
 *  spectrum.blocks, spectrum.target, random.address; ES_E_NONFINITE: view.finite (diagonal);
 *  ES_E_OVERFLOW: spectrum.overflow; ES_E_LIMIT, ES_E_MEMORY, ES_E_NUMERIC. */
es_status es_covariance_make(const es_spectrum *spectrum, es_mem_limit *budget, es_covariance *out,
                             es_error *err);

/*! es_covariance_load() : makes a covariance from the symmetric part of a matrix (d, d) in an .npy
 *  file; B is its Cholesky factor. Negative eigenvalues down to `tolerance` count as rounding, see
 *  linalg.h; 0: 64 d eps, for an f32 matrix 1e-5. O(d^3). err->file names the file.
 *  @return : as es_chol_factor(): ES_E_NUMERIC if it is not symmetric, or indefinite beyond
 *  rounding; ES_E_SHAPE if not square; ES_E_NONFINITE; also what es_npy_load() returns; ES_E_SHAPE
 * (spectrum.rank) if it has not two dimensions. */
es_status es_covariance_load(const char *path, double tolerance, es_mem_limit *budget,
                             es_covariance *out, es_error *err);

/*! es_covariance_free() : give the memory back and empty it; fine on an empty one. */
void es_covariance_free(es_covariance *covariance);

#endif
