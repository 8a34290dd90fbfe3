/* SPDX-License-Identifier: Apache-2.0 */
/* get_json FILE PATH... : the values at paths such as rows.0.entropy, one per line, as JSON. Ends
 * with 1 if the file is not one strict JSON value (duplicate keys are refused) or a path leads
 * nowhere. */
#define _DEFAULT_SOURCE /* strsep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const json_t *step(const json_t *at, const char *name)
{
    return json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                             : json_object_get(at, name);
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = json_load_file(argc > 1 ? argv[1] : "", JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        fprintf(stderr, "get_json: line %d: %s\n", error.line, error.text);
        return 1;
    }
    int missing = 0;
    for (int i = 2; i < argc; i++) {
        const json_t *at = root;
        char *rest = argv[i];
        for (char *name; at && (name = strsep(&rest, "."));)
            at = step(at, name);
        if (at)
            json_dumpf(at, stdout, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
        else
            missing = 1;
        puts(at ? "" : "(missing)");
    }
    json_decref(root);
    return missing;
}
