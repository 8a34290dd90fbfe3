#include "model/rows.h"

#include <math.h>

#define REAL       float
#define NAME(name) name##_f32
#define GELU       es_gelu_f32(table, x, count)
#include "model/rows_template.h"
#undef REAL
#undef NAME
#undef GELU

#define REAL       double
#define NAME(name) name##_f64
#define GELU       (void)table, es_gelu_f64(x, count)
#include "model/rows_template.h"
