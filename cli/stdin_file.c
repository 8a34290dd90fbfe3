/* SPDX-License-Identifier: Apache-2.0 */
#include "stdin_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "talk.h"
#include "text.h"

static const char stdin_path[] = "/dev/stdin";

/* ---- which option reads it ---- */

/* Replaces the value `-` of an option by `path` and returns how many there were; path NULL only
 * counts. */
static int replace_in(const cli_option *o, void *values, const char *path)
{
    void *field = (char *)values + o->field;
    int found = 0;
    if (o->kind == ES_PARAM_FILE) {
        const char **value = field;
        found = *value && strcmp(*value, "-") == 0;
        if (found && path)
            *value = path;
    } else if (o->kind == ES_PARAM_FILES) {
        es_texts *texts = field;
        for (int64_t i = 0; i < texts->count; i++) {
            if (strcmp(texts->at[i], "-") != 0)
                continue;
            found++;
            if (path)
                texts->at[i] = path;
        }
    }
    return found;
}

/* Applies replace_in() to all options of a command. */
static int replace_all(const cli_command *command, es_params *own, const char *path)
{
    int found = 0;
    for (const cli_option *o = command->options; o && o->name; o++)
        found += replace_in(o, es_params_values(own), path);
    return found;
}

es_status cli_stdin_check(const cli_session *session, es_params *own, es_error *err)
{
    const int count = replace_all(session->command, own, NULL);
    if (count > 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.stdin", "name files for the others",
                        "%d options read standard input (-), but only one can", count);
    if (count == 1 && !session->common.no_mpi && es_launcher_seen().ranks > 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.stdin", "write it to a file first",
                        "standard input (-) cannot be shared by several MPI ranks");
    return ES_OK;
}

/* ---- the copy ---- */

/* Fails because the copy could not be written. */
static es_status fail_copy(es_error *err)
{
    return cli_fail(err, ES_E_IO, "stdin", "file.write",
                    "set TMPDIR to a directory with free space",
                    "cannot copy standard input to a temporary file: %s", strerror(errno));
}

/* Opens a file for reading and writing in $TMPDIR or /tmp and removes its name. */
static FILE *open_nameless(void)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/esscher-stdin-XXXXXX", folder && *folder ? folder : "/tmp");
    const int fd = mkstemp(path);
    if (fd < 0)
        return NULL;
    unlink(path);
    FILE *file = fdopen(fd, "w+b");
    if (!file)
        close(fd);
    return file;
}

/* FNV-1a, as the driver hashes input files. */
static uint64_t hash_more(uint64_t h, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Copies standard input in blocks, hashes it, and puts the copy in its place. */
static es_status copy_into(FILE *copy, char *facts, size_t capacity, es_error *err)
{
    static unsigned char block[65536];
    uint64_t h = UINT64_C(0xcbf29ce484222325), size = 0;
    size_t got = sizeof block;
    while (got == sizeof block) {
        const es_status status = cli_text_read(stdin, "stdin", block, sizeof block, &got, err);
        if (status != ES_OK)
            return status;
        if (fwrite(block, 1, got, copy) != got)
            return fail_copy(err);
        h = hash_more(h, block, got);
        size += got;
    }
    if (fflush(copy) != 0 || lseek(fileno(copy), 0, SEEK_SET) != 0 ||
        dup2(fileno(copy), STDIN_FILENO) != STDIN_FILENO)
        return fail_copy(err);
    snprintf(facts, capacity, "%llu bytes, %016llx", (unsigned long long)size,
             (unsigned long long)h);
    return ES_OK;
}

es_status cli_stdin_copy(cli_session *session, es_params *own, es_error *err)
{
    if (replace_all(session->command, own, NULL) == 0)
        return ES_OK;
    FILE *copy = open_nameless();
    if (!copy)
        return fail_copy(err);
    const es_status status =
        copy_into(copy, session->stdin_facts, sizeof session->stdin_facts, err);
    fclose(copy); /* descriptor 0 keeps the file */
    if (status == ES_OK)
        replace_all(session->command, own, stdin_path);
    return status;
}
