#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

enum { CELL = 64 }; /* bytes a number may take; text is measured */

/* ---- from JSON to cells ---- */

/* Member `key` of an object, or, with a dot in it, of an object inside. */
static const json_t *member(const json_t *object, const char *key)
{
    const char *dot = strchr(key, '.');
    if (!dot)
        return json_object_get(object, key);
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)(dot - key), key);
    return json_object_get(json_object_get(object, first), dot + 1);
}

static const json_t *find_rows(const cli_table *table, const json_t *answer)
{
    return *table->rows ? member(answer, table->rows) : answer;
}

bool cli_table_present(const cli_table *table, const json_t *answer)
{
    return find_rows(table, answer) != NULL;
}

static size_t row_count(const json_t *rows)
{
    return json_is_array(rows) ? json_array_size(rows) : 1;
}

static const json_t *row_at(const json_t *rows, size_t i)
{
    return json_is_array(rows) ? json_array_get(rows, i) : rows;
}

/* A printed column: one descriptor may stand for several (`each`), and one whose key no row has is
 * left out. */
typedef struct slot {
    const cli_column *column;
    size_t index; /* into the array, for `each` */
    char header[CELL];
} slot;

static bool any_row_has(const json_t *rows, const char *key)
{
    for (size_t i = 0; i < row_count(rows); i++)
        if (member(row_at(rows, i), key))
            return true;
    return row_count(rows) == 0; /* an empty table still has its header */
}

static void name_slot(slot *s, const json_t *label, const char *name, const char *between)
{
    if (json_is_integer(label))
        snprintf(s->header, CELL, "%s%s%lld", name, between, (long long)json_integer_value(label));
    else if (json_is_string(label))
        snprintf(s->header, CELL, "%s%s%s", name, between, json_string_value(label));
    else if (json_is_real(label))
        snprintf(s->header, CELL, "%s%s%.6g", name, between, json_real_value(label));
    else
        snprintf(s->header, CELL, "%s", name);
}

static slot *make_slots(const cli_table *table, const json_t *answer, const json_t *rows, bool csv,
                        size_t *count)
{
    size_t room = 0;
    for (const cli_column *c = table->columns; c->key; c++)
        room += c->each ? json_array_size(json_object_get(answer, c->each)) : 1;
    slot *slots = cli_alloc_array(room, sizeof *slots);
    *count = 0;
    for (const cli_column *c = table->columns; c->key; c++) {
        const json_t *labels = c->each ? json_object_get(answer, c->each) : NULL;
        const size_t copies = c->each ? json_array_size(labels) : 1;
        const bool shown = (csv || !c->hidden) && any_row_has(rows, c->key);
        for (size_t i = 0; shown && i < copies; i++) {
            slots[*count] = (slot){.column = c, .index = i};
            name_slot(&slots[*count], json_array_get(labels, i), csv ? c->key : c->header,
                      csv ? "_" : " ");
            (*count)++;
        }
    }
    return slots;
}

static const json_t *value_of(const json_t *row, const char *key, const slot *s)
{
    const json_t *value = member(row, key);
    return s->column->each ? json_array_get(value, s->index) : value;
}

/* ---- numbers for people ---- */

/* The cell as new text. Lists of words are joined. */
static char *make_cell(const slot *s, const json_t *row)
{
    const cli_column *c = s->column;
    const json_t *value = value_of(row, c->key, s);
    if (json_is_string(value))
        return cli_escape_new(json_string_value(value));
    char text[CELL] = "-";
    if (json_is_boolean(value))
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value) && c->format != CLI_BINARY && c->format != CLI_DURATION)
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value)) {
        const json_t *error = c->error ? value_of(row, c->error, s) : NULL;
        es_format_number((es_format)c->format, json_number_value(value),
                         json_is_number(error) ? json_number_value(error) : (double)NAN, text,
                         sizeof text);
    }
    return cli_escape_new(text);
}

/* ---- printing ---- */

/* Columns a text takes on a terminal: its characters, not its bytes. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void pad(FILE *out, int count)
{
    for (; count > 0; count--)
        fputc(' ', out);
}

static void print_aligned(FILE *out, const char *text, int width, bool left)
{
    if (!left)
        pad(out, width - width_of(text));
    fputs(text, out);
    if (left)
        pad(out, width - width_of(text));
}

/* Cell `at` of a line of `count`; nothing follows the last one, so it is not padded. */
static void print_cell(const char *text, const slot *slots, const int *widths, size_t at,
                       size_t count, FILE *out)
{
    const bool left = slots[at].column->format == CLI_TEXT;
    fputs(at ? "  " : "", out);
    print_aligned(out, text, left && at + 1 == count ? 0 : widths[at], left);
}

