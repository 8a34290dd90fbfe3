/* SPDX-License-Identifier: Apache-2.0 */
/* esscher : the program. Finds the command, reads its options, runs it, prints its answer. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/executor.h>
#include <esscher/status.h>

#include "execute.h"
#include "help.h"
#include "launch.h"
#include "options.h"
#include "papers.h"
#include "talk.h"

/* Opens /dev/null for each closed standard descriptor. Otherwise the first file that the program
 * opens would get its number, and output for stdout would end up in that file. */
static void fill_closed_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

/* Returns whether the reader of a pipe has closed it, as head does after its lines. It asks the
 * descriptor, because errno of the write that failed may be overwritten. */
static bool reader_left(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

/* Flushes stdout and reports a failed write: a full disk shows only here. A closed pipe is no
 * error; the reader had enough, and run files are complete. */
static int finish_stdout(const char *command, int code)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || reader_left(STDOUT_FILENO))
        return code;
    es_error err = {0};
    cli_fail(&err, ES_E_IO, NULL, "stdout.write", "check the free space of the disk",
             "cannot write to stdout: the output is incomplete");
    cli_complain(command, &err);
    return CLI_IO;
}

/* OpenBLAS starts threads when it is loaded, and when it is unloaded waits for ever for those that
 * a limit on the address space refused it. Everything is written by now, so leave without that. */
static void leave_if_memory_is_limited(int code)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        _exit(code);
}

/* The version alone in the first line, for programs; what a report of a bug should name below. */
static void print_version(void)
{
    const es_build build = es_build_info();
    printf("esscher %s\n%s; %s\nBLAS: %s; OpenMP: %s; kernels here:", es_version(), build.compiler,
           build.flags, build.blas, build.openmp ? "yes" : "no");
    for (const char *const *name = cli_isa_choices; *name; name++) {
        es_isa isa;
        if (es_isa_parse(*name, &isa) && es_isa_available(isa))
            printf(" %s", *name);
    }
    puts("\nMore: esscher info");
}

int main(int argc, char **argv)
{
    fill_closed_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves must not kill a run that is being kept, */
    signal(SIGXFSZ, SIG_IGN); /* nor a file that may not grow: it is an error of writing */
    char **expanded = cli_paper_expand(&argc, &argv);
    const char *name = argc > 1 ? argv[1] : "";
    int code = CLI_OK;
    const cli_command *command = cli_command_find(name);
    if ((!command || !command->study) && es_launcher_seen().rank > 0) {
        code = command || name[0] == '-' ? CLI_OK : CLI_USAGE; /* rank 0 does it */
        if (code != CLI_OK)
            cli_leave_last();
    } else if (command) {
        code = cli_execute(command, argc, argv, NULL);
    } else if (argc < 2) {
        cli_help_program(stderr);
        code = CLI_USAGE;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cli_help_program(stdout);
    } else if (strcmp(name, "--version") == 0) {
        print_version();
    } else {
        es_error err;
        code = cli_exit_of(cli_command_unknown(name, &err));
        cli_complain(NULL, &err);
    }
    code = finish_stdout(command ? command->name : NULL, code);
    leave_if_memory_is_limited(code);
    free((void *)expanded);
    return code;
}
