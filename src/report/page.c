/* SPDX-License-Identifier: Apache-2.0 */
/* page.c : run files as one page: a section for each run, and the order in which all that is read
 * and written. */
#include <esscher/report.h>

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/assets.h"
#include "report/page_data.h"
#include "report/page_parts.h"
#include "report/page_table.h"
#include "store/file.h"
#include "table/table.h"

/* ---- a run ---- */

/* Results that stand alone, beside the tables; lists are for programs. */
static void put_answer(es_sink *s, const es_page_run *page_run, long long number)
{
    char buffer[ES_FORMAT_SIZE];
    const char *key, *text;
    int64_t count = 0;
    while (es_answer_scalar(page_run->answer, count, &key, buffer, sizeof buffer, &text))
        count++;
    if (count == 0)
        return;
    es_sink_format(s,
                   "<details class=\"table\"><summary><span id=\"run-%lld-answer\">Single "
                   "results</span> <span class=\"count\">%lld</span></summary>\n<div "
                   "class=\"scroll\" tabindex=\"0\" role=\"group\" "
                   "aria-labelledby=\"run-%lld-answer\"><table class=\"pairs\">\n<tbody>\n",
                   number, (long long)count, number);
    for (int64_t i = 0; es_answer_scalar(page_run->answer, i, &key, buffer, sizeof buffer, &text);
         i++)
        es_page_table_pair(s, key, text);
    es_sink_put(s, "</tbody></table></div></details>\n");
}

/* Writes a note about a run without tables: a shard, or one that is not complete. */
static void put_unfinished(es_sink *s, const es_page_run *page_run)
{
    int64_t shard, shards;
    if (es_run_shard(page_run->run, &shard, &shards)) {
        es_sink_format(
            s,
            "<p class=\"note unfinished\">This is a part of a run, shard %lld of %lld: it "
            "has cells, and no tables. <code>esscher merge</code> joins all parts and "
            "makes them.</p>\n",
            (long long)shard, (long long)shards);
        return;
    }
    es_sink_put(s, "<p class=\"note unfinished\">This run has no tables yet: it is not complete. "
                   "Go on with <code>");
    es_sink_text(s, es_page_run_fact(page_run, 0, "command"));
    es_sink_put(s, " --resume</code>, then make this page again.</p>\n");
}

/* Writes the place that the script fills with figures. */
static void put_place_of_figures(es_sink *s, long long number)
{
    es_sink_format(s,
                   "<div class=\"show\" id=\"run-%lld-figures\"><div class=\"figures\" "
                   "data-run=\"run-%lld-data\"></div>\n"
                   "<noscript><p class=\"note\">Figures are drawn by JavaScript, which is "
                   "switched off here. The tables hold their numbers.</p></noscript></div>\n",
                   number, number);
}

/* How the section of a run looks: the first of a page has its figure beside its findings;
 * experiments on synthetic tokens are cards, two of which fit side by side on a wide screen. */
static const char *class_of(const es_page_run *page_run, long long number)
{
    if (number == 1)
        return " hero";
    return es_page_run_kind_of(page_run) == ES_PAGE_RUN_SYNTHETIC ? " card" : "";
}

/* Writes title and findings of a run. `alone`: the page's first lines already have its title. */
static void put_heading(es_sink *s, const es_page_run *page_run, long long number, bool alone)
{
    es_sink_format(s, "<section class=\"run%s\" id=\"run-%lld\">\n<div class=\"story\">\n",
                   class_of(page_run, number), number);
    if (alone) {
        es_sink_format(s, "<h2 id=\"run-%lld-findings\">Findings</h2>\n", number);
    } else {
        es_sink_format(s, "<h2 id=\"run-%lld-title\">", number);
        es_page_title(s, page_run);
        es_sink_put(s, "</h2>\n");
        es_page_lede(s, page_run);
    }
    es_page_findings(s, page_run, ES_FINDINGS_FIRST, true);
    es_page_about(s, page_run);
    es_page_origin(s, page_run);
    es_sink_put(s, "</div>\n");
}

/* Claims are read before their figure, and are the one table that is not folded. */
static void put_claims(es_sink *s, const es_page_run *page_run, long long number)
{
    char id[ES_PAGE_ID];
    for (int64_t i = 0; i < page_run->count; i++)
        if (page_run->views[i].first && es_page_claims_fit(page_run->views[i].table)) {
            es_page_table_id(id, number, i);
            es_page_claims_html(s, page_run, page_run->views[i].table, number, id);
        }
}

/* Writes the folded parts of a page, which the reader opens. */
static es_status put_folds(es_sink *s, const es_page_run *page_run, long long number, es_error *err)
{
    es_sink_format(s, "<div class=\"folds\" id=\"run-%lld-tables\">\n", number);
    for (int64_t i = 0; i < page_run->count; i++) {
        char id[ES_PAGE_ID];
        if (es_page_claims_fit(page_run->views[i].table))
            continue;
        es_page_table_id(id, number, i);
        ES_TRY(es_page_table_html(s, page_run, &page_run->views[i], id, err));
    }
    if (page_run->missing > 0)
        es_sink_format(s, "<p class=\"note\">%lld more tables are not shown.</p>\n",
                       (long long)page_run->missing);
    put_answer(s, page_run, number);
    ES_TRY(es_page_made(s, page_run, number, err));
    es_sink_put(s, "</div>\n");
    return ES_OK;
}

