/* SPDX-License-Identifier: Apache-2.0 */
#include "report/node.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "store/file.h"

static const char hint[] = "install nodejs, 18 or later";

/* ---- starting ---- */

/* The environment without Node.js's own variables, NODE_OPTIONS, NODE_V8_COVERAGE and the like:
 * what they ask for is not for this script. NULL-terminated, to be freed. */
static es_status clean_environment(char ***out, es_error *err)
{
    int64_t count = 0, kept = 0;
    char **all = es_system_environment();
    while (all && all[count])
        count++;
    ES_TRY(ES_MEM_NEW(NULL, *out, count + 1, "an environment", err));
    for (int64_t i = 0; i < count; i++)
        if (strncmp(all[i], "NODE_", strlen("NODE_")) != 0)
            (*out)[kept++] = all[i];
    return ES_OK;
}

/* Descriptors 0 to 3 of the child. Those of the files are 10 or more, so that none is lost under
 * another. */
static int spawn(const int fds[4], char **environment, pid_t *pid)
{
    static const char *const words[] = {"node", "--no-warnings", "-", NULL};
    char *argv[sizeof words / sizeof words[0]];
    memcpy(argv, words, sizeof words); /* posix_spawnp() changes none of them */
    posix_spawn_file_actions_t actions;
    int number = posix_spawn_file_actions_init(&actions);
    if (number != 0)
        return number;
    for (int i = 0; i < 4 && number == 0; i++)
        number = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    if (number == 0)
        number = posix_spawnp(pid, "node", &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    return number;
}

/* ---- waiting ---- */

/* Until the child has ended or the caller wants to stop; the child is reaped either way. */
static es_status wait_for(pid_t pid, es_progress_fn progress, void *user, int *how, es_error *err)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    bool stop = false;
    pid_t ended;
    while ((ended = waitpid(pid, how, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        stop = stop || (progress && progress(user, 0.0, 1.0));
        if (stop)
            kill(pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
    /* A terminal's interrupt reaches the child, too, and may end it before we ask. */
    if (stop || (progress && progress(user, 0.0, 1.0)))
        return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "",
                       "stopped while figures are drawn");
    if (ended < 0)
        return es_file_fail(err, "node", "report.node", "", "wait for", errno);
    return ES_OK;
}

/* The line that says what went wrong: "Error: ...", or the first. */
static void read_complaint(int fd, char *line, size_t size)
{
    char text[4096];
    const ssize_t got = pread(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    const char *from = strstr(text, "Error: ");
    while (from && from > text && from[-1] != '\n')
        from--;
    from = from ? from : text;
    snprintf(line, size, "%.*s", (int)strcspn(from, "\n"), from);
}

/* Fails unless Node.js ended well, with its first line of complaint. */
static es_status check_end(int how, int complaints, es_error *err)
{
    char line[200];
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return ES_OK;
    read_complaint(complaints, line, sizeof line);
    if (WIFSIGNALED(how))
        return es_fail(err, ES_E_UNSUPPORTED, "report.node", hint, "node was ended by signal %d",
                       WTERMSIG(how));
    return es_fail(err, ES_E_UNSUPPORTED, "report.node", hint, "node failed: %s",
                   *line ? line : "it does not say why");
}

/* ---- all of it ---- */

/* Runs Node.js with a clean environment and waits for it; progress may end it. */
static es_status run_child(const int fds[4], es_progress_fn progress, void *user, es_error *err)
{
    char **environment;
    pid_t pid;
    int how = 0;
    ES_TRY(clean_environment(&environment, err));
    const int number = spawn(fds, environment, &pid);
    es_mem_free(NULL, environment);
    if (number == ENOENT)
        return es_fail(err, ES_E_UNSUPPORTED, "report.node", hint,
                       "figures are drawn by Node.js, and there is no node on PATH");
    if (number != 0)
        return es_file_fail(err, "node", "report.node", hint, "start", number);
    ES_TRY(wait_for(pid, progress, user, &how, err));
    return check_end(how, fds[2], err);
}

es_status es_node_run(const es_asset *script, const es_node_files *files, es_progress_fn progress,
                      void *user, es_error *err)
{
    int code = -1, complaints = -1;
    es_status status = es_file_nameless(&code, err);
    if (status == ES_OK)
        status = es_file_nameless(&complaints, err);
    es_draft text = {.path = "the script for node", .fd = code};
    if (status == ES_OK)
        status = es_draft_write(&text, script->bytes, script->size, err);
    if (status == ES_OK && (lseek(code, 0, SEEK_SET) != 0 || lseek(files->data, 0, SEEK_SET) != 0))
        status = es_file_fail(err, text.path, "report.node", "", "rewind", errno);
    if (status == ES_OK)
        status = run_child((const int[4]){code, files->answer, complaints, files->data}, progress,
                           user, err);
    if (code >= 0)
        close(code);
    if (complaints >= 0)
        close(complaints);
    return status;
}
