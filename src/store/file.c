/* SPDX-License-Identifier: Apache-2.0 */
/* file.c : reads regular files, writes files that are either complete or absent, recognises other
 * formats and network file systems. */
#include "store/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "store/checksum.h"

es_status es_file_fail(es_error *err, const char *path, const char *rule, const char *hint,
                       const char *verb, int number)
{
    char text[96];
    if (strerror_r(number, text, sizeof text) != 0)
        snprintf(text, sizeof text, "error %d", number);
    return es_fail_file(err, ES_E_IO, path, -1, rule, hint, "cannot %s: %s", verb, text);
}

/* Names what a file is instead of a regular one. */
static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "no regular file";
}

bool es_file_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- reading ---- */

es_status es_file_open(const char *path, es_file *out, es_error *err)
{
    *out = (es_file){.fd = -1, .path = path};
    if (!path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    /* O_NONBLOCK: a FIFO without a writer must be refused below, not waited for. */
    int fd;
    do
        fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR); /* as file systems of a network may */
    if (fd < 0)
        return es_file_fail(err, path, "file.open", "check the name and its permissions", "open",
                            errno);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        const int number = errno;
        close(fd);
        return es_file_fail(err, path, "file.open", "", "examine", number);
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return es_fail_file(err, ES_E_IO, path, -1, "file.regular", "name a regular file",
                            "cannot read: it is %s", kind_of_file(st.st_mode));
    }
    out->fd = fd;
    out->size = (uint64_t)st.st_size;
    return ES_OK;
}

