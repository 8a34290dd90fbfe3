/* converge.h : the parts of `esscher converge`. */
#ifndef CLI_CONVERGE_H
#define CLI_CONVERGE_H

#include <esscher/converge.h>
#include <esscher/theory.h>

#include "command.h"

/* What was asked and what has been measured. */
typedef struct converge_job {
    cli_session *session;
    es_converge_spec spec;
    es_converge_limit *limit;
    int64_t replicates;
    es_converge_cell *cells; /* (replicates, scales, sizes) */
    es_horizons horizons;    /* at scale factor 1 */
} converge_job;

/* Put "rows" and "fits" into the answer. */
es_status converge_answer(converge_job *job, es_error *err);

/* Are there predictions for this law? ES_E_ARGUMENT if not. */
es_status converge_predictable(const es_law *law, es_error *err);

/* Put "predictions" beside them: what theory.h expects at every scale and n. */
es_status converge_predict(converge_job *job, es_error *err);

extern const cli_table converge_rows_table, converge_fits_table, converge_predictions_table;

#endif
