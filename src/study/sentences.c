#include "study/sentences.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *es_say_number(double value, double error, char out[ES_SAY_ROOM])
{
    return es_format_number(isfinite(error) ? ES_FORMAT_REAL : ES_FORMAT_SHORT, value, error, out,
                            ES_SAY_ROOM);
}

const char *es_say_size(double n, char out[ES_SAY_ROOM])
{
    const double power = n >= 1e6 ? floor(log10(n) + 1e-9) : 0.0;
    if (power == 0.0)
        return es_format_number(ES_FORMAT_COUNT, n, (double)NAN, out, ES_SAY_ROOM);
    snprintf(out, ES_SAY_ROOM, "%.3ge%.0f", n / pow(10.0, power), power);
    return out;
}

const char *es_say_power(double rate, double error, char out[ES_SAY_ROOM])
{
    char text[ES_FORMAT_ROOM];
    if (!isfinite(rate)) {
        snprintf(out, ES_SAY_ROOM, "no power that could be fitted");
        return out;
    }
    es_format_number(ES_FORMAT_REAL, fabs(rate), error, text, sizeof text);
    char *after = strstr(text, " ±");
    if (after)
        *after++ = '\0';
    snprintf(out, ES_SAY_ROOM, "n^%s%s%s%s%s", rate < 0.0 ? "" : "-", text, after ? " (" : "",
             after ? after : "", after ? ")" : "");
    return out;
}
