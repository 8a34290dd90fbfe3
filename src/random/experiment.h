/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.h : the number of each experiment in the addresses of random numbers.
 *
 * An address (random.h) begins with an experiment. Two purposes with the same number, seed, cell
 * and token would see the same bits and be functions of each other, so every purpose in the library
 * and the program has its number here, and nowhere else. Numbers are part of results: one that has
 * been used is never used again. Callers of the library may start at ES_EXPERIMENT_FREE.
 */
#ifndef ES_RANDOM_EXPERIMENT_H
#define ES_RANDOM_EXPERIMENT_H

typedef enum es_experiment {
    ES_EXPERIMENT_CONVERGE_TOKENS = 1,    /* cell: replicate */
    ES_EXPERIMENT_CONVERGE_QUERIES = 2,   /* likewise */
    ES_EXPERIMENT_CONVERGE_LIMIT = 3,     /* draws over which a limit is averaged */
    ES_EXPERIMENT_CONVERGE_REFERENCE = 4, /* the sample that stands for a limit */
    ES_EXPERIMENT_HARDMAX = 5,            /* cell: n, or replicate */
    ES_EXPERIMENT_HEAD = 10,              /* cell 0, 1, 2: Wq, Wk, Wv; 3: a rotation */

    /* Each of these is the first of a range that ends before the next. */
    ES_EXPERIMENT_BALL = 20,
    ES_EXPERIMENT_REGIMES = 30,
    ES_EXPERIMENT_HEAT = 40,
    ES_EXPERIMENT_COLLAPSE = 45,
    ES_EXPERIMENT_LOCAL = 50, /* to 54 */
    ES_EXPERIMENT_PROBE = 60,
    ES_EXPERIMENT_TAILS = 70, /* to 79 */
    ES_EXPERIMENT_CLAIMS = 80,
    ES_EXPERIMENT_SINK = 90, /* cell: pair (n, q), replicate */

    /* 22, 23 and 100 were resamples of fits: not to be given again */
    ES_EXPERIMENT_SHUFFLE = 110,   /* of a text; cell: es_text_shuffle */
    ES_EXPERIMENT_SELFCHECK = 120, /* inputs that selfcheck makes up; cell: which file */
    ES_EXPERIMENT_SPARSE = 130,    /* to 139: draws of policies, queries, linformer */
    ES_EXPERIMENT_DEPTH = 140,     /* to 149 */
    ES_EXPERIMENT_DOWNSTREAM =
        150,                     /* to 159; 150: keys kept by chance, 151: texts that go together */
    ES_EXPERIMENT_PICTURE = 160, /* to 164 */
    ES_EXPERIMENT_LOSS = 170,    /* keys kept by chance; cell: block, layer, head, query */
    ES_EXPERIMENT_BUDGET = 180,  /* to 189 */
    ES_EXPERIMENT_FAR = 190,     /* places of pools */
    ES_EXPERIMENT_FAR_KEYS = 191,   /* far keys; cell: block, layer, head */
    ES_EXPERIMENT_PREDICT = 0x7468, /* queries of es_predict_general() */
    ES_EXPERIMENT_CROWD = 0x7469,   /* more of them, one by one */
} es_experiment;

#endif
