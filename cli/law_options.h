/* law_options.h : a token law on the command line, the same in every command that takes one. */
#ifndef CLI_LAW_OPTIONS_H
#define CLI_LAW_OPTIONS_H

#include <esscher/law.h>

#include "input.h"

typedef struct cli_law_options {
    int kind;    /* index into cli_law_names, -1: not given */
    int64_t dim; /* 0: as the files say */
    double radius, rho, kappa, freedom;
    const char *mean, *cov, *direction, *weights, *means, *points;
} cli_law_options;

#define CLI_LAW_DEFAULTS                                                                           \
    {                                                                                              \
        .kind = -1, .radius = 1.0, .rho = 1.0                                                      \
    }

/* What the library knows, NULL-ended, in the order of es_law_kind. Filled once, by main(). */
extern const char *cli_law_names[];
void cli_law_names_fill(void);

/* Rows of an option table for member `law` of struct `type`. */
#define CLI_LAW_OPTIONS(type, law)                                                                 \
    {"law",                                                                                        \
     0,                                                                                            \
     CLI_CHOICE,                                                                                   \
     "LAW",                                                                                        \
     "law of the tokens, e.g. gaussian, sphere or cube; mixtures are of Gaussians. A word that "   \
     "is none is answered with the list",                                                          \
     .field = offsetof(type, law.kind),                                                            \
     .choices = cli_law_names},                                                                    \
        {"dim",                                                                                    \
         0,                                                                                        \
         CLI_WHOLE,                                                                                \
         "D",                                                                                      \
         "dimension of a token (default: what the files say)",                                     \
         .field = offsetof(type, law.dim),                                                         \
         .min = 1,                                                                                 \
         .max = 4096},                                                                             \
        {"radius",                                                                                 \
         0,                                                                                        \
         CLI_NUMBER,                                                                               \
         "R",                                                                                      \
         "radius of sphere, ball and vmf, half width of the cube, standard deviation of "          \
         "gaussian, scale of any other law (default: 1)",                                          \
         .field = offsetof(type, law.radius),                                                      \
         .min = 1e-150,                                                                            \
         .max = 1e150},                                                                            \
        {"mean",                                                                                   \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "FILE",                                                                                   \
         "centre of the law, .npy (d) (default: 0)",                                               \
         .field = offsetof(type, law.mean)},                                                       \
        {"cov",                                                                                    \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "FILE",                                                                                   \
         "covariance of the Gaussian, .npy (d, d); any other law is multiplied by its Cholesky "   \
         "factor",                                                                                 \
         .field = offsetof(type, law.cov)},                                                        \
        {"rho",                                                                                    \
         0,                                                                                        \
         CLI_NUMBER,                                                                               \
         "RHO",                                                                                    \
         "the same as --cov with RHO times the identity",                                          \
         .field = offsetof(type, law.rho),                                                         \
         .min = 1e-150,                                                                            \
         .max = 1e150},                                                                            \
        {"kappa",                                                                                  \
         0,                                                                                        \
         CLI_NUMBER,                                                                               \
         "K",                                                                                      \
         "concentration of vmf (default: 0)",                                                      \
         .field = offsetof(type, law.kappa),                                                       \
         .min = 0,                                                                                 \
         .max = 1e12},                                                                             \
        {"direction",                                                                              \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "FILE",                                                                                   \
         "mean direction of vmf, .npy (d)",                                                        \
         .field = offsetof(type, law.direction)},                                                  \
        {"freedom",                                                                                \
         0,                                                                                        \
         CLI_NUMBER,                                                                               \
         "NU",                                                                                     \
         "degrees of freedom of student",                                                          \
         .field = offsetof(type, law.freedom),                                                     \
         .min = 1e-6,                                                                              \
         .max = 1e12},                                                                             \
        {"means",                                                                                  \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "FILE",                                                                                   \
         "centres of the parts of a mixture, .npy (parts, d); --cov is the covariance of each",    \
         .field = offsetof(type, law.means)},                                                      \
        {"weights",                                                                                \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "FILE",                                                                                   \
         "weights of the parts, .npy (parts) (default: equal)",                                    \
         .field = offsetof(type, law.weights)},                                                    \
    {                                                                                              \
        "points", 0, CLI_STRING, "FILE", "points of an empirical law, .npy (n, d)",                \
            .field = offsetof(type, law.points)                                                    \
    }

/* A law and everything it points to. */
typedef struct cli_law {
    es_law law;
    es_law *parts;
    cli_input mean, cov, direction, weights, means, points;
    es_view points_view;
    double *factor;
    double jitter; /* that the Cholesky factor of --cov needed */
} cli_law;

/* Read the files and make the law. `dim` is what other inputs of the command say about the
 * dimension, 0: nothing. Free with cli_law_free() in any case. Jitter is reported on stderr and in
 * the answer.
 * @return : ES_E_ARGUMENT for options that make no sense together; what reading and es_law_check()
 * return; ES_E_NUMERIC for an indefinite covariance. */
es_status cli_law_make(cli_session *session, const cli_law_options *o, int64_t dim, cli_law *out,
                       es_error *err);
void cli_law_free(cli_law *law);

#endif
