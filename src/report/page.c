/* page.c : run files as one page: its beginning, a section for each run, how they were made, and
 * the order in which all that is read and written. */
#include <esscher/report.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/assets.h"
#include "report/page_table.h"

/* ---- what a command is about ---- */

static const es_asset *about_of(const char *command)
{
    for (size_t i = 0; i < es_asset_abouts_count; i++)
        if (strcmp(es_asset_abouts[i].name, command) == 0)
            return &es_asset_abouts[i];
    return NULL;
}

/* Length of the first line, which is the title. */
static size_t title_length(const es_asset *about)
{
    const void *end = memchr(about->bytes, '\n', about->size);
    return end ? (size_t)((const unsigned char *)end - about->bytes) : about->size;
}

static void put_title(es_sink *s, const char *command)
{
    const es_asset *about = about_of(command);
    if (about)
        es_sink_bytes(s, about->bytes, title_length(about));
    else
        es_sink_text(s, command);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- beginning ---- */

/* Nothing may be loaded, and no code or style may act but those whose hashes stand here. */
static void put_policy(es_sink *s, bool figures)
{
    es_sink_put(s, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
    es_sink_format(s, "style-src '%s'; img-src data: blob:; ", es_asset_style.hash);
    if (figures)
        es_sink_format(s, "script-src '%s'; ", es_asset_script.hash);
    es_sink_put(s, "base-uri 'none'; form-action 'none'\">\n");
}

static void put_contents(es_sink *s, const es_book *books, int64_t count)
{
    es_sink_put(s, "<nav class=\"contents\" aria-label=\"Contents\">\n<ol>\n");
    for (int64_t i = 0; i < count; i++) {
        es_sink_format(s, "<li><a href=\"#run-%lld\">", (long long)i + 1);
        put_title(s, books[i].about.command);
        es_sink_put(s, "</a> <span class=\"quiet\">");
        es_sink_text(s, name_of(books[i].path));
        es_sink_put(s, "</span></li>\n");
    }
    es_sink_put(s, "<li><a href=\"#provenance\">How these numbers were made, and how to repeat "
                   "them</a></li>\n</ol>\n</nav>\n");
}

static void begin_page(es_sink *s, const es_book *books, int64_t count, const char *title,
                       bool figures)
{
    es_sink_put(s, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put_policy(s, figures);
    es_sink_put(s, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n"
                   "<meta name=\"generator\" content=\"Esscher " ES_VERSION_STRING "\">\n<title>");
    es_sink_text(s, title);
    es_sink_put(s, "</title>\n<style>");
    es_sink_bytes(s, es_asset_style.bytes, es_asset_style.size);
    es_sink_put(s, "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the "
                   "results</a>\n<header class=\"page\">\n<h1>");
    es_sink_text(s, title);
    es_sink_put(s,
                "</h1>\n<p class=\"lead\">Softmax attention over <i>n</i> tokens estimates, from a "
                "sample, what attention over the whole law of the tokens would give. This page "
                "shows how far the two are apart, beside what theory says about it. Numbers carry "
                "their uncertainty, tables lie under the figures, and the foot of the page says "
                "how to repeat everything.</p>\n");
    if (!figures)
        es_sink_put(s, "<p class=\"note\">This page was made without figures.</p>\n");
    put_contents(s, books, count);
    es_sink_put(s, "</header>\n<main id=\"main\">\n");
}

/* ---- a run ---- */

enum { ID = 64 };

static void table_id(char id[ID], long long run, int64_t table)
{
    snprintf(id, ID, "run-%lld-table-%lld", run, (long long)table + 1);
}

/* Results that stand alone, beside the tables. */
static void put_answer(es_sink *s, const es_book *book, long long number)
{
    if (book->answer.rows == 0)
        return;
    es_sink_format(s,
                   "<div class=\"table\"><h3 id=\"run-%lld-answer\">Single results</h3>\n<div "
                   "class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"run-%lld-answer\"><table class=\"pairs\">\n<tbody>\n",
                   number, number);
    for (int64_t i = 0; i < book->answer.rows; i++)
        es_page_table_pair(s, es_book_text(&book->answer, "key", i),
                           es_book_text(&book->answer, "value", i));
    es_sink_put(s, "</tbody></table></div></div>\n");
}

static void put_unfinished(es_sink *s, const es_book *book)
{
    es_sink_put(s, "<p class=\"note unfinished\">This run has no tables yet: it is not complete. "
                   "Go on with <code>");
    es_sink_text(s, es_book_fact(book, 0, "command"));
    es_sink_put(s, " --resume</code>, then make this page again.</p>\n");
}

/* What a page may still carry for its figures. Tables share it alike; what a small one leaves goes
 * to those after it. */
typedef struct page_room {
    int64_t values; /* numbers and texts */
    int64_t tables; /* still to come */
} page_room;

/* How many rows of a table the page carries. */
static int64_t take_room(page_room *room, const es_run_table *t)
{
    const int64_t share = room->values / (room->tables > 1 ? room->tables : 1) / t->cols;
    int64_t most = share < ES_BOOK_POINTS ? share : ES_BOOK_POINTS;
    most = most > 2 ? most : 2;
    room->values -= t->cols * (t->rows < most ? t->rows : most);
    room->values = room->values > 0 ? room->values : 0;
    room->tables--;
    return most;
}

static void put_data(es_sink *s, const es_book *book, long long number, page_room *room)
{
    es_sink_format(s,
                   "<script type=\"application/json\" id=\"run-%lld-data\">{\"command\":", number);
    es_sink_json_text(s, book->about.command);
    es_sink_put(s, ",\"answer\":{");
    for (int64_t i = 0; i < book->answer.rows; i++) {
        es_sink_put(s, i ? "," : "");
        es_sink_json_text(s, es_book_text(&book->answer, "key", i));
        es_sink_put(s, ":");
        es_sink_json_text(s, es_book_text(&book->answer, "value", i));
    }
    es_sink_put(s, "},\n\"params\":{");
    for (int64_t i = 0; i < book->about.params_count; i++) {
        es_sink_put(s, i ? "," : "");
        es_sink_json_text(s, book->about.params[i].key);
        es_sink_put(s, ":");
        es_sink_json_text(s, book->about.params[i].text);
    }
    es_sink_put(s, "},\n\"tables\":{");
    const char *between = "";
    for (int64_t i = 0; i < book->count; i++) {
        const es_run_table *t = &book->tables[i].data;
        char id[ID];
        if (!book->tables[i].owner)
            continue;
        es_sink_put(s, between);
        es_sink_json_text(s, t->name);
        es_sink_put(s, ":");
        table_id(id, number, i);
        es_page_table_json(s, t, id, take_room(room, t));
        between = ",\n";
    }
    es_sink_put(s, "}}</script>\n");
}

/* The result of the run in a sentence or two, as its study told it; version 0.1 told none. */
/* A sentence is plain text, in which powers are written n^-0.512; on a page they can be set. */
static void put_sentence(es_sink *s, const char *text)
{
    char piece[512];
    const char *power;
    while ((power = strstr(text, "n^")) && power - text < (ptrdiff_t)sizeof piece) {
        const size_t length = strspn(power + 2, "-0123456789.");
        const bool stop = length && power[1 + length] == '.'; /* that of the sentence */
        snprintf(piece, sizeof piece, "%.*s", (int)(power - text), text);
        es_sink_text(s, piece);
        es_sink_format(s, "<i>n</i><sup>%s%.*s</sup>", power[2] == '-' ? "−" : "",
                       (int)(length - stop) - (power[2] == '-'), power + 2 + (power[2] == '-'));
        text = power + 2 + length - stop;
    }
    es_sink_text(s, text);
}

static void put_findings(es_sink *s, const es_book *book)
{
    const es_run_column *sentences = es_book_column_of(&book->findings, "sentence");
    for (int64_t i = 0; sentences && sentences->texts && i < book->findings.rows; i++) {
        es_sink_put(s, "<p class=\"finding\">");
        put_sentence(s, sentences->texts[i]);
        es_sink_put(s, "</p>\n");
    }
}

static void put_heading(es_sink *s, const es_book *book, long long number)
{
    const es_asset *about = about_of(book->about.command);
    es_sink_format(s, "<section class=\"run\" id=\"run-%lld\">\n<h2>", number);
    put_title(s, book->about.command);
    es_sink_put(s, "</h2>\n<p class=\"origin\"><code>esscher ");
    es_sink_text(s, book->about.command);
    es_sink_put(s, "</code> · ");
    es_sink_text(s, name_of(book->path));
    es_sink_format(s, " · <a href=\"#made-%lld\">how it was made</a></p>\n", number);
    put_findings(s, book);
    if (about && title_length(about) < about->size) {
        es_sink_put(s, "<div class=\"about\">");
        es_sink_bytes(s, about->bytes + title_length(about), about->size - title_length(about));
        es_sink_put(s, "</div>\n");
    }
}

/* Claims come first: for them the figure is the detail. */
static void put_verdicts(es_sink *s, const es_book *book, long long number)
{
    char id[ID];
    for (int64_t i = 0; i < book->count; i++)
        if (book->tables[i].owner && es_page_claims_fit(&book->tables[i])) {
            table_id(id, number, i);
            es_page_claims_html(s, &book->tables[i], id);
        }
}

static void put_place_of_figures(es_sink *s, long long number)
{
    es_sink_format(s,
                   "<div class=\"figures\" data-run=\"run-%lld-data\"></div>\n"
                   "<noscript><p class=\"note\">Figures are drawn by JavaScript, which is "
                   "switched off here. The tables hold their numbers.</p></noscript>\n",
                   number);
}

static es_status put_run(es_sink *s, const es_book *book, int64_t at, page_room *room, bool figures,
                         es_error *err)
{
    const long long number = (long long)at + 1;
    put_heading(s, book, number);
    put_verdicts(s, book, number);
    if (figures)
        put_place_of_figures(s, number);
    for (int64_t i = 0; i < book->count; i++) {
        char id[ID];
        if (es_page_claims_fit(&book->tables[i]))
            continue;
        table_id(id, number, i);
        ES_TRY(es_page_table_html(s, book, &book->tables[i], id, err));
    }
    if (book->count == 0)
        put_unfinished(s, book);
    if (book->missing > 0)
        es_sink_format(s, "<p class=\"note\">%lld more tables are not shown.</p>\n",
                       (long long)book->missing);
    put_answer(s, book, number);
    if (figures)
        put_data(s, book, number, room);
    es_sink_put(s, "</section>\n");
    return ES_OK;
}

/* ---- how it was made ---- */

static void put_parameters(es_sink *s, const es_book *book)
{
    es_sink_put(s, "<h4>Parameters</h4>\n<p class=\"note\">Everything that determines the "
                   "numbers; options without a value are left out.</p>\n<div class=\"scroll\" "
                   "tabindex=\"0\" role=\"group\" "
                   "aria-label=\"Parameters\"><table class=\"pairs\"><tbody>\n");
    for (int64_t i = 0; i < book->about.params_count; i++)
        if (*book->about.params[i].text)
            es_page_table_pair(s, book->about.params[i].key, book->about.params[i].text);
    es_sink_put(s, "</tbody></table></div>\n");
}

static void put_sessions(es_sink *s, const es_book *book)
{
    int64_t open = -1;
    for (int64_t i = 0; i < book->about.facts_count; i++) {
        const es_run_fact *fact = &book->about.facts[i];
        if (fact->session != open) {
            es_sink_put(s, open >= 0 ? "</tbody></table></div>\n" : "");
            open = fact->session;
            es_sink_format(s,
                           "<h4>%s</h4>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
                           "aria-label=\"Start %lld\"><table class=\"pairs\"><tbody>\n",
                           open == 0 ? "Computed by" : "Resumed by", (long long)open + 1);
        }
        es_page_table_pair(s, fact->key, fact->text);
    }
    es_sink_put(s, open >= 0 ? "</tbody></table></div>\n" : "");
}

static es_status put_stages(es_sink *s, const es_book *book, es_error *err)
{
    for (int64_t i = 0; i < book->about.stages_count; i++) {
        es_run_stage stage;
        ES_TRY(es_run_get_stage(book->run, i, &stage, err));
        es_sink_format(s, "<p class=\"note\">The run file keeps %lld finished cell%s of ",
                       (long long)stage.cells, stage.cells == 1 ? "" : "s");
        es_sink_text(s, stage.name);
        es_sink_format(s, ", %lld × %lld numbers each.</p>\n", (long long)stage.rows,
                       (long long)stage.cols);
    }
    return ES_OK;
}

static es_status put_provenance(es_sink *s, const es_book *book, long long number, es_error *err)
{
    const char *line = es_book_fact(book, 0, "command");
    es_sink_format(s, "<section class=\"made\" id=\"made-%lld\">\n<h3>", number);
    put_title(s, book->about.command);
    es_sink_put(s, " <span class=\"quiet\">");
    es_sink_text(s, book->path);
    es_sink_put(s, "</span></h3>\n");
    if (*line) {
        es_sink_put(s, "<p>To repeat it:</p>\n<pre tabindex=\"0\"><code>");
        es_sink_text(s, line);
        es_sink_put(s, "</code></pre>\n");
    }
    es_sink_put(s, "<p class=\"note\">Begun ");
    es_sink_text(s, book->about.created);
    es_sink_put(s, ", last written ");
    es_sink_text(s, book->about.updated);
    es_sink_put(s, ".</p>\n");
    put_parameters(s, book);
    put_sessions(s, book);
    ES_TRY(put_stages(s, book, err));
    es_sink_put(s, "</section>\n");
    return ES_OK;
}

static es_status end_page(es_sink *s, const es_book *books, int64_t count, bool figures,
                          es_error *err)
{
    es_sink_put(s, "<section id=\"provenance\" aria-labelledby=\"provenance-title\">\n"
                   "<h2 id=\"provenance-title\">How these numbers were made</h2>\n"
                   "<p>Every random number is a function of the seed and its address, so the same "
                   "command on the same instruction set gives the same bits, whatever the number "
                   "of threads.</p>\n");
    for (int64_t i = 0; i < count; i++)
        ES_TRY(put_provenance(s, &books[i], (long long)i + 1, err));
    es_sink_put(s, "</section>\n</main>\n<footer class=\"page\">\n<p>Made by Esscher ");
    es_sink_put(s, ES_VERSION_STRING ", a laboratory for softmax attention at long context.</p>\n");
    if (figures) {
        es_sink_put(s, "<details><summary>Licences of the code in this page</summary>\n<pre "
                       "tabindex=\"0\">");
        es_sink_bytes(s, es_asset_notices.bytes, es_asset_notices.size);
        es_sink_put(s, "</pre></details>\n</footer>\n<script>");
        es_sink_bytes(s, es_asset_script.bytes, es_asset_script.size);
        es_sink_put(s, "</script>\n");
    } else {
        es_sink_put(s, "</footer>\n");
    }
    es_sink_put(s, "</body>\n</html>\n");
    return ES_OK;
}

/* ---- the page ---- */

const char *es_report_missing(void) { return es_asset_missing; }

static es_status check(int64_t count, const es_report_opts *opts, es_error *err)
{
    if (count < 1 || count > ES_REPORT_RUNS)
        return es_fail(err, ES_E_ARGUMENT, "report.runs", "name one run file or several",
                       "a page takes 1 to %d runs, not %lld", ES_REPORT_RUNS, (long long)count);
    if (!opts->tables_only && es_asset_script.size == 0)
        return es_fail(err, ES_E_UNSUPPORTED, "report.figures",
                       "install nodejs and npm and build again with a network, or ask for a page "
                       "of tables only",
                       "figures are not built in: %s", es_asset_missing);
    return ES_OK;
}

/* Tables of all runs, so that they can share what the page may carry. */
static es_status count_tables(const es_book *books, int64_t count, int64_t *out, es_error *err)
{
    *out = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t tables;
        ES_TRY(es_run_tables_count(books[i].run, &tables, err));
        *out += tables < ES_BOOK_TABLES ? tables : ES_BOOK_TABLES;
    }
    return ES_OK;
}

static es_status write_runs(es_sink *s, es_book *books, int64_t count, bool figures,
                            es_report_size *size, es_error *err)
{
    page_room room = {.values = ES_BOOK_VALUES};
    ES_TRY(count_tables(books, count, &room.tables, err));
    for (int64_t i = 0; i < count; i++) {
        es_book *book = &books[i];
        ES_TRY(es_book_read(book, err));
        const es_status status = put_run(s, book, i, &room, figures, err);
        for (int64_t j = 0; j < book->count; j++) {
            size->tables += book->tables[j].owner;
            size->rows += book->tables[j].owner ? book->tables[j].data.rows : 0;
        }
        es_book_forget(book);
        ES_TRY(status);
    }
    return end_page(s, books, count, figures, err);
}

static es_status write_page(es_book *books, int64_t count, const char *path,
                            const es_report_opts *opts, es_report_size *size, es_error *err)
{
    void *memory;
    ES_TRY(es_mem_new(opts->budget, sizeof(es_sink), "a page's buffer", &memory, err));
    es_sink *s = memory;
    es_status status = es_sink_begin(s, path, opts->overwrite, err);
    if (status == ES_OK) {
        begin_page(s, books, count, opts->title ? opts->title : "Esscher report",
                   !opts->tables_only);
        es_sink_give_up(s, write_runs(s, books, count, !opts->tables_only, size, err));
        status = es_sink_end(s);
        size->bytes = s->written;
    }
    es_mem_free(opts->budget, memory);
    return status;
}

es_status es_report_write(const char *const *runs, int64_t count, const char *path,
                          const es_report_opts *opts, es_report_size *size, es_error *err)
{
    es_report_size unused;
    void *memory;
    size = size ? size : &unused;
    *size = (es_report_size){.runs = count};
    ES_TRY(check(count, opts, err));
    ES_TRY(es_mem_array(opts->budget, count, 1, sizeof(es_book), "runs of a report", &memory, err));
    es_book *books = memory;
    es_status status = ES_OK;
    int64_t open = 0;
    for (; open < count && status == ES_OK; open++)
        status = es_book_open(&books[open], runs[open], opts->budget, err);
    if (status == ES_OK)
        status = write_page(books, count, path, opts, size, err);
    for (int64_t i = 0; i < open; i++)
        es_book_close(&books[i]);
    es_mem_free(opts->budget, memory);
    return status;
}
