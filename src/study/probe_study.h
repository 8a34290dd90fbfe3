/* probe_study.h : the study `probe`: what it asks and measures is in probe_study.c, what it makes
 * of it in probe_summary.c, of contexts in probe_context.c, and whether domains differ in
 * probe_domains.c. */
#ifndef ES_STUDY_PROBE_STUDY_H
#define ES_STUDY_PROBE_STUDY_H

#include <esscher/probe.h>

#include "study/pool_params.h"
#include "study/series.h"

typedef struct probe_params {
    es_pool_params pool;
    int64_t replicates, control, queries, exact;
    es_grid sizes;
    int draw;
} probe_params;

/* Stages: the limit of a layer; a draw of the text's tokens; one of Gaussian tokens; exact errors
 * of some queries of a layer; a layer without one section of the text after the other. A *place* is
 * a layer of a domain. */
enum { PROBE_LIMIT, PROBE_DRAW, PROBE_CONTROL, PROBE_EXACT, PROBE_SECTIONS };

/* Columns of a draw. Its first heads x sizes rows are errors of single heads, which have no
 * coherence; then come `sizes` rows of all heads together, which have only that and the map error.
 * A control has the first three columns, and no rows of all heads. */
enum {
    PROBE_MEAN,
    PROBE_COV,
    PROBE_MAP,
    PROBE_ERRORS,
    PROBE_COHERENCE = PROBE_ERRORS,
    PROBE_FEW, /* map error of the exact queries */
    PROBE_ESS, /* and the rest of es_probe_focus */
    PROBE_ESS_LOW,
    PROBE_TOP,
    PROBE_TOP_HIGH,
    PROBE_COLUMNS
};

/* How tokens are drawn. Contiguous: windows of the text beside tokens with replacement. */
enum { PROBE_WITH, PROBE_WITHOUT, PROBE_CONTIGUOUS };

typedef struct probe_state {
    es_pools pools;
    es_probe_spec spec; /* of any layer; pool and exec are the layer's */
    int64_t layers, heads;
    es_probe_cost cost;
    int window_stage;      /* cells like those of a draw, of windows; -1: none */
    es_exec exec;          /* of the layer that is open */
    es_probe *probe;       /* the layer that is open; NULL: none */
    int64_t place;         /* which it is */
    es_probe_cell *cells;  /* (heads, sizes) room for a draw */
    es_probe_joint *joint; /* (sizes) */
} probe_state;

/*! probe_open_layer() : state->probe is the layer of that place, from its limit, for draws or for
 *  all that is known of it. Cells come in order, so that it is opened anew only now and then. */
es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err);

/*! probe_put_contexts() : tables and findings about windows, beside those of draws. `heads` is the
 *  table of heads, full. */
es_status probe_put_contexts(es_job *job, const es_table *heads, es_answer *answer, es_error *err);

es_status probe_summarise(es_job *job, es_answer *answer, es_error *err);

/*! probe_places() : layers of all domains. */
int64_t probe_places(const probe_state *s);

/*! probe_spec_at() : what is asked of that place. */
es_probe_spec probe_spec_at(const probe_state *s, int64_t place, const es_exec *exec);

extern const es_table_spec probe_layers_table, probe_heads_table, probe_rows_table;

/* ---- probe_domains.c ---- */

/*! probe_sections_price() : of one layer; nothing where there is one domain. */
es_probe_price probe_sections_price(const probe_state *s);

/*! probe_add_sections() : the stage PROBE_SECTIONS, which has no cells where there is one domain.
 */
es_status probe_add_sections(es_job *job, es_error *err);

/*! probe_compare_domains() : the table of differences, which is added to the answer here, and what
 *  is found in it. */
es_status probe_compare_domains(es_job *job, es_table *table, es_answer *answer, es_error *err);

extern const es_table_spec probe_differences_table;

#endif
