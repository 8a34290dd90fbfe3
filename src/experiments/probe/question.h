/* SPDX-License-Identifier: Apache-2.0 */
/* question.h : the study `probe`. It asks one of these questions, chosen once in question.c:
 *
 *     limits     how n tokens approach the limit of many (probe.h); of a causal model, without
 *                positions (--look content)
 *         limits.c        parameters, cost, stages, the order of the summary
 *         draws.c         cells: draws of tokens, windows of the text, Gaussian tokens
 *         walks.c         cells: limits of layers and exact errors
 *         layers.c        table layers            heads.c        table heads
 *         curves.c        table rows              classes.c      tables classes, matter_most
 *         differences.c   table differences       contexts.c     tables contexts, context_heads,
 *         protocol.c      tables paper_rates,                    windows
 *                         paper_rows              findings.c     sentences about heads
 *     positions  what the heads of a causal model do as their context grows
 *         (position_question.h)
 *     far        far keys as independent draws: limits, exact errors, forecasts
 *                (far_question.h); --look limit of a causal model asks for its limits alone
 */
#ifndef ES_EXPERIMENTS_PROBE_QUESTION_H
#define ES_EXPERIMENTS_PROBE_QUESTION_H

#include "experiments/kit/probe.h"

#include "experiments/kit/pool_params.h"
#include "experiments/kit/rate_columns.h"
#include "experiments/probe/far_question.h"
#include "experiments/probe/paper.h"
#include "experiments/probe/position_question.h"
#include "theory/key_weights.h"

/* The options of all questions. */
typedef struct probe_params {
    es_pool_params pool;
    int64_t replicates, control, queries, exact;
    es_grid sizes;
    int draw, paper, look;
    double error;
    int64_t sinks, near;
    es_grid forecast;
    const char *other_text;
    bool verify;
} probe_params;

/* One of the questions: the phases of the study. */
typedef struct probe_question {
    es_status (*open)(es_job *job, es_error *err);
    void (*cost)(const es_job *job, es_cost *out);
    es_status (*begin)(es_job *job, es_error *err);
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
    es_pool_work work; /* before open(): what pools of a size would take */
} probe_question;
extern const probe_question probe_limits_question, probe_positions_question, probe_far_question;

/* Stages of the question about limits: the limit of a layer; a draw of the text's tokens; one of
 * Gaussian tokens; exact errors of some queries of a layer; a layer without each section of the
 * text; a draw of a passage by the paper's protocol. A *place* is a layer of a domain. */
enum { PROBE_LIMIT, PROBE_DRAW, PROBE_CONTROL, PROBE_EXACT, PROBE_SECTIONS, PROBE_PAPER };

/* Passages of the paper's protocol, at most. */
enum { PROBE_PASSAGES = 4 };

/* How tokens are drawn. Contiguous: windows of the text, and tokens with replacement. */
enum { PROBE_WITH, PROBE_WITHOUT, PROBE_CONTIGUOUS };

extern const char *const probe_draws[], *const probe_protocols[]; /* names of these choices */

/* What the options make: pools, question, and what cells share. */
typedef struct probe_state {
    es_pools pools;
    int64_t layers, heads;
    const probe_question *question;
    bool also_far;             /* forecasts are asked for beside positions */
    bool limits_only;          /* of far fields: --look limit of a causal model */
    probe_positions positions; /* of the question about positions */
    probe_far far;             /* of that about far fields; the rest is about limits */
    es_probe_spec spec;        /* of any layer; pool and exec are the layer's */
    es_probe_cost cost;
    int window_stage;      /* draws of windows; -1: none */
    es_exec exec;          /* of the layer that is open */
    es_probe *probe;       /* the layer that is open; NULL: none */
    int64_t place;         /* of that layer */
    es_probe_wants wants;  /* of a pool that is streamed */
    es_probe_cell *cells;  /* (heads, sizes) scratch for a draw of Gaussian tokens */
    es_probe_joint *joint; /* (sizes) */
    es_probe_paper *paper; /* the passage that is open; NULL: none */
    int64_t passage;       /* its number */
} probe_state;

/* ---- draws.c ---- */

/* The three errors of a draw, in this order in es_probe_cell. */
enum { PROBE_MEAN, PROBE_COV, PROBE_MAP, PROBE_ERRORS };

/* Record of a draw of Gaussian tokens: one head at one n. */
typedef struct probe_control_cell {
    double mean_error, cov_error, map_error;
} probe_control_cell;

/*! probe_add_draws() : adds the stage "draw" or "window", whose cells are (heads + 1, sizes)
 *  records es_probe_cell: single heads, which have no coherence, then all heads together, which
 *  have only map error and coherence. probe_add_control() : adds the stage PROBE_CONTROL. */
es_status probe_add_draws(es_job *job, bool windows, es_error *err);
es_status probe_add_control(es_job *job, es_error *err);

/*! probe_draw_at() : replicate r of a place at size number i; head number `heads` is all of them
 *  together. */
const es_probe_cell *probe_draw_at(const es_job *job, int stage, int64_t place, int64_t r,
                                   int64_t head, int64_t i);

