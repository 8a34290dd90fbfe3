/* rows.h : what happens to the rows of hidden states between two products, in f32 and f64. */
#ifndef ES_MODEL_ROWS_H
#define ES_MODEL_ROWS_H

#include "model/gelu.h"
#include "model/weights.h"

/* One precision's functions; rows_template.h says what they do. */
typedef struct es_rows {
    void (*embed)(const es_model *m, const int32_t *ids, int64_t n, void *out);
    void (*begin)(const void *bias, const void *residual, int64_t n, int64_t cols, void *out);
    bool (*norm)(const es_linear *norm, double eps, int64_t n, int64_t cols, void *x);
    void (*place)(const double *head, int64_t n, int64_t k, int64_t H, void *out);
    void (*gelu)(const es_gelu_table *table, void *x, int64_t count);
} es_rows;

extern const es_rows es_rows_f32, es_rows_f64;

#endif
