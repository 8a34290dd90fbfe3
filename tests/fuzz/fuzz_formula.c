/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_formula.c : any text at all as a sentence with marked formulas. What comes out is HTML of
 * the elements that we write and no others, each closed by its own name. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/formula.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

enum { LONGEST = 1000, DEPTH = 1024 };

static const char *const known[] = {"span", "code", "i", "sup", "sub"};
enum { KNOWN = sizeof known / sizeof known[0] };

/* Which element a tag, behind its < or </, names. */
static int element_of(const char *name)
{
    const size_t length = strcspn(name, " />");
    for (int i = 0; i < KNOWN; i++)
        if (strlen(known[i]) == length && memcmp(known[i], name, length) == 0)
            return i;
    abort();
}

/* Every element is one of ours and is closed, in order. */
static void require_closed(const char *markup)
{
    static int open[DEPTH];
    int depth = 0;
    for (const char *at = markup; (at = strchr(at, '<')); at++) {
        const bool closing = at[1] == '/';
        const char *end = strchr(at, '>');
        const int element = element_of(at + 1 + closing);
        require(end != NULL);
        if (closing) {
            require(depth > 0 && open[--depth] == element);
        } else {
            require(depth < DEPTH);
            open[depth++] = element;
        }
    }
    require(depth == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static es_sink sink;
    es_error err = {0};
    size = size < LONGEST ? size : LONGEST;
    char *text = malloc(size + 1); /* exactly as large, so that one byte too far is seen */
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    es_sink_begin_open(&sink, -1, "nowhere", &err); /* what fits its buffer is looked at */
    es_formula_html(&sink, text);
    es_sink_bytes(&sink, "", 1);
    if (sink.status == ES_OK)
        require_closed(sink.buffer);
    free(text);
    return 0;
}