/*! probe_drawn() : mean and standard error over replicates of the member `first` points to, which
 *  is one of replicate 0 of the stage PROBE_DRAW. probe_drawn_rms() : root mean square. */
es_measured probe_drawn(const es_job *job, const double *first);
es_measured probe_drawn_rms(const es_job *job, const double *first);

/*! probe_error() : error number `which` of a cell. */
double probe_error(const es_probe_cell *cell, int which);

/* ---- layers ---- */

/*! probe_open_layer() : opens the layer of a place from its limit, into state->probe, for draws or
 *  for everything. Cells come in order, so that a layer is seldom opened twice. */
es_status probe_open_layer(const es_job *job, int64_t place, bool draws_only, const es_exec *exec,
                           es_error *err);

/*! probe_places() : layers of all domains. */
int64_t probe_places(const probe_state *s);

/*! probe_spec_at() : the spec of a place. */
es_probe_spec probe_spec_at(const probe_state *s, int64_t place, const es_exec *exec);

/*! probe_largest_n() : the largest of the sizes. */
double probe_largest_n(const probe_state *s);

/* ---- rows ---- */

/* A head of a domain: heads.c. */
typedef struct probe_head_row {
    const char *domain;
    int64_t layer, head;
    const char *class, *advice;
    double random_error, top_error, top_random_error, critical_scale;
    double weight_least, weight_most;
    es_measured critical_power;
    es_measured moves;
    double horizon, horizon_error, horizon_one_sided, horizon_unscaled, coupling, frobenius;
    es_measured score_sd;
    double freezing;
    es_measured gaussian_frozen;
    double ess_pool, ess_pool_low, top_pool, top_pool_high;
    es_measured ess_n, ess_n_low, top_n, top_n_high;
    es_measured local_exponent;
    double beta, beta_frozen;
    es_rate_cells rate_mean, rate_cov, rate_map;
    es_measured relative_error;
    double output_rms, sampling, sampling_error;
    const char *tokens_for_tenth_sign;
    es_measured tokens_for_tenth;
    double tokens_for_tenth_queries, tokens_for_tenth_pool, thin;
    double mean_error_limit, cov_error_limit, map_error_limit;
    es_rate_cells rate_mean_gaussian, rate_cov_gaussian, rate_map_gaussian;
    double rate_map_predicted, rate_map_exact, rate_horizon, rate_worst_case, rate_coupling;
    double exponent_map, exponent_mean;
    es_measured entropy, top_mass, ess, inverse_ess, sink_first, sink_last;
} probe_head_row;

/* A head at one n: curves.c. */
typedef struct probe_curve_row {
    const char *domain;
    int64_t layer, head, n;
    es_measured mean_error, cov_error, map_error, relative_error, map_error_exact;
    double map_error_exact_pool;
    es_measured exact_ratio;
    double map_error_sampling;
    es_measured ess, top_weight;
    es_measured mean_error_gaussian, cov_error_gaussian, map_error_gaussian;
    double map_error_predicted;
    const char *mean_error_flag, *cov_error_flag, *map_error_flag;
} probe_curve_row;

extern const es_table_spec probe_layers_table, probe_heads_table, probe_curves_table;

/* The summary under way: the head that is being described and everything known of it. */
typedef struct probe_summary {
    es_job *job;
    const probe_params *p;
    probe_state *s;
    es_table *layers, *heads, *curves;
    es_exec exec; /* the job's; its progress counts layers */
    int64_t place, head;
    int64_t tokens;                   /* of the pool */
    es_series text[PROBE_ERRORS];     /* errors of the text's tokens */
    es_series gaussian[PROBE_ERRORS]; /* errors of Gaussian tokens */
    es_probe_head about;              /* of the head */
    es_probe_local *local;            /* (heads) */
    es_probe_policies *policies;      /* (heads); NULL of a causal model */
    double *predicted;                /* (sizes) scratch */
    es_probe_point *exact;            /* (sizes) */
    probe_head_row *row;              /* of the head */
    probe_curve_row *curve;           /* (sizes) of the head */
} probe_summary;

/*! probe_describe_layers() : fills the tables layers, heads and rows, which m has. */
es_status probe_describe_layers(probe_summary *m, es_error *err);

/*! probe_describe_head() : one row of heads; the layer is open. */
es_status probe_describe_head(probe_summary *m, es_error *err);

/*! probe_add_curve() : adds the rows of a head's curve. probe_fill_curve() : its errors, and the
 *  rates of m->row that follow from them. */
es_status probe_add_curve(probe_summary *m, es_error *err);
es_status probe_fill_curve(probe_summary *m, es_error *err);

/*! probe_exact_at() : exact errors of the layer of m->place. */
const double *probe_exact_at(const probe_summary *m);

/* ---- classes.c ---- */

/* What a class is decided from. Rates are not: no head's is exactly 1/2, so that a test against 1/2
 * would reject more heads the more draws there are. */
typedef struct probe_signs {
    double n;           /* the largest */
    double ess, ess_se; /* of the median query: mean over draws, and its standard error */
    int64_t draws;      /* from 2 on */
} probe_signs;

