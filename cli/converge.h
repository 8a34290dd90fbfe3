/* converge.h : the parts of `esscher converge`.
 *
 *     converge.c           options, replicates
 *     converge_head.c      the head: from files, or from the seed
 *     converge_answer.c    from errors of all replicates to rows and rates
 *     converge_predict.c   what theory expects, beside what was measured
 *     converge_cost.c      operations, memory, time
 *     converge_views.c     tables
 */
#ifndef CLI_CONVERGE_H
#define CLI_CONVERGE_H

#include <esscher/converge.h>
#include <esscher/theory.h>

#include "answer.h"
#include "command.h"
#include "input.h"

/* ---- the head ---- */

enum { HEAD_WQ, HEAD_WK, HEAD_WV, HEAD_A, HEAD_FILES };
enum { HEAD_RANDOM = 0, HEAD_ROTATION = 1, HEAD_IDENTITY = 2 };

typedef struct converge_head_options {
    const char *file[HEAD_FILES];
    int kind; /* HEAD_...; -1: not given */
} converge_head_options;

extern const char *const converge_head_names[]; /* of the kinds, NULL-ended */

/* Matrices, and the views of them that the library reads. */
typedef struct converge_head {
    cli_input matrix[HEAD_FILES];
    es_view view[HEAD_FILES];
    es_head head;
} converge_head;

/* Dimension that the files speak of, 0: none. */
es_status converge_head_dim(const converge_head_options *o, int64_t *dim, es_error *err);

/* Read the files, draw the rest; sets o->kind where scores do not come from files. Free with
 * converge_head_free() in any case. */
es_status converge_head_make(cli_session *session, converge_head_options *o, int64_t dim,
                             converge_head *out, es_error *err);
void converge_head_free(converge_head *head);

/* ---- the job ---- */

/* What was asked and what has been measured. */
typedef struct converge_job {
    cli_session *session;
    es_converge_spec spec;
    int head_kind; /* HEAD_...; -1: from files */
    es_converge_limit *limit;
    int64_t replicates;
    es_converge_cell *cells; /* (replicates, scales, sizes) */
    es_horizons horizons;    /* at scale factor 1 */
} converge_job;

/* Put "rows" and "fits" into the answer, and "references" if a sample stood for the limit. */
es_status converge_answer(converge_job *job, es_error *err);

/* Are there predictions for this law? ES_E_ARGUMENT if not. */
es_status converge_predictable(const es_law *law, es_error *err);

/* Put "predictions" beside them, what theory.h expects at every scale and n, and into the fits the
 * rates of those numbers. */
es_status converge_predict(converge_job *job, es_error *err);

/* One of those predictions, for the time it takes. */
es_status converge_predict_once(converge_job *job, es_error *err);

/* What the whole run takes. With --dry-run attention, limits and predictions are tried for the time
 * they take. */
es_status converge_cost(converge_job *job, bool predict, cli_cost *cost, es_error *err);

extern const cli_table converge_rows_table, converge_fits_table, converge_references_table,
    converge_predictions_table;

#endif
