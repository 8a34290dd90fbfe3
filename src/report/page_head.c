/* SPDX-License-Identifier: Apache-2.0 */
/* page_head.c : the first lines of a page: what it is of, and what was found. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "report/assets.h"
#include "report/formula.h"
#include "report/page_parts.h"
#include "table/answer.h"

/* ---- of what, when, from which seed ---- */

enum { WORD = 256 };

/* What a run read: a file's name, or "3 texts" if there are many. */
static void text_of(const es_page_run *page_run, char out[WORD])
{
    char other[WORD];
    int count = 0;
    const char *option =
        *es_page_run_option(page_run, "text", 0, 0, other, WORD) ? "text" : "domain";
    while (count < 1000 && *es_page_run_option(page_run, option, 0, count, other, WORD))
        count++;
    es_page_run_option(page_run, option, 0, 0, out, WORD);
    if (count > 1)
        snprintf(out, WORD, "%d %s", count, option[0] == 't' ? "texts" : "domains");
}

/* Returns the model's name as it was given, or "a model" for run files that do not store it. */
static void model_of(const es_page_run *page_run, char out[WORD])
{
    out[0] = '\0';
    if (*es_page_run_param(page_run, "model") &&
        !*es_page_run_option(page_run, "model", 'm', 0, out, WORD))
        snprintf(out, WORD, "a model");
}

/* Returns the date of a run. */
static void date_of(const es_page_run *page_run, char out[WORD])
{
    snprintf(out, WORD, "%.10s", page_run->about.created);
}

/* Returns the seed of a run. */
static void seed_of(const es_page_run *page_run, char out[WORD])
{
    snprintf(out, WORD, "%s", es_page_run_param(page_run, "seed"));
}

/* Returns the version that computed a run. */
static void version_of(const es_page_run *page_run, char out[WORD])
{
    snprintf(out, WORD, "%s", es_page_run_fact(page_run, 0, "version"));
}

/* ---- what a run is about ---- */

/* Returns the explanation called `name`, from web/about; NULL if there is none. */
static const es_asset *about_named(const char *name)
{
    for (size_t i = 0; i < es_asset_abouts_count; i++)
        if (strcmp(es_asset_abouts[i].name, name) == 0)
            return &es_asset_abouts[i];
    return NULL;
}

/* Returns the explanation of a run's kind, from web/about: probe-far for `probe --look far`,
 * loss-rope for `loss --rope`; else that of its command; NULL if there is none. */
static const es_asset *about_of(const es_page_run *page_run)
{
    static const char *const kinds[] = {"rope",
                                        "compare"}; /* parameters that change the question */
    const char *command = page_run->about.command;
    char name[WORD], look[WORD];
    const es_asset *about = NULL;
    snprintf(look, sizeof look, "%s", es_page_run_param(page_run, "look"));
    snprintf(name, sizeof name, "%.100s-%.100s", command, look);
    if (*look)
        about = about_named(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !about; i++) {
        snprintf(name, sizeof name, "%.100s-%s", command, kinds[i]);
        if (*es_page_run_param(page_run, kinds[i]))
            about = about_named(name);
    }
    return about ? about : about_named(command);
}

/* Returns the length of the line that begins at `from`. */
static size_t line_length(const es_asset *about, size_t from)
{
    const void *end = memchr(about->bytes + from, '\n', about->size - from);
    return end ? (size_t)((const unsigned char *)end - about->bytes) - from : about->size - from;
}

/* Where the second line begins: what the run is of, in one sentence. */
static size_t lede_at(const es_asset *about)
{
    const size_t first = line_length(about, 0);
    return first < about->size ? first + 1 : first;
}

/* Where the explanation begins that is folded. */
static size_t body_at(const es_asset *about)
{
    const size_t from = lede_at(about), end = from + line_length(about, from);
    return end < about->size ? end + 1 : end;
}

/* Returns the title of a run as text, with the model's name in place of {model}. */
static void title_text(const es_page_run *page_run, char *out, size_t size)
{
    static const char gap[] = "{model}";
    const es_asset *about = about_of(page_run);
    char title[2 * WORD], model[WORD], *at;
    if (!about) {
        snprintf(out, size, "%s", page_run->about.command);
        return;
    }
    snprintf(title, sizeof title, "%.*s", (int)line_length(about, 0), (const char *)about->bytes);
    model_of(page_run, model);
    at = strstr(title, gap);
    if (at)
        snprintf(out, size, "%.*s%s%s", (int)(at - title), title, *model ? model : "a model",
                 at + sizeof gap - 1);
    else
        snprintf(out, size, "%s", title);
}

