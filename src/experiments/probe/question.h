/* question.h : the study `probe`: what it asks and measures is in probe/question.c, what it makes
 * of it in probe/rows.c, of places of a causal model in probe/positions.c, of contexts in
 * probe/context.c; classes of heads are in probe/classes.c, sentences about them in
 * probe/findings.c; whether domains differ in probe/domains.c; the paper's protocol in
 * probe/protocol.c; walks through the pool in probe/walks.c. */
#ifndef ES_EXPERIMENTS_PROBE_QUESTION_H
#define ES_EXPERIMENTS_PROBE_QUESTION_H

#include "experiments/probe/probe.h"

#include "experiments/kit/pool_params.h"
#include "experiments/kit/series.h"
#include "experiments/probe/paper.h"
#include "experiments/probe/position_question.h"

typedef struct probe_params {
    es_pool_params pool;
    int64_t replicates, control, queries, exact;
    es_grid sizes;
    int draw, paper, look;
    double error;
} probe_params;

/* What is looked at: positions of a causal model, or distances from the pool's limit. */
enum { PROBE_POSITIONS, PROBE_LIMITS };

/* Stages: the limit of a layer; a draw of the text's tokens; one of Gaussian tokens; exact errors
 * of some queries of a layer; a layer without one section of the text after the other; a draw of a
 * passage by the paper's protocol. A *place* is a layer of a domain. */
enum { PROBE_LIMIT, PROBE_DRAW, PROBE_CONTROL, PROBE_EXACT, PROBE_SECTIONS, PROBE_PAPER };

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
    PROBE_AFTER_WO, /* map error in the layer's output */
    PROBE_COLUMNS
};

/* Passages of the paper's protocol, at most. */
enum { PROBE_PASSAGES = 4 };

/* How tokens are drawn. Contiguous: windows of the text beside tokens with replacement. */
enum { PROBE_WITH, PROBE_WITHOUT, PROBE_CONTIGUOUS };

typedef struct probe_state {
    es_pools pools;
    es_probe_spec spec; /* of any layer; pool and exec are the layer's */
    int64_t layers, heads;
    es_probe_cost cost;
    int window_stage;                 /* cells like those of a draw, of windows; -1: none */
    es_exec exec;                     /* of the layer that is open */
    es_probe *probe;                  /* the layer that is open; NULL: none */
    int64_t place;                    /* which it is */
    const double **limits;            /* (layers) of a domain, as far as they are looked at */
    es_probe_wants wants;             /* of a pool that is streamed */
    es_probe_cell *cells;             /* (heads, sizes) room for a draw */
    es_probe_joint *joint;            /* (sizes) */
    es_probe_paper *paper;            /* the passage that is open; NULL: none */
    int64_t passage;                  /* which it is */
    es_probe_paper_cell *paper_cells; /* (sizes) */
    bool by_position; /* positions are looked at, and there is no pool; else the limit */
    probe_positions positions;
} probe_state;

/*! probe_open_layer() : state->probe is the layer of that place, from its limit, for draws or for
 *  all that is known of it. Cells come in order, so that it is opened anew only now and then. */
es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err);

/*! probe_put_contexts() : tables and findings about windows, beside those of draws. `heads` is the
 *  table of heads, full. */
es_status probe_put_contexts(es_job *job, const es_table *heads, es_answer *answer, es_error *err);

/* A rate and what is said about it. */
#define PROBE_RATE_COLUMNS(key, title, definition)                                                 \
    {key, title, "", ES_FORMAT_REAL, definition, .error = key "_se"},                              \
        {key "_ci.0", title " from", "", ES_FORMAT_REAL,                                           \
         "95 % interval, Student's t over replicates"},                                            \
        {key "_ci.1", title " to", "", ES_FORMAT_REAL},                                            \
        {key "_p", title " p", "", ES_FORMAT_SHORT,                                                \
         "of a power law on this range: how often draws of one would bend more; none with fewer "  \
         "than 4 "                                                                                 \
         "draws, which cannot tell"},                                                              \
    {                                                                                              \
        key "_reason", title " reason", "", ES_FORMAT_TEXT, "why there is no rate"                 \
    }

es_status probe_summarise(es_job *job, es_answer *answer, es_error *err);

/*! probe_put_rate() : columns of PROBE_RATE_COLUMNS(name) of a row. */
void probe_put_rate(es_table *table, int64_t row, const char *name, const es_series *s);

/*! probe_places() : layers of all domains. */
int64_t probe_places(const probe_state *s);

/*! probe_spec_at() : what is asked of that place. */
es_probe_spec probe_spec_at(const probe_state *s, int64_t place, const es_exec *exec);

extern const es_table_spec probe_layers_table, probe_heads_table, probe_rows_table;

/* ---- probe/walks.c ---- */

/*! probe_add_limit(), probe_add_exact() : the stages PROBE_LIMIT and PROBE_EXACT. A cell of the
 *  latter is a slice of heads; those of a place follow each other from probe_exact_cell() on, as
 *  es_probe_exact() has them. */
es_status probe_add_limit(es_job *job, es_error *err);
es_status probe_add_exact(es_job *job, es_error *err);
int64_t probe_exact_cell(const probe_state *s, int64_t place);

/*! probe_walks_price() : running the model for them, of all domains, and memory beyond what
 *  es_probe_cost_of() says of one layer. */
es_probe_price probe_walks_price(const es_job *job, const probe_state *s);

/*! probe_layers_together() : so many go together in a walk, of which one takes so many bytes.
 *  probe_forwards() : how often the model runs over a text then, with `per` cells of a layer. */
int64_t probe_layers_together(const es_job *job, double bytes);
double probe_forwards(const probe_state *s, int64_t per, int64_t group);

/* ---- probe/findings.c ---- */

/*! probe_tell_heads() : what the heads do, in sentences, from the tables of heads and of classes.
 */
es_status probe_tell_heads(es_job *job, const es_table *heads, const es_table *classes,
                           es_answer *answer, es_error *err);

/*! probe_caution() : what should not be believed of it. */
es_status probe_caution(es_job *job, const es_table *heads, es_answer *answer, es_error *err);

/* ---- probe/domains.c ---- */

/*! probe_sections_price() : of one layer, beside running the model; nothing where there is one
 *  domain. probe_sections_group() : layers that go together. */
int64_t probe_sections_group(const es_job *job);
es_probe_price probe_sections_price(const probe_state *s);

/*! probe_add_sections() : the stage PROBE_SECTIONS, which has no cells where there is one domain.
 */
es_status probe_add_sections(es_job *job, es_error *err);

/*! probe_compare_domains() : the table of differences, which is added to the answer here, and what
 *  is found in it. */
es_status probe_compare_domains(es_job *job, es_table *table, es_answer *answer, es_error *err);

extern const es_table_spec probe_differences_table;

/* ---- probe/protocol.c ---- */

/*! probe_paper_price() : of one layer of a domain; nothing where the protocol is the default. */
es_probe_price probe_paper_price(const es_job *job, const probe_state *s);

/*! probe_add_paper() : the stage PROBE_PAPER, which has no cells then; pools are there already. */
es_status probe_add_paper(es_job *job, es_error *err);

/*! probe_sum_up_paper() : the tables of the paper's protocol, and what is found in them. */
es_status probe_sum_up_paper(es_job *job, es_answer *answer, es_error *err);

#endif
