/* input.h : a matrix from a .npy file, as the f64 that commands compute with. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "command.h"

/* A matrix that was read; give it back with cli_input_free(), also when it is empty. */
typedef struct cli_input {
    double *data; /* (rows, cols), NULL: nothing was read */
    int64_t rows, cols;
} cli_input;

/* Columns of the file, its last dimension, without reading its numbers. */
es_status cli_input_cols(const char *path, int64_t *cols, es_error *err);

/* Read `path`, (cols) or (rows, cols), where -1 stands for any number; a wrong shape is
 * ES_E_SHAPE, NaN or Inf ES_E_NONFINITE, both naming the file. `role` is the option's name, for
 * messages and provenance. */
es_status cli_input_read(cli_session *session, const char *role, const char *path, int64_t rows,
                         int64_t cols, cli_input *out, es_error *err);

void cli_input_free(cli_input *input);

#endif
