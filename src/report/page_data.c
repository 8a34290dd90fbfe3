#include "report/page_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

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

static void name_rows(const es_run_column *c, int64_t rows, const uint64_t *from, uint64_t *to)
{
    for (int64_t i = 0; i < rows; i++)
        to[i] = c->kind == ES_RUN_REAL ? mix(from[i], &c->reals[i], sizeof c->reals[i])
                                       : mix(from[i], c->texts[i], strlen(c->texts[i]) + 1);
}

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

static void find_series(const es_run_table *t, series *w)
{
    enum { MOST_KEYS = 8 };
    for (int64_t i = 0; i < t->rows; i++)
        w->name[i] = 0xcbf29ce484222325u;
    for (w->keys = 0; w->keys < MOST_KEYS && w->keys < t->cols; w->keys++) {
        name_rows(&t->columns[w->keys], t->rows, w->name, w->next);
        if (2 * count_names(w, w->next, t->rows) > t->rows)
            break;
        uint64_t *swap = w->name;
        w->name = w->next;
        w->next = swap;
    }
    w->count = count_names(w, w->name, t->rows);
}

/* "layer 3, head 4" */
static void say_keys(const es_run_table *t, const series *w, int64_t row, char *out, size_t size)
{
    size_t used = 0;
    for (int64_t k = 0; k < w->keys && used < size; k++) {
        const es_run_column *c = &t->columns[k];
        const char *comma = k ? ", " : "";
        const int n =
            c->kind == ES_RUN_REAL
                ? snprintf(out + used, size - used, "%s%.40s %.6g", comma, c->name, c->reals[row])
                : snprintf(out + used, size - used, "%s%.40s %.40s", comma, c->name, c->texts[row]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The first series, whole, as long as they fit. @return : the first row that is left out, or -1. */
static int64_t keep_series(const es_run_table *t, series *w, int64_t most, row_choice *out,
                           int64_t *kept)
{
    int64_t left = -1, taken = 0;
    for (int64_t i = 0; i < t->rows; i++) {
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

static void thin(const es_run_table *t, int64_t most, row_choice *out)
{
    const int64_t points = most < ES_PAGE_POINTS ? most : ES_PAGE_POINTS;
    const es_book_pick pick = es_book_pick_rows(t->rows, points > 2 ? points : 2);
    for (out->count = 0; out->count < pick.count; out->count++)
        out->rows[out->count] = es_book_row(&pick, out->count);
    snprintf(out->left, sizeof out->left,
             "One series is too long for a page: %lld of the table's %lld rows are here, evenly "
             "spaced.",
             (long long)out->count, (long long)t->rows);
}

static void choose_series(const es_run_table *t, series *w, int64_t most, row_choice *out)
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
        (long long)kept, (long long)w->count, (long long)out->count, (long long)t->rows, keys);
}

static es_status choose(const es_run_table *t, es_page_room *room, es_mem_limit *budget,
                        row_choice *out, es_error *err)
{
    const int64_t cols = t->cols > 0 ? t->cols : 1, most = room->values / 2 / cols;
    *out = (row_choice){.count = t->rows};
    if (t->rows > most) {
        void *memory, *rows;
        ES_TRY(
            es_mem_array(budget, t->rows, 4, sizeof(uint64_t), "series of a table", &memory, err));
        const es_status status =
            es_mem_array(budget, t->rows, 1, sizeof *out->rows, "rows of a series", &rows, err);
        if (status == ES_OK) {
            uint64_t *words = memory;
            series w = {.name = words,
                        .next = words + t->rows,
                        .sorted = words + 2 * t->rows,
                        .size = (int64_t *)(words + 3 * t->rows)};
            *out = (row_choice){.rows = rows};
            choose_series(t, &w, most, out);
        }
        es_mem_free(budget, memory);
        ES_TRY(status);
    }
    room->values -= cols * out->count;
    return ES_OK;
}

/* ---- JSON ---- */

static int64_t row_of(const row_choice *c, int64_t i) { return c->rows ? c->rows[i] : i; }

static bool is_alike(const es_run_column *c, int64_t a, int64_t b)
{
    return c->kind == ES_RUN_REAL ? memcmp(&c->reals[a], &c->reals[b], sizeof(double)) == 0
                                  : strcmp(c->texts[a], c->texts[b]) == 0;
}

static void put_column(es_sink *s, const es_run_column *c, const row_choice *chosen)
{
    int64_t count = 1;
    while (count < chosen->count && is_alike(c, row_of(chosen, 0), row_of(chosen, count)))
        count++;
    count = count == chosen->count ? 1 : chosen->count; /* all alike: once is enough */
    es_sink_json_text(s, c->name);
    es_sink_put(s, ":[");
    for (int64_t i = 0; i < count && chosen->count > 0; i++) {
        es_sink_put(s, i ? "," : "");
        if (c->kind == ES_RUN_REAL)
            es_sink_json_real(s, c->reals[row_of(chosen, i)]);
        else
            es_sink_json_text(s, c->texts[row_of(chosen, i)]);
    }
    es_sink_put(s, "]");
}

static void put_table(es_sink *s, const es_run_table *t, const char *id, const row_choice *chosen)
{
    es_sink_json_text(s, t->name);
    es_sink_format(s, ":{\"id\":\"%s\",\"rows\":%lld,\"shown\":%lld,\"left\":", id,
                   (long long)t->rows, (long long)chosen->count);
    es_sink_json_text(s, chosen->left);
    es_sink_put(s, ",\"columns\":{");
    for (int64_t j = 0; j < t->cols; j++) {
        es_sink_put(s, j ? ",\n" : "");
        put_column(s, &t->columns[j], chosen);
    }
    es_sink_put(s, "}}");
}

static void put_pair(es_sink *s, bool first, const char *key, const char *text)
{
    es_sink_put(s, first ? "" : ",");
    es_sink_json_text(s, key);
    es_sink_put(s, ":");
    es_sink_json_text(s, text);
}

void es_page_facts(es_sink *s, const es_book *book)
{
    es_sink_put(s, "\"command\":");
    es_sink_json_text(s, book->about.command);
    es_sink_put(s, ",\"answer\":{");
    for (int64_t i = 0; i < book->answer.rows; i++)
        put_pair(s, i == 0, es_book_text(&book->answer, "key", i),
                 es_book_text(&book->answer, "value", i));
    es_sink_put(s, "},\n\"params\":{");
    for (int64_t i = 0; i < book->about.params_count; i++)
        put_pair(s, i == 0, book->about.params[i].key, book->about.params[i].text);
    es_sink_put(s, "}");
}

void es_page_table(es_sink *s, const es_run_table *t)
{
    put_table(s, t, "", &(row_choice){.count = t->rows});
}

es_status es_page_data(es_sink *s, const es_book *book, long long number, es_page_room *room,
                       es_error *err)
{
    es_sink_format(s, "<script type=\"application/json\" id=\"run-%lld-data\">{", number);
    es_page_facts(s, book);
    es_sink_put(s, ",\n\"tables\":{");
    const char *between = "";
    for (int64_t i = 0; i < book->count; i++) {
        char id[ES_PAGE_ID];
        row_choice chosen;
        if (!book->tables[i].owner)
            continue;
        ES_TRY(choose(&book->tables[i].data, room, book->budget, &chosen, err));
        es_page_table_id(id, number, i);
        es_sink_put(s, between);
        put_table(s, &book->tables[i].data, id, &chosen);
        es_mem_free(book->budget, chosen.rows);
        between = ",\n";
    }
    es_sink_put(s, "}}</script>\n");
    return ES_OK;
}
