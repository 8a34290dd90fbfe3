#include <esscher/report.h>

#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/assets.h"
#include "report/page.h"

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
    es_page_room room = {.values = ES_BOOK_VALUES};
    ES_TRY(count_tables(books, count, &room.tables, err));
    for (int64_t i = 0; i < count; i++) {
        es_book *book = &books[i];
        ES_TRY(es_book_read(book, err));
        const es_status status = es_page_run(s, book, i, &room, figures, err);
        for (int64_t j = 0; j < book->count; j++) {
            size->tables += book->tables[j].owner;
            size->rows += book->tables[j].owner ? book->tables[j].data.rows : 0;
        }
        es_book_forget(book);
        ES_TRY(status);
    }
    return es_page_end(s, books, count, figures, err);
}

static es_status write_page(es_book *books, int64_t count, const char *path,
                            const es_report_opts *opts, es_report_size *size, es_error *err)
{
    void *memory;
    ES_TRY(es_mem_new(opts->budget, sizeof(es_sink), "a page's buffer", &memory, err));
    es_sink *s = memory;
    es_status status = es_sink_begin(s, path, opts->overwrite, err);
    if (status == ES_OK) {
        es_page_begin(s, books, count, opts->title ? opts->title : "Esscher report",
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
