/* esscher : the program. Finds the command, reads its options, runs it, prints its answer. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/status.h>

#include "answer.h"
#include "help.h"
#include "options.h"
#include "talk.h"

/* A descriptor that the caller closed would be given to the first file we open, and what is meant
 * for stdout would end up in it. Fill the gaps with one that cannot be written. */
static void fill_closed_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

static void show_remark(void *user, es_log_level level, const char *message)
{
    const cli_session *session = user;
    char text[512];
    (void)level;
    fprintf(stderr, "esscher %s: %s\n", session->command->name,
            cli_escape(message, text, sizeof text));
}

/* Kernels, threads, memory and progress for the library, as the common options say. */
static es_status start_session(cli_session *s, es_error *err)
{
    static const es_isa isas[] = {ES_ISA_PORTABLE, ES_ISA_AVX2, ES_ISA_AVX512};
    const es_isa wanted = s->common.isa < 0 ? ES_ISA_AUTO : isas[s->common.isa];
    es_isa isa;
    if (es_isa_resolve(wanted, &isa, err) != ES_OK)
        return err->code = ES_E_ARGUMENT; /* whatever the CPU lacks, it was the user who asked */
    if (!s->common.quiet)
        es_log_set(show_remark, s, s->common.verbose ? ES_LOG_DEBUG : ES_LOG_WARN);
    cli_progress_start(&s->progress, s->command->name, s->common.progress, s->common.quiet);
    const int threads = s->common.threads ? (int)s->common.threads : es_threads_available();
    s->exec = (es_exec){.threads = es_build_info().openmp ? threads : 1,
                        .isa = isa,
                        .budget = &s->budget,
                        .progress = cli_progress_tell,
                        .progress_user = &s->progress};
    s->answer = cli_answer_new(s);
    return ES_OK;
}

/* Everything that was printed must have arrived: a full disk or a reader that left shows itself
 * only now. */
static int finish_stdout(const char *command, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    es_error err = {0};
    cli_fail(&err, ES_E_IO, NULL, "stdout.write", "", "cannot write to stdout: the output is cut");
    cli_complain(command, &err);
    return CLI_IO;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    es_error err = {0};
    bool help = false;
    cli_session session = {
        .command = command, .argc = argc - 1, .argv = argv + 1, .common = cli_common_defaults};
    void *options = cli_alloc(command->size ? command->size : 1);
    if (command->defaults)
        memcpy(options, command->defaults, command->size);
    es_status status =
        cli_options_parse(command, argc - 2, argv + 2, &session.common, options, &help, &err);
    if (status == ES_OK && !help)
        status = start_session(&session, &err);
    if (status == ES_OK && !help) {
        cli_interrupt_install();
        status = command->run(&session, options, &err);
        cli_progress_wipe(&session.progress);
    }
    int code = cli_exit_of(status);
    /* Wherever in the library it was noticed; a command that has kept something says so itself. */
    if (status == ES_E_INTERRUPTED && (!err.message[0] || strcmp(err.rule, "exec.progress") == 0))
        cli_fail(&err, status, NULL, "", "", "interrupted; nothing was written");
    if (status != ES_OK)
        cli_complain(command->name, &err);
    else if (help)
        cli_help_command(command, stdout);
    else
        cli_answer_print(&session);
    if (status == ES_OK && session.check_failed)
        code = CLI_CHECK;
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    json_decref(session.answer);
    cli_options_free(command, options);
    return code;
}

/* OpenBLAS starts threads when it is loaded, and when it is unloaded waits for ever for those that
 * a limit on the address space refused it. Everything is written by now, so leave without that. */
static void leave_if_memory_is_limited(int code)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        _exit(code);
}

int main(int argc, char **argv)
{
    fill_closed_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves is an error of fflush, not our death, */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    json_set_alloc_funcs(cli_alloc, free);
    const char *name = argc > 1 ? argv[1] : "";
    int code = CLI_OK;
    const cli_command *command = cli_command_find(name);
    if (command) {
        code = run_command(command, argc, argv);
    } else if (argc < 2) {
        cli_help_program(stderr);
        code = CLI_USAGE;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        cli_help_program(stdout);
    } else if (strcmp(name, "--version") == 0) {
        printf("esscher %s\n", es_version());
    } else if (strcmp(name, "help") == 0) {
        code = cli_help_run(argc - 2, argv + 2);
    } else {
        code = cli_help_unknown(name);
    }
    code = finish_stdout(command ? command->name : NULL, code);
    leave_if_memory_is_limited(code);
    return code;
}
