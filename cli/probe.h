/* probe.h : the parts of `esscher probe`. */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include <esscher/probe.h>

#include "pool_options.h"

/* What was asked and what has been measured. */
typedef struct probe_job {
    cli_session *session;
    es_exec quiet; /* the session's, with progress that only hears Ctrl-C */
    const es_model *model;
    const es_model_config *config;
    const int64_t *sizes;
    int64_t n_sizes, replicates, control, queries;
    bool without_replacement;
    const cli_domain *domains;
    int64_t n_domains;
    double *rates; /* (domains, layers, heads, 2): ln of the map error at the largest n, and its
                      standard error, for comparing domains */
} probe_job;

/* A layer of a domain: what is known, and the errors of every replicate. */
typedef struct probe_layer {
    const es_probe *probe;
    int64_t domain, layer;
    const es_probe_cell *cells;   /* (replicates, heads, sizes) */
    const es_probe_joint *joint;  /* (replicates, sizes) */
    const es_probe_cell *control; /* (control, heads, sizes), of Gaussian tokens */
} probe_layer;

/* Add a layer to the answer's "layers", "heads" and "rows". */
es_status probe_answer_layer(probe_job *job, const probe_layer *layer, es_error *err);

/* With several domains: "differences", those of every head against the first. */
void probe_answer_domains(probe_job *job);

extern const cli_table probe_layers_table, probe_heads_table, probe_weights_table,
    probe_context_table, probe_rows_table, probe_domains_table;

#endif