es_status es_file_examine(const char *path, uint64_t *size, es_error *err)
{
    struct stat st;
    if (!path || !*path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    if (stat(path, &st) != 0)
        return es_file_fail(err, path, "file.open", "check the name and its permissions", "open",
                            errno);
    if (!S_ISREG(st.st_mode))
        return es_fail_file(err, ES_E_IO, path, -1, "file.regular", "name a regular file",
                            "cannot read: it is %s", kind_of_file(st.st_mode));
    *size = (uint64_t)st.st_size;
    return ES_OK;
}

es_status es_file_read(const es_file *file, uint64_t offset, void *out, size_t size, es_error *err)
{
    char *to = out;
    while (size > 0) {
        const ssize_t got = pread(file->fd, to, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return es_file_fail(err, file->path, "file.read", "", "read", errno);
        if (got == 0)
            return es_fail_file(err, ES_E_IO, file->path, (int64_t)offset, "file.changed",
                                "wait until no other program writes to it",
                                "the file became shorter while it was read");
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return ES_OK;
}

es_status es_file_move(int fd, const char *path, uint64_t at, void *data, size_t size, bool writing,
                       es_error *err)
{
    char *bytes = data;
    while (size > 0) {
        const ssize_t moved =
            writing ? pwrite(fd, bytes, size, (off_t)at) : pread(fd, bytes, size, (off_t)at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved < 0 ? es_file_fail(err, path, writing ? "file.write" : "file.read",
                                            writing ? "is the disk full?" : "",
                                            writing ? "write" : "read", errno)
                             : es_fail_file(err, ES_E_IO, path, (int64_t)at, "file.changed", "",
                                            "the file has become shorter");
        bytes += moved;
        at += (uint64_t)moved;
        size -= (size_t)moved;
    }
    return ES_OK;
}

void es_file_close(es_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

es_status es_file_load(const char *path, uint64_t most, es_mem_limit *budget, void **out,
                       size_t *size, es_error *err)
{
    es_file file;
    *out = NULL;
    *size = 0;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    if (file.size > most || file.size >= SIZE_MAX)
        status = es_fail_file(err, ES_E_LIMIT, path, -1, "file.size", "is it the file you meant?",
                              "the file has %llu bytes; the most accepted is %llu",
                              (unsigned long long)file.size, (unsigned long long)most);
    if (status == ES_OK)
        status = ES_MEM_BYTES(budget, *out, (size_t)file.size + 1, path, err);
    if (status == ES_OK)
        status = es_file_read(&file, 0, *out, (size_t)file.size, err);
    if (status == ES_OK) {
        *size = (size_t)file.size;
    } else {
        es_mem_free(budget, *out);
        *out = NULL;
    }
    es_file_close(&file);
    return status;
}

/* ---- writing ---- */

/* Fails because the output exists. */
static es_status fail_exists(es_error *err, const char *path)
{
    return es_fail_file(err, ES_E_EXISTS, path, -1, "file.exists",
                        "choose another name, or overwrite it with --force",
                        "the file exists already");
}

/* Length of the folder part of a path with its slash: 4 for "a/b/c", 0 for "c". */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Fails unless `path` may be created or replaced. A device or a directory must never be renamed
 * over, and finding an existing file now saves the user the whole computation. */
static es_status check_target(const char *path, bool overwrite, es_error *err)
{
    struct stat st;
    if (!path || !*path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return es_fail_file(err, ES_E_IO, path, -1, "file.regular", "name a regular file",
                            "cannot write: it is %s", kind_of_file(st.st_mode));
    if (!overwrite && lstat(path, &st) == 0)
        return fail_exists(err, path);
    return ES_OK;
}

es_status es_file_may_create(const char *path, bool overwrite, es_error *err)
{
    ES_TRY(check_target(path, overwrite, err));
    const size_t length = folder_length(path);
    char *folder;
    ES_TRY(ES_MEM_BYTES(NULL, folder, length + 2, "a file name", err));
    memcpy(folder, length ? path : ".", length ? length : 1);
    const int number = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    es_mem_free(NULL, folder);
    return number ? es_file_fail(err, path, "file.create",
                                 "check that the folder exists and is writable", "create", number)
                  : ES_OK;
}

/* ---- drafts ----
 *
 * A draft is named .esscher-OWNER-PROCESS-SERIAL.tmp. A killed process leaves it behind, and
 * the next write of the same file removes it. */

enum { OWNER = 32, DRAFT_NAME = 80 };

/* Sixteen digits for the name of the file, the host and its processes: process numbers of another
 * machine or container mean nothing here. */
static void draft_owner(const char *base, char out[OWNER])
{
    char host[256] = "", processes[64] = "";
    gethostname(host, sizeof host - 1);
    if (readlink("/proc/self/ns/pid", processes, sizeof processes - 1) < 0)
        processes[0] = '\0'; /* a system without containers */
    const uint64_t hash = es_crc_text(es_crc_text(es_crc_text(0, host), processes), base);
    snprintf(out, OWNER, ".esscher-%016llx-", (unsigned long long)hash);
}

/* Returns whether it is a draft, named after `owner`, of a process that has ended. */
static bool is_abandoned(int folder, const char *name, const char *owner)
{
    struct stat st;
    const size_t length = strlen(owner);
    char *end;
    if (strncmp(name, owner, length) != 0)
        return false;
    const char *digits = name + length;
    const long process = strtol(digits, &end, 10);
    const size_t serial = *end == '-' ? strspn(end + 1, "0123456789") : 0;
    return *digits >= '1' && *digits <= '9' && serial > 0 && process <= INT32_MAX &&
           (strcmp(end + 1 + serial, ".tmp") == 0 ||
            strcmp(end + 1 + serial, ".tmp-journal") == 0) && /* SQLite's, of a run file */
           kill((pid_t)process, 0) != 0 &&
           errno == ESRCH && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

/* Drafts that cannot be examined or removed stay: they do no harm. */
static void remove_abandoned(const char *folder, const char *owner)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_abandoned(dirfd(dir), entry->d_name, owner))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

es_status es_draft_open(const char *path, bool overwrite, es_draft *out, es_error *err)
{
    static unsigned serial; /* two threads saving into one folder get two names */
    enum { TRIES = 100 };
    char owner[OWNER];
    *out = (es_draft){.path = path, .fd = -1, .overwrite = overwrite};
    ES_TRY(check_target(path, overwrite, err));

    const size_t folder = folder_length(path);
    ES_TRY(ES_MEM_BYTES(NULL, out->temp, folder + DRAFT_NAME, "a file name", err));
    memcpy(out->temp, path, folder);
    draft_owner(path + folder, owner);
    remove_abandoned(folder ? out->temp : ".", owner);
    for (int i = 0; i < TRIES && out->fd < 0; i++) {
        const unsigned n = __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
        snprintf(out->temp + folder, DRAFT_NAME, "%s%ld-%u.tmp", owner, (long)getpid(), n);
        out->fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0 && errno != EEXIST)
            break;
    }
    if (out->fd < 0) {
        const int number = errno;
        es_mem_free(NULL, out->temp);
        out->temp = NULL;
        return es_file_fail(err, path, "file.create",
                            "check that the folder exists and is writable", "create", number);
    }
    return ES_OK;
}

es_status es_draft_write(es_draft *draft, const void *data, size_t size, es_error *err)
{
    const char *from = data;
    while (size > 0) {
        const ssize_t put = write(draft->fd, from, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return es_file_fail(err, draft->path, "file.write", "check the space left on the disk",
                                "write", errno);
        from += put;
        size -= (size_t)put;
    }
    return ES_OK;
}

/* Give the draft its final name. link() is the one call that refuses, atomically, to replace a
 * file that appeared meanwhile; where the file system has no links we look and rename. */
static int take_final_name(const es_draft *draft)
{
    if (!draft->overwrite) {
        if (link(draft->temp, draft->path) == 0) {
            unlink(draft->temp); /* should this fail, a hidden second name remains: no harm */
            return 0;
        }
        struct stat st;
        if (errno == EEXIST || lstat(draft->path, &st) == 0) {
            errno = EEXIST;
            return -1;
        }
    }
    return rename(draft->temp, draft->path);
}

/* Make the new name itself durable. Some file systems cannot sync a folder; the file is whole
 * either way, so that is not a failure. */
static void sync_folder(const es_draft *draft)
{
    const size_t folder = folder_length(draft->temp);
    const char kept = draft->temp[folder];
    draft->temp[folder] = '\0';
    const int fd = open(folder ? draft->temp : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    draft->temp[folder] = kept;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

es_status es_draft_publish(es_draft *draft, es_error *err)
{
    es_status status = ES_OK;
    if (!draft->hasty && es_system_flush(draft->fd) != 0)
        status = es_file_fail(err, draft->path, "file.write", "check the space left on the disk",
                              "write", errno);
    const int closed = close(draft->fd); /* a network file system may report a full disk here */
    draft->fd = -1;
    if (status == ES_OK && closed != 0)
        status = es_file_fail(err, draft->path, "file.write", "check the space left on the disk",
                              "write", errno);
    if (status == ES_OK && take_final_name(draft) != 0)
        status = errno == EEXIST
                     ? fail_exists(err, draft->path)
                     : es_file_fail(err, draft->path, "file.rename", "", "rename", errno);
    if (status == ES_OK) {
        if (!draft->hasty)
            sync_folder(draft);
        es_mem_free(NULL, draft->temp);
        draft->temp = NULL;
    }
    es_draft_discard(draft);
    return status;
}

void es_draft_discard(es_draft *draft)
{
    if (draft->fd >= 0)
        close(draft->fd);
    draft->fd = -1;
    if (draft->temp)
        unlink(draft->temp);
    es_mem_free(NULL, draft->temp);
    draft->temp = NULL;
}

es_status es_file_store(const char *path, bool overwrite, const void *data, size_t size,
                        es_error *err)
{
    es_draft draft;
    ES_TRY(es_draft_open(path, overwrite, &draft, err));
    es_status status = es_draft_write(&draft, data, size, err);
    if (status == ES_OK)
        status = es_draft_publish(&draft, err);
    es_draft_discard(&draft);
    return status;
}

/* ---- recognising other formats ---- */

#define SAVE "save arrays one by one with np.save, weights with safetensors.torch.save_file"

/* A string of first bytes, which may hold zeros, and how many they are. */
#define BYTES(text) (text), sizeof(text) - 1

static const struct {
    char bytes[ES_FOREIGN_PREFIX]; /* a compiler refuses longer ones */
    size_t size;
    es_foreign file;
} known[] = {
    {BYTES("PK\x03\x04"), {"a zip archive, perhaps an .npz, or a .bin or .pt of PyTorch", SAVE}},
    {BYTES("PK\x05\x06"), {"an empty zip archive", SAVE}},
    {BYTES("\x89HDF\r\n\x1a\n"), {"an HDF5 file, perhaps of Keras", SAVE}},
    {BYTES("GGUF"), {"a GGUF model file", "it is a whole model: name it with --model"}},
    {BYTES("GGML"), {"a GGML model file", "use the checkpoint it was made from, in safetensors"}},
    {BYTES("\x93NUMPY"), {"an .npy file", "weights come as safetensors"}},
    {BYTES("\x1f\x8b"), {"gzip data", "unpack it with gunzip first"}},
    {BYTES("\x28\xb5\x2f\xfd"), {"zstd data", "unpack it with unzstd first"}},
    {BYTES("version https://git-lfs"), {"a Git LFS pointer", "git lfs pull"}},
    {BYTES("<!DOCTYPE html"), {"a web page", "download the file itself"}},
};

es_foreign es_foreign_of(const unsigned char *bytes, size_t have)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (have >= known[i].size && memcmp(bytes, known[i].bytes, known[i].size) == 0)
            return known[i].file;
    if (have >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5)
        return (es_foreign){"a Python pickle, perhaps a .bin or .pt of old",
                            "a pickle runs code when it is read; " SAVE};
    return (es_foreign){NULL, ""};
}

/* ---- network file systems ---- */

/* As in linux/magic.h, which does not have all of them. FUSE and 9P may be local; they do not say.
 */
static const struct {
    uint32_t type;
    const char *name;
} networks[] = {{0x6969, "NFS"},        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
                {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},    {0x517b, "SMB"},
                {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},    {0x6b414653, "AFS"},
                {0x19830326, "BeeGFS"}, {0x20030528, "PVFS"},   {0x73757245, "Coda"},
                {0x65735546, "FUSE"},   {0x01021997, "9P"},     {0x7461636f, "OCFS2"},
                {0x01161970, "GFS2"},   {0xaad7aaea, "PanFS"}};

/* Returns the name for the type that statfs() gives; NULL if it is not in the list. */
static const char *network_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (networks[i].type == type)
            return networks[i].name;
    return NULL;
}

const char *es_network_of(int fd) { return network_name(es_system_volume(fd)); }