void es_page_title(es_sink *s, const es_page_run *page_run)
{
    char title[3 * WORD];
    title_text(page_run, title, sizeof title);
    es_sink_text(s, title);
}

void es_page_lede(es_sink *s, const es_page_run *page_run)
{
    const es_asset *about = about_of(page_run);
    const size_t from = about ? lede_at(about) : 0;
    if (!about || line_length(about, from) == 0)
        return;
    es_sink_put(s, "<p class=\"lede\">");
    es_sink_bytes(s, about->bytes + from, line_length(about, from));
    es_sink_put(s, "</p>\n");
}

void es_page_about(es_sink *s, const es_page_run *page_run)
{
    const es_asset *about = about_of(page_run);
    const size_t from = about ? body_at(about) : 0;
    if (!about || from >= about->size)
        return;
    es_sink_put(s, "<details class=\"about\"><summary>What this is about</summary>");
    es_sink_bytes(s, about->bytes + from, about->size - from);
    es_sink_put(s, "</details>\n");
}

typedef void of_page_run(const es_page_run *page_run, char out[WORD]);

static const struct {
    const char *name;
    of_page_run *of;
} lines[] = {{"model", model_of},
             {"text", text_of},
             {"date", date_of},
             {"seed", seed_of},
             {"computed by Esscher", version_of}};

/* Returns whether an earlier run has the same text. */
static bool is_known(const es_page_run *page_runs, int64_t at, of_page_run *of, const char *word)
{
    char other[WORD];
    for (int64_t i = 0; i < at; i++) {
        of(&page_runs[i], other);
        if (strcmp(other, word) == 0)
            return true;
    }
    return false;
}

