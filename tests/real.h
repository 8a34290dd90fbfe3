/* SPDX-License-Identifier: Apache-2.0 */
/* real.h : what is no part of the repository: real models and texts. They are looked for below
 * ESSCHER_MODELS (a folder of models), below data/ of ESSCHER_SHARED or of ../shared, and in demo/,
 * where `./do demo` puts a model and a novel. Tests that need them are needy tests. */
#ifndef ES_TESTS_REAL_H
#define ES_TESTS_REAL_H

#include "testing.h"

#include <stdbool.h>
#include <sys/stat.h>

enum { REAL_PATH = 4096 };

static inline bool is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* A file or folder below data/ of the shared folder, or DEMO of the repository (NULL: nothing).
 * Skips the test if there is neither. */
static inline void real_path(const char *rest, const char *demo, char path[REAL_PATH])
{
    const char *shared = getenv("ESSCHER_SHARED");
    snprintf(path, REAL_PATH, "%s/data/%s", shared ? shared : ES_TESTS_DIR "/../../shared", rest);
    if (is_there(path))
        return;
    snprintf(path, REAL_PATH, ES_TESTS_DIR "/../%s", demo ? demo : "");
    if (!demo || !is_there(path))
        skip_test("no %s below ESSCHER_SHARED/data%s%s%s", rest, demo ? ", nor " : "",
                  demo ? demo : "", demo ? " (./do demo fetches it)" : "");
}

/* The folder of a real model; skips the test if there is none. */
static inline void real_model(const char *name, char path[REAL_PATH])
{
    const char *models = getenv("ESSCHER_MODELS");
    char rest[256];
    snprintf(path, REAL_PATH, "%s/%s", models ? models : "", name);
    if (models && is_there(path))
        return;
    snprintf(rest, sizeof rest, "models/%s", name);
    real_path(rest, strcmp(name, "minilm-l6-v2-f16") == 0 ? "demo/minilm" : NULL, path);
}

#endif
