/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c : the counter behind steps.h. */
#include "steps.h"

static _Thread_local uint64_t steps;

/* Called by code compiled with -fsanitize-coverage=trace-pc, which also gives the name. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { steps++; }

uint64_t steps_so_far(void) { return steps; }
