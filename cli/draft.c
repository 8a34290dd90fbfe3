#include "draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"

static es_status fail_io(const char *path, const char *rule, const char *verb, es_error *err)
{
    return cli_fail(err, ES_E_IO, path, rule, "check the folder and the space left on the disk",
                    "cannot %s: %s", verb, strerror(errno));
}

static es_status fail_exists(const char *path, es_error *err)
{
    return cli_fail(err, ES_E_EXISTS, path, "file.exists",
                    "choose another name, or overwrite it with --force", "the file exists already");
}

/* The folder part of a path with its slash, "./" if there is none, as new text with `room` bytes
 * to spare. */
static char *folder_of(const char *path, size_t room)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) + 1 : 2;
    char *folder = cli_alloc(length + room + 1);
    memcpy(folder, slash ? path : "./", length);
    return folder;
}

es_status cli_target_check(const char *path, bool overwrite, es_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !overwrite)
        return fail_exists(path, err);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return cli_fail(err, ES_E_IO, path, "file.regular", "name a regular file",
                        "cannot write: it is no regular file");
    char *folder = folder_of(path, 0);
    const int denied = access(folder, W_OK | X_OK);
    free(folder);
    return denied ? fail_io(path, "file.create", "create", err) : ES_OK;
}

es_status cli_draft_open(cli_draft *draft, const char *path, bool overwrite, es_error *err)
{
    enum { SUFFIX = 64 };
    *draft = (cli_draft){.path = path, .overwrite = overwrite};
    const es_status status = cli_target_check(path, overwrite, err);
    if (status != ES_OK)
        return status;
    draft->temp = folder_of(path, SUFFIX);
    snprintf(draft->temp + strlen(draft->temp), SUFFIX, ".esscher-%ld-csv.tmp", (long)getpid());
    const int fd = open(draft->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    draft->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!draft->file) {
        fail_io(path, "file.create", "create", err);
        if (fd >= 0) {
            close(fd);
            unlink(draft->temp);
        }
        free(draft->temp);
        draft->temp = NULL;
        return ES_E_IO;
    }
    return ES_OK;
}

/* link() refuses, in one step, to replace a file that appeared meanwhile; where the file system
 * has no links, rename() has to do. */
static int take_final_name(const cli_draft *draft)
{
    if (!draft->overwrite && link(draft->temp, draft->path) == 0)
        return unlink(draft->temp);
    if (!draft->overwrite && errno == EEXIST)
        return -1;
    return rename(draft->temp, draft->path);
}

es_status cli_draft_publish(cli_draft *draft, es_error *err)
{
    es_status status = ES_OK;
    if (fflush(draft->file) != 0 || ferror(draft->file) || fsync(fileno(draft->file)) != 0)
        status = fail_io(draft->path, "file.write", "write", err);
    const int closed = fclose(draft->file);
    draft->file = NULL;
    if (status == ES_OK && closed != 0)
        status = fail_io(draft->path, "file.write", "write", err);
    if (status == ES_OK && take_final_name(draft) != 0)
        status = errno == EEXIST ? fail_exists(draft->path, err)
                                 : fail_io(draft->path, "file.rename", "rename", err);
    if (status == ES_OK) {
        free(draft->temp);
        draft->temp = NULL;
    }
    cli_draft_discard(draft);
    return status;
}

void cli_draft_discard(cli_draft *draft)
{
    if (draft->file)
        fclose(draft->file);
    if (draft->temp)
        unlink(draft->temp);
    free(draft->temp);
    *draft = (cli_draft){0};
}
