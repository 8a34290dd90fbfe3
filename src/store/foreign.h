/* foreign.h : files that people pass by mistake, told by their first bytes. */
#ifndef ES_STORE_FOREIGN_H
#define ES_STORE_FOREIGN_H

#include <stddef.h>

enum { ES_FOREIGN_PREFIX = 32 }; /* bytes that always suffice for es_foreign_of() */

typedef struct es_foreign {
    const char *name; /* "a zip archive ..."; NULL: nothing that is known */
    const char *hint; /* what to do with one */
} es_foreign;

/*! es_foreign_of() : what begins with these `have` bytes; fewer than ES_FOREIGN_PREFIX only if the
 *  file has no more. */
es_foreign es_foreign_of(const unsigned char *bytes, size_t have);

#endif
