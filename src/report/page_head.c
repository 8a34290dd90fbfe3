/* SPDX-License-Identifier: Apache-2.0 */
/* page_head.c : the first lines of a page: what it is of, and what was found. */
#include <stdio.h>
#include <string.h>

#include "report/assets.h"
#include "report/formula.h"
#include "report/page_parts.h"
#include "table/answer.h"

/* ---- what a command is about ---- */

/* Returns the explanation of a command, from web/about; NULL if there is none. */
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

void es_page_title(es_sink *s, const char *command)
{
    const es_asset *about = about_of(command);
    if (about)
        es_sink_bytes(s, about->bytes, title_length(about));
    else
        es_sink_text(s, command);
}

void es_page_about(es_sink *s, const char *command)
{
    const es_asset *about = about_of(command);
    if (!about || title_length(about) == about->size)
        return;
    es_sink_put(s, "<details class=\"about\"><summary>What this is about</summary>");
    es_sink_bytes(s, about->bytes + title_length(about), about->size - title_length(about));
    es_sink_put(s, "</details>\n");
}

/* ---- of what, when, from which seed ---- */

enum { WORD = 256 };

/* What a run read: a file's name, or "3 texts" if there are many. */
static void text_of(const es_book *book, char out[WORD])
{
    char other[WORD];
    int count = 0;
    const char *option = *es_book_option(book, "text", 0, 0, other, WORD) ? "text" : "domain";
    while (count < 1000 && *es_book_option(book, option, 0, count, other, WORD))
        count++;
    es_book_option(book, option, 0, 0, out, WORD);
    if (count > 1)
        snprintf(out, WORD, "%d %s", count, option[0] == 't' ? "texts" : "domains");
}

/* Returns the model's name as it was given, or "a model" for run files that do not store it. */
static void model_of(const es_book *book, char out[WORD])
{
    out[0] = '\0';
    if (*es_book_param(book, "model") && !*es_book_option(book, "model", 'm', 0, out, WORD))
        snprintf(out, WORD, "a model");
}

/* Returns the date of a run. */
static void date_of(const es_book *book, char out[WORD])
{
    snprintf(out, WORD, "%.10s", book->about.created);
}

/* Returns the seed of a run. */
static void seed_of(const es_book *book, char out[WORD])
{
    snprintf(out, WORD, "%s", es_book_param(book, "seed"));
}

/* Returns the version that computed a run. */
static void version_of(const es_book *book, char out[WORD])
{
    snprintf(out, WORD, "%s", es_book_fact(book, 0, "version"));
}

typedef void of_book(const es_book *book, char out[WORD]);

static const struct {
    const char *name;
    of_book *of;
} lines[] = {{"model", model_of},
             {"text", text_of},
             {"date", date_of},
             {"seed", seed_of},
             {"computed by Esscher", version_of}};

/* Did an earlier book say the same? */
static bool is_known(const es_book *books, int64_t at, of_book *of, const char *word)
{
    char other[WORD];
    for (int64_t i = 0; i < at; i++) {
        of(&books[i], other);
        if (strcmp(other, word) == 0)
            return true;
    }
    return false;
}

/* What all books say, each once, with a comma between them. */
static void put_all(es_sink *s, const es_book *books, int64_t count, const char *name, of_book *of)
{
    bool any = false;
    char word[WORD];
    for (int64_t i = 0; i < count; i++) {
        of(&books[i], word);
        if (!*word || is_known(books, i, of, word))
            continue;
        es_sink_format(s, any ? ", " : "<div><dt>%s</dt> <dd>", name);
        es_sink_text(s, word);
        any = true;
    }
    es_sink_put(s, any ? "</dd></div>\n" : "");
}

/* Returns the file name without its directory. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void es_page_origin(es_sink *s, const es_book *book)
{
    char word[WORD];
    es_sink_put(s, "<p class=\"origin\">");
    es_sink_text(s, name_of(book->path));
    for (size_t i = 0; i + 1 < sizeof lines / sizeof *lines; i++) {
        lines[i].of(book, word);
        if (!*word)
            continue;
        es_sink_put(s, i == 1 ? " on " : i == 3 ? " · seed " : " · ");
        es_sink_text(s, word);
    }
    es_sink_put(s, "</p>\n");
}

/* ---- what was found ---- */

