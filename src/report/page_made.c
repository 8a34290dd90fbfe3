/* SPDX-License-Identifier: Apache-2.0 */
/* page_made.c : how the numbers of a run were made, and how to repeat them. */
#include "base/error.h"
#include "report/page_parts.h"
#include "report/page_table.h"

/* Writes the parameters that determine the numbers. */
static void put_parameters(es_sink *s, const es_page_run *page_run)
{
    es_sink_put(s, "<h4>Parameters</h4>\n<p class=\"note\">Everything that determines the "
                   "numbers; options without a value are left out.</p>\n<div class=\"scroll\" "
                   "tabindex=\"0\" role=\"group\" "
                   "aria-label=\"Parameters\"><table class=\"pairs\"><tbody>\n");
    for (int64_t i = 0; i < page_run->about.params_count; i++)
        if (*page_run->about.params[i].text)
            es_page_table_pair(s, page_run->about.params[i].key, page_run->about.params[i].text);
    es_sink_put(s, "</tbody></table></div>\n");
}

/* Writes which program and machine computed the run, and each resume. */
static void put_sessions(es_sink *s, const es_page_run *page_run)
{
    int64_t open = -1;
    for (int64_t i = 0; i < page_run->about.facts_count; i++) {
        const es_run_fact *fact = &page_run->about.facts[i];
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

/* Writes how many cells of each stage the run file stores. */
static es_status put_stages(es_sink *s, const es_page_run *page_run, es_error *err)
{
    for (int64_t i = 0; i < page_run->about.stages_count; i++) {
        es_run_stage stage;
        ES_TRY(es_run_get_stage(page_run->run, i, &stage, err));
        if (stage.scratch)
            continue;
        es_sink_format(s, "<p class=\"note\">The run file keeps %lld finished cell%s of ",
                       (long long)stage.cells, stage.cells == 1 ? "" : "s");
        es_sink_text(s, stage.name);
        es_sink_format(s, ", %lld × %lld numbers each.</p>\n", (long long)stage.rows,
                       (long long)stage.cols);
    }
    return ES_OK;
}

es_status es_page_made(es_sink *s, const es_page_run *page_run, long long number, es_error *err)
{
    const char *line = es_page_run_fact(page_run, 0, "command");
    es_sink_format(
        s, "<details class=\"made\" id=\"made-%lld\">\n<summary>How it was made</summary>\n",
        number);
    if (*line) {
        es_sink_put(s, "<pre tabindex=\"0\"><code>");
        es_sink_text(s, line);
        es_sink_put(s, "</code></pre>\n");
    }
    es_sink_put(s,
                "<p class=\"note\">Every random number is a function of the seed and its address: "
                "the same command on the same instruction set gives the same bits, whatever the "
                "number of threads. File ");
    es_sink_text(s, page_run->path);
    es_sink_put(s, ", begun ");
    es_sink_text(s, page_run->about.created);
    es_sink_put(s, ", last written ");
    es_sink_text(s, page_run->about.updated);
    es_sink_put(s, ".</p>\n");
    put_parameters(s, page_run);
    put_sessions(s, page_run);
    ES_TRY(put_stages(s, page_run, err));
    es_sink_put(s, "</details>\n");
    return ES_OK;
}