static void print_definitions(const cli_table *table, const slot *slots, size_t count, FILE *out)
{
    const cli_column *before = NULL;
    bool errors = false;
    for (size_t i = 0; i < count; i++) {
        const cli_column *c = slots[i].column;
        if (c->definition && c != before)
            fprintf(out, "  %s: %s\n", c->header, c->definition);
        errors = errors || c->error;
        before = c;
    }
    if (errors)
        fputs("  ±: one standard error\n", out);
    if (table->note)
        fprintf(out, "  %s\n", table->note);
}

/* One line per column: for a single object. */
static void print_record(const slot *slots, size_t count, const json_t *row, FILE *out)
{
    int width = 0;
    for (size_t i = 0; i < count; i++)
        width = width_of(slots[i].header) > width ? width_of(slots[i].header) : width;
    for (size_t i = 0; i < count; i++) {
        char *text = make_cell(&slots[i], row);
        fputs("  ", out);
        print_aligned(out, slots[i].header, width, true);
        fprintf(out, "  %s%s%s\n", text, *slots[i].column->unit ? " " : "", slots[i].column->unit);
        free(text);
    }
}

static void print_header(const slot *slots, const int *widths, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        print_cell(slots[i].header, slots, widths, i, count, out);
    fputc('\n', out);
}

static void print_units(const slot *slots, const int *widths, size_t count, FILE *out)
{
    while (count > 0 && !*slots[count - 1].column->unit)
        count--;
    for (size_t i = 0; i < count; i++)
        print_cell(slots[i].column->unit, slots, widths, i, count, out);
    if (count > 0)
        fputc('\n', out);
}

static void print_rows(const slot *slots, size_t count, const json_t *rows, FILE *out, bool colour)
{
    const size_t n = row_count(rows);
    char **cells = cli_alloc_array(n * count, sizeof *cells);
    int *widths = cli_alloc_array(count, sizeof *widths);
    for (size_t j = 0; j < count; j++) {
        const int header = width_of(slots[j].header), unit = width_of(slots[j].column->unit);
        widths[j] = header > unit ? header : unit;
        for (size_t i = 0; i < n; i++) {
            char *cell = cells[i * count + j] = make_cell(&slots[j], row_at(rows, i));
            widths[j] = width_of(cell) > widths[j] ? width_of(cell) : widths[j];
        }
    }
    fputs(colour ? "\033[1m" : "", out);
    print_header(slots, widths, count, out);
    fputs(colour ? "\033[0m" : "", out);
    print_units(slots, widths, count, out);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < count; j++) {
            print_cell(cells[i * count + j], slots, widths, j, count, out);
            free(cells[i * count + j]);
        }
        fputc('\n', out);
    }
    free(cells);
    free(widths);
}

void cli_table_print(const cli_table *table, const json_t *answer, FILE *out, bool colour)
{
    const json_t *rows = find_rows(table, answer);
    if (!rows)
        return;
    size_t count;
    slot *slots = make_slots(table, answer, rows, false, &count);
    fprintf(out, "%s%s%s\n", colour ? "\033[1m" : "", table->title, colour ? "\033[0m" : "");
    if (json_is_array(rows))
        print_rows(slots, count, rows, out, colour);
    else
        print_record(slots, count, rows, out);
    print_definitions(table, slots, count, out);
    free(slots);
}

/* ---- CSV ---- */

void cli_csv_text(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* A number with all its digits; nothing at all for NaN and infinities. */
static void csv_real(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.17g", value);
}

static void csv_value(FILE *out, const json_t *value)
{
    if (json_is_string(value))
        cli_csv_text(out, json_string_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", out);
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        csv_real(out, json_real_value(value));
}

/* The header of the column, and of its error after it. */
static void csv_header(FILE *out, const slot *s)
{
    cli_csv_text(out, s->header);
    if (s->column->error) {
        char name[2 * CELL];
        snprintf(name, sizeof name, ",%s%s", s->column->error, s->header + strlen(s->column->key));
        fputs(name, out);
    }
}

bool cli_table_csv(const cli_table *table, const json_t *answer, FILE *out)
{
    const json_t *rows = find_rows(table, answer);
    if (!rows)
        return false;
    size_t count;
    slot *slots = make_slots(table, answer, rows, true, &count);
    for (size_t j = 0; j < count; j++) {
        fputs(j ? "," : "", out);
        csv_header(out, &slots[j]);
    }
    fputs("\n", out);
    for (size_t i = 0; i < row_count(rows); i++) {
        for (size_t j = 0; j < count; j++) {
            const cli_column *c = slots[j].column;
            fputs(j ? "," : "", out);
            csv_value(out, value_of(row_at(rows, i), c->key, &slots[j]));
            if (c->error) {
                fputc(',', out);
                csv_value(out, value_of(row_at(rows, i), c->error, &slots[j]));
            }
        }
        fputs("\n", out);
    }
    free(slots);
    return true;
}