/* Writes up to `most` findings that lead, or that do not, one paragraph each. */
static void put_findings(es_sink *s, const es_book *book, bool lead, int64_t most)
{
    const char *finding;
    for (int64_t i = 0; (finding = es_answer_finding(book->answer, i)) && most > 0; i++) {
        if (es_answer_leads(book->answer, i) != lead)
            continue;
        es_sink_put(s, "<p class=\"finding\">");
        es_formula_html(s, es_answer_marked(book->answer, finding));
        es_sink_put(s, "</p>\n");
        most--;
    }
}

void es_page_findings(es_sink *s, const es_book *book, int64_t most, bool fold)
{
    int64_t rest = 0;
    for (int64_t i = 0; es_answer_finding(book->answer, i); i++)
        rest += !es_answer_leads(book->answer, i);
    put_findings(s, book, true, most);
    if (!fold || rest == 0)
        return;
    es_sink_format(s, "<details><summary>%lld more finding%s</summary>\n", (long long)rest,
                   rest == 1 ? "" : "s");
    put_findings(s, book, false, rest);
    es_sink_put(s, "</details>\n");
}

/* Writes the list of findings: those that lead of runs on a real model and of the page's only run,
 * and the first one of each other run. The section of a run has the rest. */
static void put_list(es_sink *s, const es_book *books, int64_t count)
{
    es_sink_put(s, "<section id=\"findings\" aria-labelledby=\"findings-title\">\n"
                   "<h2 id=\"findings-title\">Findings</h2>\n<ol>\n");
    for (int64_t i = 0; i < count; i++) {
        es_sink_format(s, "<li><a href=\"#run-%lld\">", (long long)i + 1);
        es_page_title(s, books[i].about.command);
        es_sink_put(s, "</a>\n");
        const bool all = count == 1 || es_book_kind_of(&books[i]) <= ES_BOOK_REAL;
        es_page_findings(s, &books[i], all ? ES_FINDINGS_FIRST : 1, count == 1);
        es_sink_put(s, "</li>\n");
    }
    es_sink_put(s, "</ol>\n</section>\n");
}

/* ---- the head ---- */

/* Nothing may be loaded, and no code or style may act but those whose hashes stand here. */
static void put_policy(es_sink *s, bool figures)
{
    es_sink_put(s, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
    es_sink_format(s, "style-src '%s'; img-src data: blob:; ", es_asset_style.hash);
    if (figures)
        es_sink_format(s, "script-src '%s'; ", es_asset_script.hash);
    es_sink_put(s, "base-uri 'none'; form-action 'none'\">\n");
}

/* "minilm on alice.txt"; else what the only run is about, or the commands whose runs these are. */
static void title_of(const es_book *books, int64_t count, char *out, size_t size)
{
    enum { NAMED = 4 };
    char model[WORD], text[WORD];
    for (int64_t i = 0; i < count; i++) {
        model_of(&books[i], model);
        text_of(&books[i], text);
        if (*model) {
            snprintf(out, size, *text ? "%s on %s" : "%s", model, text);
            return;
        }
    }
    const es_asset *about = count == 1 ? about_of(books[0].about.command) : NULL;
    if (about) {
        snprintf(out, size, "%.*s", (int)title_length(about), (const char *)about->bytes);
        return;
    }
    size_t used = (size_t)snprintf(out, size, "Esscher:");
    for (int64_t i = 0; i < count && i < NAMED && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %.64s", i ? "," : "",
                                 books[i].about.command);
    if (count > NAMED && used < size)
        snprintf(out + used, size - used, " and %lld more", (long long)count - NAMED);
}

void es_page_begin(es_sink *s, const es_book *books, int64_t count, const char *title, bool figures)
{
    char own[3 * WORD];
    title_of(books, count, own, sizeof own);
    title = title ? title : own;
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
    es_sink_put(s, "</h1>\n<dl class=\"of\">\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        put_all(s, books, count, lines[i].name, lines[i].of);
    es_sink_put(
        s, "</dl>\n<p class=\"lead\">What was found, figures, and every table behind them; numbers "
           "carry ± one standard error.</p>\n");
    if (!figures)
        es_sink_put(s, "<p class=\"note\">This page was made without figures.</p>\n");
    es_sink_put(s, "</header>\n<main id=\"main\">\n");
    put_list(s, books, count);
    es_sink_put(s, "<p class=\"note on-paper\">Tables, definitions, further figures and how each "
                   "number was made are folded in the page on a screen; those that were open are "
                   "printed.</p>\n");
}
