/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h : a temporary folder for tests that write files. */
#ifndef ES_TESTS_FOLDER_H
#define ES_TESTS_FOLDER_H

#include "testing.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256], path_of_file[512]; /* the folder; the last path asked for */

static inline const char *in_folder(const char *name)
{
    snprintf(path_of_file, sizeof path_of_file, "%s/%s", folder, name);
    return path_of_file;
}

static inline int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/esscher-npy-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

int setreuid(uid_t real, uid_t effective); /* XSI, which is not asked for elsewhere */

static bool was_root __attribute__((unused));

/* Root may read and write everything, so as root a test becomes somebody else for a while, in
 * access()'s eyes as well. */
static inline void drop_rights(void)
{
    assert_int_equal(chmod(folder, 0755), 0);
    was_root = geteuid() == 0;
    if (was_root) {
        assert_int_equal(setreuid(65534, (uid_t)-1), 0);
        assert_int_equal(seteuid(65534), 0);
    }
}

static inline void regain_rights(void)
{
    if (was_root) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setreuid(0, 0), 0);
    }
}

/* How many entries the folder has, hidden drafts included; they are removed if asked. */
static inline int count_files(bool clear)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            count++;
            if (clear)
                remove(in_folder(entry->d_name));
        }
    }
    if (dir)
        closedir(dir);
    return count;
}

static inline int remove_folder(void **state)
{
    (void)state;
    count_files(true);
    return rmdir(folder);
}

static inline const char *write_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path_of_file;
}

#endif
