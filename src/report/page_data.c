/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "table/table.h"

void es_page_table_id(char id[ES_PAGE_ID], long long run, int64_t table)
{
    snprintf(id, ES_PAGE_ID, "run-%lld-table-%lld", run, (long long)table + 1);
}

/* ---- series ---- */

/* The rows of a table that a page carries. */
typedef struct row_choice {
    int64_t *rows; /* NULL: all of them */
    int64_t count;
    char left[512]; /* a sentence about the others; "" if there are none */
} row_choice;

/* Work space: a name for the series of each row, made of the columns read so far. */
typedef struct series {
    uint64_t *name, *next, *sorted; /* (rows) each */
    int64_t *size;       /* of the series, in the order of `sorted`; negative: left out */
    int64_t count, keys; /* how many there are; how many columns name them */
} series;

/* Fowler, Noll and Vo's hash, one step for each byte. */
static uint64_t mix(uint64_t name, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < size; i++)
        name = (name ^ b[i]) * 0x100000001b3u;
    return name;
}

/* Returns true for a column of texts. */
static bool is_text(const es_table_column *c) { return c->format == ES_FORMAT_TEXT; }

/* A text of a column; "" if the row has none. */
static const char *text_of(const es_table_column *c, int64_t row)
{
    const char *text = es_column_text(c, row);
    return text ? text : "";
}

/* Adds a column to the hashes by which rows are grouped into series. */
static void name_rows(const es_table_column *c, int64_t rows, const uint64_t *from, uint64_t *to)
{
    for (int64_t i = 0; i < rows; i++) {
        const double value = es_column_real(c, i);
        to[i] = is_text(c) ? mix(from[i], text_of(c, i), strlen(text_of(c, i)) + 1)
                           : mix(from[i], &value, sizeof value);
    }
}

