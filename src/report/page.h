/* page.h : the page around the tables, from the first tag to the last. */
#ifndef ES_REPORT_PAGE_H
#define ES_REPORT_PAGE_H

#include "report/book.h"
#include "report/sink.h"

/* Head, title, introduction and contents. */
void es_page_begin(es_sink *s, const es_book *books, int64_t count, const char *title,
                   bool figures);

/* What a page may still carry for its figures. Tables share it alike; what a small one leaves goes
 * to those after it. */
typedef struct es_page_room {
    int64_t values; /* numbers and texts */
    int64_t tables; /* still to come */
} es_page_room;

/* A run that has been read: what it is about, what came out, figures, tables, data, for which it
 * takes of `room`. */
es_status es_page_run(es_sink *s, const es_book *book, int64_t at, es_page_room *room, bool figures,
                      es_error *err);

/* How each run was made, licences, code. */
es_status es_page_end(es_sink *s, const es_book *books, int64_t count, bool figures, es_error *err);

#endif
