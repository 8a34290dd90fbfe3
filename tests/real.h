/* real.h : what is no part of the repository: shared/ beside it or where ESSCHER_SHARED says, and
 * real models there or below ESSCHER_MODELS. Tests that need them are skipped where they are not.
 */
#ifndef ES_TESTS_REAL_H
#define ES_TESTS_REAL_H

#include "testing.h"

#include <sys/stat.h>

/* Skips the test if it is not there. */
static inline const char *real_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        print_message("skipped: no %s (set ESSCHER_SHARED, ESSCHER_MODELS)\n", path);
        skip();
    }
    return path;
}

static inline const char *shared_path(const char *rest, char path[4096])
{
    const char *root = getenv("ESSCHER_SHARED");
    snprintf(path, 4096, "%s/%s", root ? root : ES_TESTS_DIR "/../../shared", rest);
    return path;
}

/* The folder of a real model; skips the test if there is none. */
static inline const char *real_model(const char *name, char path[4096])
{
    const char *models = getenv("ESSCHER_MODELS");
    char rest[256];
    struct stat st;
    snprintf(path, 4096, "%s/%s", models ? models : "", name);
    if (models && stat(path, &st) == 0)
        return path;
    snprintf(rest, sizeof rest, "data/models/%s", name);
    shared_path(rest, path);
    return real_file(path);
}

#endif
