/* classes.h : the class of a head, by how many tokens share its weight, and the policy that
 * keeps the right keys of it; the tables of classes and of the heads that matter most. */
#ifndef ES_EXPERIMENTS_PROBE_CLASSES_H
#define ES_EXPERIMENTS_PROBE_CLASSES_H

#include <stdint.h>

#include <esscher/table.h>

#include "driver/job.h"
#include "experiments/probe/probe.h"
#include "theory/key_weights.h"

/* What a class is decided from. Rates are not: no head's is exactly 1/2, so that a test against 1/2
 * would reject more heads the more draws there are. */
typedef struct probe_signs {
    double n;           /* the largest */
    double ess, ess_se; /* of the median query: mean over draws, and its standard error */
    int64_t draws;      /* from 2 on */
} probe_signs;

/*! probe_class_of() : es_regime_within() of the 95 % interval of the ESS. Pure function. */
es_regime probe_class_of(const probe_signs *signs);

/*! probe_put_class() : class of a row of the table of heads, whose ESS is there already. */
void probe_put_class(es_table *heads, int64_t row, double n, int64_t draws);

/*! probe_put_policies() : errors of the policies, and as advice the best of them with those whose
 *  error cannot be told from it (95 %), best first. */
void probe_put_policies(es_table *heads, int64_t row, const es_probe_policies *policies);

/* Where more queries than this have fewer than 100 tokens, a larger pool of the same text needs
 * more tokens (docs/PREDICTION.md). */
#define PROBE_THIN 0.1

/* The definition of the column `advice`. */
#define PROBE_KEYS_TO_KEEP                                                                         \
    "the policy of smallest exact error when an eighth of the keys is kept: 128 of 1024 tokens "   \
    "of the pool, or of the largest n if that is less. random: at random; top: the largest "       \
    "weights; top-random: half and half. Several where 16 queries cannot tell them apart. top "    \
    "and top-random need the query's scores; `esscher sparse` compares policies that do not. "     \
    "None for causal models: their keys have positions"

/* Classes in the order of their table: averaging, selective, single-key, undecided. */
extern const es_regime probe_classes_order[ES_REGIMES];

extern const es_table_spec probe_classes_table, probe_matter_table;
enum { PROBE_MATTER_MOST = 10 };

/*! probe_sum_up_classes() : both tables, which the answer has already, from that of heads;
 *  n is the largest.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status probe_sum_up_classes(es_job *job, const es_table *heads, double n, es_table *classes,
                               es_table *matter, es_error *err);

#endif
