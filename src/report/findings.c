/* findings.c : what a run found, as its study told it. */
#include "report/findings.h"

#include <string.h>

void es_findings_html(es_sink *s, const es_book *book)
{
    const es_run_column *sentences = es_book_column_of(&book->findings, "sentence");
    for (int64_t i = 0; sentences && sentences->texts && i < book->findings.rows; i++) {
        es_sink_put(s, "<p class=\"finding\">");
        es_sink_text(s, sentences->texts[i]);
        es_sink_put(s, "</p>\n");
    }
}