/* Compares two hashes, for qsort(). */
static int by_name(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Different names, into w->sorted and w->size. */
static int64_t count_names(series *w, const uint64_t *names, int64_t rows)
{
    int64_t count = 0;
    memcpy(w->sorted, names, (size_t)rows * sizeof *names);
    qsort(w->sorted, (size_t)rows, sizeof *w->sorted, by_name);
    for (int64_t i = 0; i < rows; i++) {
        if (count == 0 || w->sorted[i] != w->sorted[count - 1]) {
            w->sorted[count] = w->sorted[i];
            w->size[count++] = 0;
        }
        w->size[count - 1]++;
    }
    return count;
}

/* Finds the series of a table: the leading columns of which values repeat, so that most rows share
 * theirs with others. */
static void find_series(const es_table *t, series *w)
{
    enum { MOST_KEYS = 8 };
    const int64_t rows = es_table_rows(t);
    es_table_column c;
    for (int64_t i = 0; i < rows; i++)
        w->name[i] = 0xcbf29ce484222325u;
    for (w->keys = 0; w->keys < MOST_KEYS && es_table_column_at(t, w->keys, &c); w->keys++) {
        name_rows(&c, rows, w->name, w->next);
        if (2 * count_names(w, w->next, rows) > rows)
            break;
        uint64_t *swap = w->name;
        w->name = w->next;
        w->next = swap;
    }
    w->count = count_names(w, w->name, rows);
}

/* "layer 3, head 4" */
static void say_keys(const es_table *t, const series *w, int64_t row, char *out, size_t size)
{
    size_t used = 0;
    es_table_column c;
    for (int64_t k = 0; k < w->keys && used < size && es_table_column_at(t, k, &c); k++) {
        const char *comma = k ? ", " : "";
        const int n = is_text(&c) ? snprintf(out + used, size - used, "%s%.40s %.40s", comma, c.key,
                                             text_of(&c, row))
                                  : snprintf(out + used, size - used, "%s%.40s %.6g", comma, c.key,
                                             es_column_real(&c, row));
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The first series, whole, as long as they fit. @return : the first row that is left out, or -1. */
static int64_t keep_series(const es_table *t, series *w, int64_t most, row_choice *out,
                           int64_t *kept)
{
    int64_t left = -1, taken = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const uint64_t *at =
            bsearch(&w->name[i], w->sorted, (size_t)w->count, sizeof *w->sorted, by_name);
        int64_t *size = &w->size[at - w->sorted];
        if (*size > 0) { /* its first row */
            const bool fits = left < 0 && taken + *size <= most;
            left = fits || left >= 0 ? left : i;
            taken += fits ? *size : 0;
            *kept += fits;
            *size = fits ? 0 : -1;
        }
        if (*size == 0)
            out->rows[out->count++] = i;
    }
    return left;
}

/* Chooses evenly spaced rows of one long series. */
static void thin(const es_table *t, int64_t most, row_choice *out)
{
    const int64_t points = most < ES_PAGE_POINTS ? most : ES_PAGE_POINTS;
    const es_page_run_pick pick = es_page_run_pick_rows(es_table_rows(t), points > 2 ? points : 2);
    for (out->count = 0; out->count < pick.count; out->count++)
        out->rows[out->count] = es_page_run_row(&pick, out->count);
    snprintf(out->left, sizeof out->left,
             "One series is too long for a page: %lld of the table's %lld rows are here, evenly "
             "spaced.",
             (long long)out->count, (long long)es_table_rows(t));
}

/* Chooses whole series, as many as fit, so that curves have no gaps. */
static void choose_series(const es_table *t, series *w, int64_t most, row_choice *out)
{
    char keys[256] = "";
    int64_t kept = 0;
    find_series(t, w);
    const int64_t left = keep_series(t, w, most, out, &kept);
    if (kept == 0) {
        thin(t, most, out);
        return;
    }
    say_keys(t, w, left, keys, sizeof keys);
    snprintf(
        out->left, sizeof out->left,
        "The table is too large for a page: the first %lld of its %lld series are here, whole, "
        "%lld of %lld rows. Left out are those from %s on.",
        (long long)kept, (long long)w->count, (long long)out->count, (long long)es_table_rows(t),
        keys);
}

/* Chooses the rows that a page carries for figures: all of them, or whole series within half of
 * what is left. */
static es_status choose(const es_table *t, es_page_scratch *scratch, es_mem_limit *budget,
                        row_choice *out, es_error *err)
{
    const int64_t rows = es_table_rows(t), count = es_table_columns(t),
                  cols = count > 0 ? count : 1, most = scratch->values / 2 / cols;
    *out = (row_choice){.count = rows};
    if (rows > most) {
        uint64_t *words;
        int64_t *chosen;
        ES_TRY(ES_MEM_NEW_2D(budget, words, rows, 4, "series of a table", err));
        const es_status status = ES_MEM_NEW(budget, chosen, rows, "rows of a series", err);
        if (status == ES_OK) {
            series w = {.name = words,
                        .next = words + rows,
                        .sorted = words + 2 * rows,
                        .size = (int64_t *)(words + 3 * rows)};
            *out = (row_choice){.rows = chosen};
            choose_series(t, &w, most, out);
        }
        es_mem_free(budget, words);
        ES_TRY(status);
    }
    scratch->values -= cols * out->count;
    return ES_OK;
}

/* ---- JSON ---- */

/* Returns the row of the table that is number i of those chosen. */
static int64_t row_of(const row_choice *c, int64_t i) { return c->rows ? c->rows[i] : i; }

/* Returns true if a column has the same value in two rows, bit for bit. */
static bool is_alike(const es_table_column *c, int64_t a, int64_t b)
{
    const double x = es_column_real(c, a), y = es_column_real(c, b);
    return is_text(c) ? strcmp(text_of(c, a), text_of(c, b)) == 0 : memcmp(&x, &y, sizeof x) == 0;
}

/* Writes a column as JSON; a column of equal values is written once. */
static void put_column(es_sink *s, const es_table_column *c, const row_choice *chosen)
{
    int64_t count = 1;
    while (count < chosen->count && is_alike(c, row_of(chosen, 0), row_of(chosen, count)))
        count++;
    count = count == chosen->count ? 1 : chosen->count; /* all alike: once is enough */
    es_sink_json_text(s, c->key);
    es_sink_put(s, ":[");
    for (int64_t i = 0; i < count && chosen->count > 0; i++) {
        es_sink_put(s, i ? "," : "");
        if (is_text(c))
            es_sink_json_text(s, text_of(c, row_of(chosen, i)));
        else
            es_sink_json_real(s, es_column_real(c, row_of(chosen, i)));
    }
    es_sink_put(s, "]");
}

/* Writes a table as JSON. */
static void put_table(es_sink *s, const es_table *t, const char *id, const row_choice *chosen)
{
    es_table_column c;
    es_sink_json_text(s, es_table_about(t)->key);
    es_sink_format(s, ":{\"id\":\"%s\",\"rows\":%lld,\"shown\":%lld,\"left\":", id,
                   (long long)es_table_rows(t), (long long)chosen->count);
    es_sink_json_text(s, chosen->left);
    es_sink_put(s, ",\"columns\":{");
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++) {
        es_sink_put(s, j ? ",\n" : "");
        put_column(s, &c, chosen);
    }
    es_sink_put(s, "}}");
}

/* Writes a pair of key and text. */
static void put_pair(es_sink *s, bool first, const char *key, const char *text)
{
    es_sink_put(s, first ? "" : ",");
    es_sink_json_text(s, key);
    es_sink_put(s, ":");
    es_sink_json_text(s, text);
}

void es_page_facts(es_sink *s, const es_page_run *page_run)
{
    char buffer[ES_FORMAT_SIZE];
    const char *key, *text;
    es_sink_put(s, "\"command\":");
    es_sink_json_text(s, page_run->about.command);
    es_sink_put(s, ",\"answer\":{");
    for (int64_t i = 0; es_answer_scalar(page_run->answer, i, &key, buffer, sizeof buffer, &text);
         i++)
        put_pair(s, i == 0, key, text);
    es_sink_put(s, "},\n\"params\":{");
    for (int64_t i = 0; i < page_run->about.params_count; i++)
        put_pair(s, i == 0, page_run->about.params[i].key, page_run->about.params[i].text);
    es_sink_put(s, "}");
}

void es_page_table(es_sink *s, const es_table *t)
{
    put_table(s, t, "", &(row_choice){.count = es_table_rows(t)});
}

es_status es_page_data(es_sink *s, const es_page_run *page_run, long long number,
                       es_page_scratch *scratch, es_error *err)
{
    es_sink_format(s, "<script type=\"application/json\" id=\"run-%lld-data\">{", number);
    es_page_facts(s, page_run);
    es_sink_put(s, ",\n\"tables\":{");
    const char *between = "";
    for (int64_t i = 0; i < page_run->count; i++) {
        char id[ES_PAGE_ID];
        row_choice chosen;
        if (!page_run->views[i].first)
            continue;
        ES_TRY(choose(page_run->views[i].table, scratch, page_run->budget, &chosen, err));
        es_page_table_id(id, number, i);
        es_sink_put(s, between);
        put_table(s, page_run->views[i].table, id, &chosen);
        es_mem_free(page_run->budget, chosen.rows);
        between = ",\n";
    }
    es_sink_put(s, "}}</script>\n");
    return ES_OK;
}
