#define ES_EACH es_risk_each_portable
#include "theory/each_text.h"
