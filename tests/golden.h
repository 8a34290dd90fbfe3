/* golden.h : reference values that stand outside the repository.
 *
 * They are in the folder that ESSCHER_SHARED names, or in one called "shared" beside the
 * repository. A test that needs them says that it is skipped where they are not.
 */
#ifndef ES_GOLDEN_H
#define ES_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

/* The group of golden/theory.json, to be released with json_decref(); NULL, with a message, when
 * the file is not there. A file that is there and lacks the group fails the test. */
static inline json_t *golden_group(const char *group)
{
    const char *folder = getenv("ESSCHER_SHARED");
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/theory.json",
             folder ? folder : ES_TESTS_DIR "/../../shared");
    FILE *file = fopen(path, "r");
    if (!file) {
        print_message("skipped: no reference values at %s\n", path);
        return NULL;
    }
    json_error_t error;
    json_t *all = json_loadf(file, 0, &error);
    fclose(file);
    if (!all)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    json_t *found = json_incref(json_object_get(all, group));
    json_decref(all);
    if (!found)
        fail_msg("%s has no group %s", path, group);
    return found;
}

static inline double golden_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

#endif
