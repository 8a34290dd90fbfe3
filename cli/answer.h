/* answer.h : the one object a command answers with.
 *
 *     {"schema": "esscher/1", "command", "version", "seed", "provenance": {...}, results ...}
 */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include <esscher/npy.h>

#include "command.h"

/* The empty answer of a session; results are added at its top level. */
json_t *cli_answer_new(const cli_session *session);

/* A real number; null for NaN and infinities, which JSON does not have. */
json_t *cli_real(double value);

/* Arrays (count) and (rows, cols) of real numbers. */
json_t *cli_reals(const double *values, int64_t count);
json_t *cli_matrix(const double *values, int64_t rows, int64_t cols);
json_t *cli_counts(const int64_t *values, int64_t count);

/* Record an input file in the provenance. */
void cli_answer_input(cli_session *session, const char *role, const char *path,
                      const es_npy_info *info);

/* Print the answer as the user asked for it. */
void cli_answer_print(const cli_session *session);

/* What is written as "estimate": what a run costs, for --dry-run and for the refusal. */
typedef struct cli_cost {
    double flops;   /* of attention, or what it would do in the time of other work */
    double seconds; /* where that was tried; 0: as long as operations take at a share of the peak */
    double disk_bytes; /* written along the way, in no memory; 0: none */
    double input_bytes, output_bytes, work_bytes;
} cli_cost;

/* Compare the memory bound with --max-memory, say it on stderr, and set the limit of the session's
 * budget. @return : ES_OK; ES_E_LIMIT. */
es_status cli_cost_admit(cli_session *session, const cli_cost *cost, es_error *err);

/* Put the cost into the answer, with the time this machine would take. */
es_status cli_cost_answer(cli_session *session, const cli_cost *cost, es_error *err);

extern const cli_table cli_cost_table;

/* The kernels' dtype that --precision asks for. */
es_dtype cli_precision(const cli_session *session);

#endif