/* Writes what the runs have, each text once, separated by commas. */
static void put_all(es_sink *s, const es_page_run *page_runs, int64_t count, const char *name,
                    of_page_run *of)
{
    bool any = false;
    char word[WORD];
    for (int64_t i = 0; i < count; i++) {
        of(&page_runs[i], word);
        if (!*word || is_known(page_runs, i, of, word))
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

void es_page_origin(es_sink *s, const es_page_run *page_run)
{
    char word[WORD];
    es_sink_put(s, "<p class=\"origin\">");
    es_sink_text(s, name_of(page_run->path));
    for (size_t i = 0; i + 1 < sizeof lines / sizeof *lines; i++) {
        lines[i].of(page_run, word);
        if (!*word)
            continue;
        es_sink_put(s, i == 1 ? " on " : i == 3 ? " · seed " : " · ");
        es_sink_text(s, word);
    }
    es_sink_put(s, "</p>\n");
}

/* ---- what was found ---- */

/* Returns the length of the exponent that a text begins with, ^-0.57; 0 for none. */
static size_t exponent_length(const char *text)
{
    if (*text != '^')
        return 0;
    const size_t sign = 1 + (text[1] == '-');
    size_t digits = strspn(text + sign, "0123456789./");
    while (digits > 0 && strchr("./", text[sign + digits - 1]))
        digits--; /* the end of a sentence */
    return digits > 0 ? sign + digits : 0;
}

/* Returns the length of the formula that a text begins with: a power, n^-0.57 or (ln n)^-0.5, or
 * the name of a Greek letter with its index, gamma_c; 0 for none. */
static size_t formula_length(const char *text)
{
    static const char *const names[] = {"alpha", "beta", "gamma", "rho", "sigma", "lambda"};
    const char *close = *text == '(' ? strchr(text, ')') : NULL;
    const size_t base = close ? (size_t)(close - text) + 1 : strcspn(text, "^ ,;:()");
    if (close || (base > 0 && text[base] == '^' && isalpha((unsigned char)text[0]))) {
        const size_t power = exponent_length(text + base);
        return power > 0 ? base + power : 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(text, names[i], length) != 0)
            continue;
        if (text[length] == '_' && isalnum((unsigned char)text[length + 1]))
            length += 2;
        return isalnum((unsigned char)text[length]) ? 0 : length;
    }
    return 0;
}

/* Writes a finding. Powers and names of Greek letters are set as formulas where it marks none
 * itself.
 */
static void put_sentence(es_sink *s, const char *text)
{
    char marked[4096];
    size_t used = 0;
    bool inside = false;                                         /* a word, or an option's name */
    if (strchr(text, '`') || strlen(text) > sizeof marked / 2) { /* marked already, or too long */
        es_formula_html(s, text);
        return;
    }
    for (const char *at = text; *at;) {
        const size_t length = inside ? 0 : formula_length(at);
        if (length > 0) {
            used +=
                (size_t)snprintf(marked + used, sizeof marked - used, "`%.*s`", (int)length, at);
            at += length;
        } else {
            inside = isalnum((unsigned char)*at) || *at == '-';
            marked[used++] = *at++;
        }
    }
    marked[used] = '\0';
    es_formula_html(s, marked);
}

/* Writes up to `most` findings that lead, or that do not, one paragraph each. */
static void put_findings(es_sink *s, const es_page_run *page_run, bool lead, int64_t most)
{
    const char *finding;
    for (int64_t i = 0; (finding = es_answer_finding(page_run->answer, i)) && most > 0; i++) {
        if (es_answer_leads(page_run->answer, i) != lead)
            continue;
        es_sink_put(s, "<p class=\"finding\">");
        put_sentence(s, es_answer_marked(page_run->answer, finding));
        es_sink_put(s, "</p>\n");
        most--;
    }
}

void es_page_findings(es_sink *s, const es_page_run *page_run, int64_t most, bool fold)
{
    int64_t rest = 0;
    for (int64_t i = 0; es_answer_finding(page_run->answer, i); i++)
        rest += !es_answer_leads(page_run->answer, i);
    put_findings(s, page_run, true, most);
    if (!fold || rest == 0)
        return;
    es_sink_format(s, "<details><summary>%lld more finding%s</summary>\n", (long long)rest,
                   rest == 1 ? "" : "s");
    put_findings(s, page_run, false, rest);
    es_sink_put(s, "</details>\n");
}

/* Writes the contents: one line for each run, or the parts of the only one. */
static void put_contents(es_sink *s, const es_page_run *page_runs, int64_t count)
{
    es_sink_put(s, "<nav class=\"contents\" aria-label=\"Contents\"><ol>\n");
    for (int64_t i = 0; i < count && count > 1; i++) {
        es_sink_format(s, "<li><a href=\"#run-%lld\">", (long long)i + 1);
        es_page_title(s, &page_runs[i]);
        es_sink_put(s, "</a></li>\n");
    }
    if (count == 1)
        es_sink_put(s, "<li><a href=\"#run-1-findings\">Findings</a></li>\n"
                       "<li><a href=\"#run-1-figures\">Figures</a></li>\n"
                       "<li><a href=\"#run-1-tables\">Tables</a></li>\n"
                       "<li><a href=\"#made-1\">How this was made</a></li>\n");
    es_sink_put(s, "</ol></nav>\n");
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

/* Returns the title of a page: the only run's question; else "minilm on alice.txt", or the
 * commands. */
static void title_of(const es_page_run *page_runs, int64_t count, char *out, size_t size)
{
    enum { NAMED = 4 };
    char model[WORD], text[WORD];
    if (count == 1 && about_of(&page_runs[0])) {
        title_text(&page_runs[0], out, size);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        model_of(&page_runs[i], model);
        text_of(&page_runs[i], text);
        if (*model) {
            snprintf(out, size, *text ? "%s on %s" : "%s", model, text);
            return;
        }
    }
    size_t used = (size_t)snprintf(out, size, "Esscher:");
    for (int64_t i = 0; i < count && i < NAMED && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %.64s", i ? "," : "",
                                 page_runs[i].about.command);
    if (count > NAMED && used < size)
        snprintf(out + used, size - used, " and %lld more", (long long)count - NAMED);
}

void es_page_begin(es_sink *s, const es_page_run *page_runs, int64_t count, const char *title,
                   bool figures)
{
    char own[3 * WORD];
    title_of(page_runs, count, own, sizeof own);
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
        put_all(s, page_runs, count, lines[i].name, lines[i].of);
    es_sink_put(s, "<div><dt>±</dt> <dd>one standard error; bars in figures: two</dd></div>\n"
                   "</dl>\n");
    if (count == 1)
        es_page_lede(s, &page_runs[0]);
    put_contents(s, page_runs, count);
    if (!figures)
        es_sink_put(s, "<p class=\"note\">This page was made without figures.</p>\n");
    es_sink_put(s, "</header>\n<main id=\"main\">\n");
    es_sink_put(s, "<p class=\"note on-paper\">Tables, definitions, further figures and how each "
                   "number was made are folded in the page on a screen; those that were open are "
                   "printed.</p>\n");
}
