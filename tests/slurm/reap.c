/* SPDX-License-Identifier: Apache-2.0 */
/* reap COMMAND [argument...] : runs COMMAND, and is the parent of all processes that it orphans.
 *
 * Slurm (proctrack/pgid) takes a job for ended when nobody is left in its process groups, and the
 * dead count until their parent asks for them. In a container the first process, to whom orphans
 * fall, may do so late or never: jobs then end seconds late, or never. Exit code: that of COMMAND.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t command; /* its process */

static void hand_on(int signal)
{
    if (command > 0)
        kill((pid_t)command, signal);
}

int main(int count, char **arguments)
{
    if (count < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        fprintf(stderr, "usage: reap COMMAND [argument...], on Linux\n");
        return 2;
    }
    command = (sig_atomic_t)fork();
    if (command == 0) {
        execvp(arguments[1], arguments + 1);
        perror(arguments[1]);
        _exit(127);
    }
    signal(SIGTERM, hand_on);
    signal(SIGINT, hand_on);
    int status = 0;
    for (pid_t dead; (dead = wait(&status)) != (pid_t)command;)
        if (dead < 0 && errno != EINTR)
            return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
