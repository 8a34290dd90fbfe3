/* hub.c : where a model lies: a folder, or a name in the cache of the Hugging Face hub.
 *
 *     $CACHE/models--org--name/refs/main          holds a commit
 *     $CACHE/models--org--name/snapshots/COMMIT/  holds config.json, model.safetensors, ...
 */
#include <esscher/model.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"

enum { PATH_MOST = 4096, NAME_MOST = 256 };

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- the name ---- */

typedef struct hub_name {
    char repository[NAME_MOST]; /* "models--org--name" */
    char revision[NAME_MOST];
} hub_name;

/* Letters, digits, '.', '_' and '-', with a letter or digit first: nothing that leads elsewhere. */
static bool is_plain(const char *text, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return size > 0 && size < NAME_MOST / 3 && strspn(text, letters) >= size &&
           !strchr("._-", *text);
}

/* "org/name@revision" taken apart. @return : false if it cannot be the name of a repository. */
static bool parse_name(const char *name, hub_name *out)
{
    const char *at = strchr(name, '@'), *end = at ? at : name + strlen(name);
    const char *slash = memchr(name, '/', (size_t)(end - name));
    const char *last = slash ? slash + 1 : name;
    if (!is_plain(last, (size_t)(end - last)) || (slash && !is_plain(name, (size_t)(slash - name))))
        return false;
    if (at && !is_plain(at + 1, strlen(at + 1)))
        return false;
    snprintf(out->repository, sizeof out->repository, "models--%.*s%s%.*s",
             slash ? (int)(slash - name) : 0, name, slash ? "--" : "", (int)(end - last), last);
    snprintf(out->revision, sizeof out->revision, "%s", at ? at + 1 : "main");
    return true;
}

/* ---- the cache ---- */

static bool find_cache(char *out, size_t size)
{
    static const struct {
        const char *variable, *rest;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value)
            return (size_t)snprintf(out, size, "%s%s", value, places[i].rest) < size;
    }
    return false;
}

/* The commit that refs/REVISION names, or "" if there is no such file. */
static es_status read_ref(const char *repository, const char *revision, char commit[NAME_MOST],
                          es_error *err)
{
    char path[PATH_MOST + NAME_MOST + 16];
    void *text;
    size_t size;
    struct stat st;
    commit[0] = '\0';
    snprintf(path, sizeof path, "%s/refs/%s", repository, revision);
    if (stat(path, &st) != 0)
        return ES_OK;
    ES_TRY(es_file_load(path, NAME_MOST, NULL, &text, &size, err));
    const size_t length = strcspn(text, "\r\n");
    const bool plain = strlen(text) == size && is_plain(text, length) &&
                       strspn((char *)text + length, "\r\n") == size - length;
    if (plain)
        snprintf(commit, NAME_MOST, "%.*s", (int)length, (char *)text);
    es_mem_free(NULL, text);
    return plain ? ES_OK
                 : es_fail_file(err, ES_E_FORMAT, path, 0, "hub.ref", "download the model anew",
                                "the file does not hold a commit");
}

/* The only snapshot, if there is one and no other; for caches that were copied without refs. */
static bool only_snapshot(const char *repository, char commit[NAME_MOST])
{
    char path[PATH_MOST + NAME_MOST + 16];
    int count = 0;
    snprintf(path, sizeof path, "%s/snapshots", repository);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || !is_plain(entry->d_name, strlen(entry->d_name)))
            continue;
        snprintf(commit, NAME_MOST, "%s", entry->d_name);
        count++;
    }
    if (folder)
        closedir(folder);
    return count == 1;
}

static es_status find_snapshot(const char *repository, const hub_name *name, char *out, size_t size,
                               es_error *err)
{
    char commit[NAME_MOST];
    ES_TRY(read_ref(repository, name->revision, commit, err));
    if (!commit[0] && strcmp(name->revision, "main") != 0) /* not a branch: a commit itself? */
        snprintf(commit, sizeof commit, "%s", name->revision);
    if (!commit[0] && !only_snapshot(repository, commit))
        return es_fail_file(err, ES_E_IO, repository, -1, "model.locate",
                            "name a commit: org/name@COMMIT, or download the model anew",
                            "the cache has no ref 'main' and not exactly one snapshot");
    if ((size_t)snprintf(out, size, "%s/snapshots/%s", repository, commit) >= size ||
        !is_folder(out))
        return es_fail_file(err, ES_E_IO, repository, -1, "model.locate",
                            "download that revision, or name another",
                            "the cache has no snapshot '%s'", commit);
    return ES_OK;
}

es_status es_model_locate(const char *name, char *out, size_t size, es_error *err)
{
    char cache[PATH_MOST], repository[PATH_MOST];
    hub_name hub;
    struct stat st;
    if (!name || !*name || !out || size == 0)
        return es_fail(err, ES_E_ARGUMENT, "model.name", "name a folder or a model",
                       "no name of a model");
    out[0] = '\0';
    if (is_folder(name)) {
        if ((size_t)snprintf(out, size, "%s", name) < size)
            return ES_OK;
        return es_fail(err, ES_E_ARGUMENT, "model.name", "use a shorter path",
                       "the path is too long");
    }
    if (stat(name, &st) == 0)
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "name the folder that holds config.json and model.safetensors",
                            "a model is a folder, this is a file");
    if (!parse_name(name, &hub))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "name a folder, or a model as org/name", "there is no such folder");
    if (!find_cache(cache, sizeof cache))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "set HF_HUB_CACHE, or name a folder",
                            "there is no such folder, and no cache to look in: HOME is not set");
    if ((size_t)snprintf(repository, sizeof repository, "%s/%s", cache, hub.repository) >=
            sizeof repository ||
        !is_folder(repository))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "download it first, e.g. with: hf download NAME",
                            "there is no such folder, and the cache %.150s does not have it",
                            cache);
    return find_snapshot(repository, &hub, out, size, err);
}
