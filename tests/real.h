/* real.h : what is no part of the repository: shared/ beside it or where ESSCHER_SHARED says, and
 * real models there or below ESSCHER_MODELS. Tests that need them are skipped where they are not.
 */
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

/* A path below shared/, which may not be there. Valid until the next call. */
static inline const char *shared_path(const char *rest)
{
    static char path[REAL_PATH];
    const char *root = getenv("ESSCHER_SHARED");
    snprintf(path, sizeof path, "%s/%s", root ? root : ES_TESTS_DIR "/../../shared", rest);
    return path;
}

/* A file or folder that the test cannot do without. */
static inline const char *real_path(const char *path)
{
    if (!is_there(path)) {
        print_message("skipped: no %s (set ESSCHER_SHARED, ESSCHER_MODELS)\n", path);
        skip();
    }
    return path;
}

/* The folder of a real model; skips the test if there is none. */
static inline void real_model(const char *name, char path[REAL_PATH])
{
    const char *models = getenv("ESSCHER_MODELS");
    char rest[256];
    snprintf(path, REAL_PATH, "%s/%s", models ? models : "", name);
    if (models && is_there(path))
        return;
    snprintf(rest, sizeof rest, "data/models/%s", name);
    snprintf(path, REAL_PATH, "%s", real_path(shared_path(rest)));
}

#endif
