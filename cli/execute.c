#include "execute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/machine.h>

#include "answer.h"
#include "help.h"
#include "options.h"
#include "talk.h"

/* A remark is made once, however often the library comes by what it is about. What does not fit the
 * list is made again. */
static bool said_before(const char *message)
{
    enum { MOST = 16 };
    static uint64_t said[MOST];
    uint64_t h = UINT64_C(0xcbf29ce484222325), empty;
    for (const char *c = message; *c; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (int i = 0; i < MOST; i++) {
        empty = 0;
        if (__atomic_compare_exchange_n(&said[i], &empty, h, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return false;
        if (empty == h) /* what was there */
            return true;
    }
    return false;
}

static void show_remark(void *user, es_log_level level, const char *message)
{
    const cli_session *session = user;
    char text[512];
    (void)level;
    if (said_before(message))
        return;
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

int cli_execute(const cli_command *command, int argc, char **argv, json_t **answer)
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
    int code = status == ES_E_INTERRUPTED ? cli_interrupt_exit() : cli_exit_of(status);
    /* Wherever in the library it was noticed; a command that has kept something says so itself. */
    if (status == ES_E_INTERRUPTED && (!err.message[0] || strcmp(err.rule, "exec.progress") == 0))
        cli_fail(&err, status, NULL, "", "", "interrupted; nothing was written");
    if (status != ES_OK)
        cli_complain(command->name, &err);
    else if (help)
        cli_help_command(command, stdout);
    else if (!answer)
        cli_answer_print(&session);
    if (status == ES_OK && session.check_failed)
        code = CLI_CHECK;
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    if (answer)
        *answer = status == ES_OK ? json_incref(session.answer) : NULL;
    json_decref(session.answer);
    cli_options_free(command, options);
    return code;
}
