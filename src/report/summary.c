/* summary.c : what a table with a million rows says, in one row for each of its columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/table.h"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void es_table_sort(double *values, size_t count) { qsort(values, count, sizeof *values, by_size); }

/* Finite numbers of a column into `out`, in order of size; their count. */
static int64_t sorted(const es_run_column *c, int64_t rows, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        if (isfinite(c->reals[i]))
            out[count++] = c->reals[i];
    es_table_sort(out, (size_t)count);
    return count;
}

static void put_number(es_sink *s, const es_book_column *c, double value)
{
    char text[ES_FORMAT_ROOM];
    es_sink_format(s, "<td class=\"n\">%s</td>",
                   es_format_number(c->format, value, (double)NAN, text, sizeof text));
}

/* Quantiles are order statistics, so that they are numbers of the table. */
static void put_row(es_sink *s, const es_book_column *c, const double *values, int64_t count)
{
    double mean = 0.0;
    for (int64_t i = 0; i < count; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    es_sink_put(s, "<tr><th scope=\"row\">");
    es_sink_text(s, c->header);
    es_sink_format(s, "</th><td class=\"n\">%lld</td>", (long long)count);
    for (int q = 0; q <= 4 && count > 0; q++)
        put_number(s, c, values[(count - 1) * q / 4]);
    for (int q = 0; q <= 4 && count == 0; q++)
        es_sink_put(s, "<td class=\"n\">–</td>");
    if (count > 0)
        put_number(s, c, mean);
    else
        es_sink_put(s, "<td class=\"n\">–</td>");
    es_sink_put(s, "</tr>\n");
}

es_status es_table_summary(es_sink *s, const es_book *book, const es_book_table *t, const char *id,
                           es_error *err)
{
    void *memory;
    ES_TRY(es_mem_array(book->budget, t->data.rows, 1, sizeof(double), "a sorted column", &memory,
                        err));
    es_sink_format(s,
                   "<h4 id=\"%s-summary\">All %lld rows in summary</h4>\n"
                   "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"%s-summary\"><table class=\"summary\">\n<thead><tr>"
                   "<th scope=\"col\">column</th><th scope=\"col\" class=\"n\">numbers</th>"
                   "<th scope=\"col\" class=\"n\">least</th><th scope=\"col\" "
                   "class=\"n\">quarter</th><th scope=\"col\" class=\"n\">median</th>",
                   id, (long long)t->data.rows, id);
    es_sink_put(s, "<th scope=\"col\" class=\"n\">three quarters</th><th scope=\"col\" "
                   "class=\"n\">largest</th><th scope=\"col\" class=\"n\">mean</th>"
                   "</tr></thead>\n<tbody>\n");
    for (int64_t j = 0; j < t->shown; j++) {
        const es_book_column *c = &t->columns[j];
        if (c->value->kind == ES_RUN_REAL)
            put_row(s, c, memory, sorted(c->value, t->data.rows, memory));
    }
    es_sink_put(s, "</tbody>\n</table></div>\n");
    es_mem_free(book->budget, memory);
    return ES_OK;
}
