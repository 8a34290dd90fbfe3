/* SPDX-License-Identifier: Apache-2.0 */
/* arm_neon.h : stands in for the compiler's, with every intrinsic emulated by SIMDe, so that NEON
 * tiles can be tested on a CPU of another family. */
#define SIMDE_NO_NATIVE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