/* Writes the section of one run. */
static es_status put_run(es_sink *s, const es_page_run *page_run, int64_t at,
                         es_page_scratch *scratch, bool figures, bool alone, es_error *err)
{
    const long long number = (long long)at + 1;
    put_heading(s, page_run, number, alone);
    put_claims(s, page_run, number);
    if (figures)
        put_place_of_figures(s, number);
    if (page_run->count == 0)
        put_unfinished(s, page_run);
    ES_TRY(put_folds(s, page_run, number, err));
    if (figures)
        ES_TRY(es_page_data(s, page_run, number, scratch, err));
    es_sink_put(s, "</section>\n");
    return ES_OK;
}

/* Writes the end of the page: licences, and the script that draws figures. */
static void end_page(es_sink *s, bool figures)
{
    es_sink_put(s, "</main>\n<footer class=\"page\">\n<p>Made by Esscher " ES_VERSION_STRING
                   ", a laboratory for softmax attention at long context.</p>\n");
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
}

/* ---- the page ---- */

const char *es_report_missing(void) { return es_asset_missing; }

/* Fails for a wrong number of runs, missing figures, or an output that is one of the runs. */
static es_status check(const char *const *runs, int64_t count, const char *path,
                       const es_report_opts *opts, es_error *err)
{
    if (count < 1 || count > ES_REPORT_RUNS)
        return es_fail(err, ES_E_ARGUMENT, "report.runs", "name one run file or several",
                       "a page takes 1 to %d runs, not %lld", ES_REPORT_RUNS, (long long)count);
    if (!opts->tables_only && es_asset_script.size == 0)
        return es_fail(err, ES_E_UNSUPPORTED, "report.figures",
                       "install nodejs and npm and build again with a network, or ask for a page "
                       "of tables only",
                       "figures are not built in: %s", es_asset_missing);
    for (int64_t i = 0; i < count; i++)
        if (es_file_same(path, runs[i]))
            return es_fail_file(err, ES_E_ARGUMENT, path, -1, "report.out",
                                "give the page a name of its own",
                                "it would overwrite a run that is reported");
    return ES_OK;
}

/* By kind, and as they were given among those of one kind. */
static void sort_runs(es_page_run *page_runs, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = i; j > 0; j--) {
            es_page_run *a = &page_runs[j - 1], *b = &page_runs[j], swap = *a;
            if (es_page_run_kind_of(a) <= es_page_run_kind_of(b))
                break;
            *a = *b;
            *b = swap;
        }
}

/* Writes all runs, one in memory at a time. */
static es_status write_runs(es_sink *s, es_page_run *page_runs, int64_t count, bool figures,
                            es_report_size *size, es_error *err)
{
    es_page_scratch scratch = {.values = ES_PAGE_VALUES};
    for (int64_t i = 0; i < count; i++) {
        es_page_run *page_run = &page_runs[i];
        ES_TRY(es_page_run_read(page_run, err));
        const es_status status = put_run(s, page_run, i, &scratch, figures, count == 1, err);
        for (int64_t j = 0; j < page_run->count; j++) {
            const es_page_run_view *v = &page_run->views[j];
            size->tables += v->first;
            size->rows += v->first ? es_table_rows(v->table) : 0;
        }
        es_page_run_forget(page_run);
        ES_TRY(status);
    }
    end_page(s, figures);
    return ES_OK;
}

/* Writes the page by way of a draft; after a failure there is no page. */
static es_status write_page(es_page_run *page_runs, int64_t count, const char *path,
                            const es_report_opts *opts, es_report_size *size, es_error *err)
{
    es_sink *s;
    ES_TRY(ES_MEM_NEW(opts->budget, s, 1, "a page's buffer", err));
    es_status status = es_sink_begin(s, path, opts->overwrite, err);
    if (status == ES_OK) {
        es_page_begin(s, page_runs, count, opts->title, !opts->tables_only);
        es_sink_give_up(s, write_runs(s, page_runs, count, !opts->tables_only, size, err));
        status = es_sink_end(s);
        size->bytes = s->written;
    }
    es_mem_free(opts->budget, s);
    return status;
}

es_status es_report_write(const char *const *runs, int64_t count, const char *path,
                          const es_report_opts *opts, es_report_size *size, es_error *err)
{
    es_report_size unused;
    es_page_run *page_runs;
    size = size ? size : &unused;
    *size = (es_report_size){.runs = count};
    ES_TRY(check(runs, count, path, opts, err));
    ES_TRY(ES_MEM_NEW(opts->budget, page_runs, count, "runs of a report", err));
    es_status status = ES_OK;
    int64_t open = 0;
    for (; open < count && status == ES_OK; open++)
        status = es_page_run_open(&page_runs[open], runs[open], opts->budget, err);
    if (status == ES_OK)
        sort_runs(page_runs, count);
    if (status == ES_OK)
        status = write_page(page_runs, count, path, opts, size, err);
    for (int64_t i = 0; i < open; i++)
        es_page_run_close(&page_runs[i]);
    es_mem_free(opts->budget, page_runs);
    return status;
}
