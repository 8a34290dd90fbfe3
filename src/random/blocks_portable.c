#define ES_KERNELS es_blocks_portable
#include "random/blocks_text.h"
