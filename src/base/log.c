#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    es_log_fn fn;
    void *user;
    es_log_level most;
} sink;

void es_log_set(es_log_fn fn, void *user, es_log_level most)
{
    sink.fn = fn;
    sink.user = user;
    sink.most = most;
}

void es_log(es_log_level level, const char *fmt, ...)
{
    if (!sink.fn || level > sink.most)
        return;
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    sink.fn(sink.user, level, message);
}
