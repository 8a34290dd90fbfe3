/* SPDX-License-Identifier: Apache-2.0 */
/* main.c : the main program of a module's tests. Each tests/MODULE/test_FILE.c is one group of
 * tests, which TEST_FILE(FILE) puts on the list here before main() starts.
 *
 *   test_MODULE                    runs all files, each in a process of its own
 *   test_MODULE --only FILE        runs one file without its optional tests (optional_test)
 *   test_MODULE --only FILE.TEST   runs one test
 *   test_MODULE --list             prints the names of the files
 *
 * Exit code 0: passed, 1: failed, 2: wrong usage, 77: a test was skipped, 128 + N: signal N. */
#include "testing.h"

#include <sys/wait.h>
#include <unistd.h>

static struct test_file *files;

void list_test_file(struct test_file *file)
{
    file->next = files;
    files = file;
}

static int run_one(const char *only)
{
    const size_t length = strcspn(only, ".");
    for (struct test_file *file = files; file; file = file->next)
        if (strlen(file->name) == length && strncmp(file->name, only, length) == 0)
            return file->run(only[length] ? only + length + 1 : "-");
    fprintf(stderr, "no file of tests is called '%.*s'; see --list\n", (int)length, only);
    return 2;
}

/* A file may change limits of its process, open files or signals: the next one starts afresh. */
static int run_in_child(const struct test_file *file)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        exit(file->run(NULL));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_all(void)
{
    int worst = 0;
    for (struct test_file *file = files; file; file = file->next) {
        const int code = run_in_child(file);
        if (code != 0 && code != 77)
            fprintf(stderr, "%s failed (exit code %d)\n", file->name, code);
        if (code != 0 && (worst == 0 || worst == 77))
            worst = code;
    }
    return worst;
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return run_all();
    if (argc == 3 && strcmp(argv[1], "--only") == 0)
        return run_one(argv[2]);
    if (argc != 2 || strcmp(argv[1], "--list") != 0) {
        fprintf(stderr, "usage: %s [--list | --only FILE | --only FILE.TEST]\n", argv[0]);
        return 2;
    }
    for (struct test_file *file = files; file; file = file->next)
        puts(file->name);
    return 0;
}
