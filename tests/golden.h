/* SPDX-License-Identifier: Apache-2.0 */
/* golden.h : reference values that other programs computed: tests/golden, whose README says how. */
#ifndef ES_TESTS_GOLDEN_H
#define ES_TESTS_GOLDEN_H

#include "testing.h"

#include <jansson.h>

/* A path below tests/golden. Valid until the next call. */
static inline const char *golden_path(const char *rest)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/golden/%s", ES_TESTS_DIR, rest);
    return path;
}

/* A JSON file of tests/golden, with a reference that the test gives back. */
static inline json_t *golden_file(const char *rest)
{
    json_t *all = json_load_file(golden_path(rest), 0, NULL);
    if (!all)
        fail_msg("%s cannot be read", golden_path(rest));
    return all;
}

/* One group of theory.json, with a reference that the test gives back. */
static inline json_t *golden(const char *group)
{
    json_t *all = golden_file("theory.json");
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
