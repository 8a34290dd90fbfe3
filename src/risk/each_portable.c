/* SPDX-License-Identifier: Apache-2.0 */
#define ES_EACH es_risk_each_portable
#include "risk/each_text.h"
