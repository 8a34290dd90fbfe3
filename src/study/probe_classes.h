/* probe_classes.h : one word for what a head does, by what was measured of it, and one thing to do
 * about it; the tables of classes and of the heads that matter most. */
#ifndef ES_STUDY_PROBE_CLASSES_H
#define ES_STUDY_PROBE_CLASSES_H

#include <stdint.h>

#include <esscher/table.h>

#include "driver/job.h"

/* The words of key_weights.h, of the median query at the largest n, and whether errors fall as
 * those of averages do:
 *
 *     selects one   ESS < 2 (frozen, there)
 *     averages      ESS >= 100, and the map rate's interval reaches 1/2 and stays above 1/4
 *     sharp         2 <= ESS < 100 (selects a few, there), or the interval is below 1/2
 *     undecided     95 % intervals, over draws, leave it open
 *
 * Where n is below 150, two thirds of n stand for 100, as there. */
typedef enum probe_class {
    PROBE_AVERAGES,
    PROBE_SHARP,
    PROBE_SELECTS,
    PROBE_UNDECIDED,
    PROBE_CLASSES
} probe_class;

/* What a class is decided from. */
typedef struct probe_signs {
    double n;                   /* the largest */
    double ess, ess_se;         /* of the median query: mean over draws, and its standard error */
    int64_t draws;              /* from 2 on */
    double rate_low, rate_high; /* 95 % interval of the map rate; NaN: there is none */
} probe_signs;

/*! probe_class_of() : pure function. probe_wants_rate() : is it undecided for want of a rate alone?
 *  Else more draws decide it. */
probe_class probe_class_of(const probe_signs *signs);
bool probe_wants_rate(const probe_signs *signs);

/*! probe_class_name() : "averages", "sharp", "selects one", "undecided". */
const char *probe_class_name(probe_class kind);

/* What an advice is made from. */
typedef struct probe_case {
    probe_class kind;
    bool wants_rate; /* undecided though its ESS is known to be large: there is no rate */
    double thin;     /* share of queries for which fewer than 100 tokens of the pool count */
    double needs;    /* tokens for 10 %; NaN: less than one */
    int64_t draws;   /* that were made */
    int64_t pool;    /* tokens of the pool */
} probe_case;

enum { PROBE_ADVICE_ROOM = 96 };

/* Where more queries than this have fewer than 100 tokens, a larger pool of the same text needs
 * more tokens (docs/PREDICTION.md). */
#define PROBE_THIN 0.1

/*! probe_advice() : one thing to do, short enough for a column of a terminal. Returns out. */
const char *probe_advice(const probe_case *head, char out[PROBE_ADVICE_ROOM]);

/*! probe_put_class() : class and advice of a row of the table of heads that is full otherwise. */
void probe_put_class(es_table *heads, int64_t row, double n, int64_t draws, int64_t pool);

extern const es_table_spec probe_classes_table, probe_matter_table;
enum { PROBE_MATTER_MOST = 10 };

/*! probe_sum_up_classes() : both tables, which the answer has already, from that of heads.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status probe_sum_up_classes(es_job *job, const es_table *heads, es_table *classes,
                               es_table *matter, es_error *err);

#endif
