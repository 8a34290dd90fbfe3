/* log.h : remarks of the library, for whoever has asked to hear them. */
#ifndef ES_BASE_LOG_H
#define ES_BASE_LOG_H

#include <esscher/exec.h>

void es_log(es_log_level level, const char *fmt, ...) ES_PRINTF(2, 3);

#endif
