/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h : counts what code does, to test how its work grows without a clock.
 *
 * The sources that tests/CMakeLists.txt lists as COUNTED are compiled a second time for a test
 * program, with a call at the beginning of each basic block; the program uses them instead of those
 * of the library. The count is the same on every run, on every machine of one compiler. It does not
 * see what other libraries do, but it does see their callbacks, such as the comparisons of qsort().
 */
#ifndef ES_TESTS_STEPS_H
#define ES_TESTS_STEPS_H

#include <stdint.h>

/* Returns the number of basic blocks that this thread has run so far in COUNTED sources. */
uint64_t steps_so_far(void);

#endif