/*! probe_class_of() : es_regime_within() of the 95 % interval of the ESS. Pure function. */
es_regime probe_class_of(const probe_signs *signs);

/*! probe_classify() : sets the class of a head whose ESS is known. */
void probe_classify(probe_head_row *row, double n, int64_t draws);

/*! probe_advise() : sets the errors of the policies, and as advice the best of them with those
 *  whose error does not differ from it at 95 %, best first. */
void probe_advise(es_table *heads, probe_head_row *row, const es_probe_policies *policies);

/* Where more queries than this have fewer than 100 tokens, a larger pool of the same text needs
 * more tokens (docs/TRUST.md). */
#define PROBE_THIN 0.1

/* The definition of the column `advice`. */
#define PROBE_KEYS_TO_KEEP                                                                         \
    "policy of smallest exact error when an eighth of the keys is kept: 128 of 1024 tokens of "    \
    "the pool, or of the largest n if that is less. random: at random; top: the largest "          \
    "weights; top-random: half and half. Several where 16 queries cannot tell them apart. top "    \
    "and top-random need the query's scores; `esscher sparse` compares policies that do not. "     \
    "None for causal models: their keys have positions"

/* One class of heads. */
typedef struct probe_class_row {
    const char *class;
    int64_t heads;
    double rate_map, rate_map_exact, ess_n;
    int64_t random, top, top_random;
    const char *meaning;
} probe_class_row;

/* One of the heads whose error changes the layer's output most. */
typedef struct probe_matter_row {
    const char *domain;
    int64_t layer, head;
    const char *class, *advice;
    double random_error, top_error, top_random_error;
    es_measured moves, relative_error, rate_map;
    double rate_map_exact;
    es_measured ess_n;
} probe_matter_row;

/* Classes in the order of their table: averaging, selective, single-key, undecided. */
extern const es_regime probe_classes_order[ES_REGIMES];

extern const es_table_spec probe_classes_table, probe_matter_table;
enum { PROBE_MATTER_MOST = 10 };

/*! probe_sum_up_classes() : fills both tables from that of heads; n is the largest.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status probe_sum_up_classes(es_job *job, const es_table *heads, double n, es_table *classes,
                               es_table *matter, es_error *err);

/* ---- walks.c ---- */

/*! probe_add_limit(), probe_add_exact() : add the stages PROBE_LIMIT and PROBE_EXACT. A cell of the
 *  latter is a slice of heads; those of a place follow each other from probe_exact_cell() on, as
 *  es_probe_exact() has them. */
es_status probe_add_limit(es_job *job, es_error *err);
es_status probe_add_exact(es_job *job, es_error *err);
int64_t probe_exact_cell(const probe_state *s, int64_t place);

/*! probe_walks_price() : running the model for these stages, over all domains, and memory beyond
 *  what es_probe_cost_of() counts for one layer. */
es_probe_price probe_walks_price(const es_job *job, const probe_state *s);

/*! probe_layers_together() : how many layers of `bytes` each share a walk through the text.
 *  probe_forwards() : how often the model then runs over a text, with `per` cells of a layer. */
int64_t probe_layers_together(const es_job *job, double bytes);
double probe_forwards(const probe_state *s, int64_t per, int64_t group);

/* ---- findings.c ---- */

/*! probe_add_head_findings() : adds findings about the heads and their classes. probe_caution() :
 * adds what limits them. */
es_status probe_add_head_findings(es_job *job, const es_table *heads, const es_table *classes,
                                  es_answer *answer, es_error *err);
es_status probe_caution(es_job *job, const es_table *heads, es_answer *answer, es_error *err);

/*! probe_counted() : "heads", or "pairs of a head and a domain". */
const char *probe_counted(const probe_state *s);

/* ---- contexts.c ---- */

/*! probe_put_contexts() : adds tables and findings about windows; `heads` is filled. */
es_status probe_put_contexts(es_job *job, const es_table *heads, es_answer *answer, es_error *err);

/* ---- differences.c ---- */

/*! probe_sections_price() : of one layer, without running the model; nothing for one domain.
 *  probe_sections_group() : layers that share a walk. */
int64_t probe_sections_group(const es_job *job);
es_probe_price probe_sections_price(const probe_state *s);

/*! probe_add_sections() : adds the stage PROBE_SECTIONS, which has no cells for one domain. */
es_status probe_add_sections(es_job *job, es_error *err);

/*! probe_compare_domains() : fills the table of differences and adds its findings. */
es_status probe_compare_domains(es_job *job, es_table *table, es_answer *answer, es_error *err);

extern const es_table_spec probe_differences_table;

/* ---- protocol.c ---- */

/*! probe_paper_price() : of one layer of a domain; nothing where the protocol is the default. */
es_probe_price probe_paper_price(const es_job *job, const probe_state *s);

/*! probe_add_paper() : adds the stage PROBE_PAPER, which has no cells for the default protocol;
 *  pools are built. */
es_status probe_add_paper(es_job *job, es_error *err);

/*! probe_sum_up_paper() : adds tables and findings of the paper's protocol. */
es_status probe_sum_up_paper(es_job *job, es_answer *answer, es_error *err);

#endif
