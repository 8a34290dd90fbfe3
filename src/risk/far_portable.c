/* SPDX-License-Identifier: Apache-2.0 */
#define ES_FAR_SUMS es_far_sums_portable
#include "risk/far_text.h"
