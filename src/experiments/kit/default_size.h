/* SPDX-License-Identifier: Apache-2.0 */
/* default_size.h : default numbers of blocks, queries and tokens that suit the size of a model.
 *
 * The usual defaults of a study suit a small model. If they take more than ES_DEFAULT_WORK, the
 * sizes that were not given are lowered in steps until the run fits. Work is counted, never timed:
 * the same model, text and options have the same defaults, and the same answer, on every machine.
 * What is chosen goes to the parameters, which run files record.
 *
 *     es_size sizes[] = {{"block", .usual = 8192, .halves = true},
 *                        {"blocks", .usual = tokens, .of = 1, .averaged = true}};
 *     static const es_size_step steps[] = {{1, 8}, {0, 512}, {1, 2}};
 *     const es_sizing sizing = {sizes, 2, steps, 3, work, user};
 *     if (es_sizes_fit(&sizing)) ... use sizes[0].value, sizes[1].value
 *     es_sizes_add_finding(&sizing, answer);
 */
#ifndef ES_EXPERIMENTS_KIT_DEFAULT_SIZE_H
#define ES_EXPERIMENTS_KIT_DEFAULT_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/table.h>

#include "model/pool.h"

/* The most operations of a default run: five minutes at a nominal speed, that of two cores which do
 * 117 GFLOP/s each (256-bit multiply-adds at 3.65 GHz), at the 75 % of it that costs assume. It is
 * a constant, because defaults that follow the machine's own speed would make answers depend on it.
 */
#define ES_DEFAULT_SPEED   1.75e11
#define ES_DEFAULT_SECONDS 300.0
#define ES_DEFAULT_WORK    (ES_DEFAULT_SPEED * ES_DEFAULT_SECONDS)

/* Errors over fewer than ES_SIZE_BLOCKS blocks are hardly known, and those over one are not. A
 * context below ES_SIZE_SHORT is another question; one of ES_SIZE_CONTEXT is what studies use
 * where a model could read more than the text has to offer. */
enum { ES_SIZE_BLOCKS = 8, ES_SIZE_CONTEXT = 2048, ES_SIZE_SHORT = 512, ES_SIZE_FEWEST = 2 };

/* A parameter that decides how much work a run is. */
typedef struct es_size {
    const char *option; /* its name */
    int64_t usual;      /* what it is if that fits; with `of`, the tokens there are */
    bool fixed;         /* was given: stays as it is */
    bool halves;        /* a length: lowered by halves */
    int of;             /* 1 + number of the length of the blocks that this one counts: there are
                           usual / length of them; 0: `usual` is the number */
    int64_t most;       /* with `of`: no more than these; 0: any number */
    bool in_tokens;     /* with `of`: the option is tokens, blocks times length */
    bool averaged;      /* errors fall with its square root */
    int64_t longest;    /* of a length: what the model can read; 0: not to be mentioned */
    int64_t value;      /* result; the number of blocks even if in_tokens */
} es_size;

/* Lowers size number `size` to `least`, or less far if that is enough. */
typedef struct es_size_step {
    int size;
    int64_t least;
} es_size_step;

enum { ES_MOST_SIZES = 3 };

/* Returns the operations of a run with values (n_sizes), blocks where a size has `of`. */
typedef double (*es_size_work)(const void *user, const int64_t *values);

/* Sizes, the order in which they are lowered, and what a run of them takes. */
typedef struct es_sizing {
    es_size *sizes; /* (n_sizes), at most ES_MOST_SIZES */
    int n_sizes;
    const es_size_step *steps; /* (n_steps) */
    int n_steps;
    es_size_work work; /* does not fall if a value grows */
    const void *user;
} es_sizing;

/*! es_sizes_fit() : sets the values: the usual ones if they take at most ES_DEFAULT_WORK; else as
 *  many steps are taken as are needed to fit. Then the sizes of these steps, the last step first,
 *  are raised as far as they fit. If no step makes it fit, every size is at its least. Returns
 *  whether a step was taken. A pure function of its argument. */
bool es_sizes_fit(const es_sizing *sizing);

/*! es_sizes_add_finding() : adds a finding about sizes that were lowered, and about lengths below
 * what the model can read: what was chosen, how long that takes at the nominal speed, and what four
 * times as many blocks would bring. Adds nothing if there are none. */
void es_sizes_add_finding(const es_sizing *sizing, es_answer *answer);

/*! es_default_length() : the usual length of blocks of a model that reads `positions` tokens: the
 *  longest of positions, positions / 2, ..., 2048 of which a text of `tokens` has as many as are
 *  wanted, at most 8 (blocks 0: 8); 2048 if none has; positions if they are no more than 2048, or
 *  the text is no longer than two blocks of that. */
int64_t es_default_length(int64_t positions, int64_t tokens, int64_t blocks);

/*! es_count_tokens() : ids of a text, cut by `spec`, which it is read for. @return : as
 *  es_blocks_read(). */
es_status es_count_tokens(const es_blocks_spec *spec, es_mem_limit *budget, int64_t *out,
                          es_error *err);

#endif
