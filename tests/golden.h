/* golden.h : reference values that other programs computed, shared/golden/theory.json beside the
 * repository or where ESSCHER_SHARED says. Tests that need them are skipped where they are not. */
#ifndef ES_TESTS_GOLDEN_H
#define ES_TESTS_GOLDEN_H

#include "testing.h"

#include <jansson.h>

/* One group of the file, with a reference that the test gives back; skips the test if it is not
 * there. */
static inline json_t *golden(const char *group)
{
    const char *shared = getenv("ESSCHER_SHARED");
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/theory.json",
             shared ? shared : ES_TESTS_DIR "/../../shared");
    json_t *all = json_load_file(path, 0, NULL);
    if (!all) {
        print_message("skipped: no %s (set ESSCHER_SHARED)\n", path);
        skip();
    }
    json_t *found = json_incref(json_object_get(all, group));
    json_decref(all);
    assert_non_null(found);
    return found;
}

static inline double golden_real(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (!json_is_number(value))
        fail_msg("golden value %s is missing", key);
    return json_number_value(value);
}

/* A matrix as new row-major memory, or NULL if the row has none of this name. */
static inline double *golden_matrix(const json_t *row, const char *key, int64_t *rows,
                                    int64_t *cols)
{
    const json_t *value = json_object_get(row, key);
    if (!value)
        return NULL;
    *rows = (int64_t)json_array_size(value);
    *cols = (int64_t)json_array_size(json_array_get(value, 0));
    double *out = malloc((size_t)(*rows * *cols) * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < *rows * *cols; i++)
        out[i] = json_number_value(
            json_array_get(json_array_get(value, (size_t)(i / *cols)), (size_t)(i % *cols)));
    return out;
}

#endif
