/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c : runs one command: options, other ranks, library settings, the run itself, the
 * answer, and the exit code. */
#include "execute.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/format.h>
#include <esscher/machine.h>

#include "help.h"
#include "launch.h"
#include "options.h"
#include "shell_words.h"
#include "stdin_file.h"
#include "talk.h"

/* Returns true if a warning was printed before: the library may issue the same one many times.
 * Warnings beyond the list are printed again. */
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
        if (empty == h) /* the slot's old value */
            return true;
    }
    return false;
}

/* Prints a message of the library, once. Ranks other than 0 print only errors, because all ranks
 * issue the same warnings. */
static void show_remark(void *user, es_log_level level, const char *message)
{
    cli_session *session = user;
    char text[512], who[96] = "";
    /* what a rank remarks the others remark, too */
    if ((session->silent && level != ES_LOG_ERROR && !session->common.verbose) ||
        said_before(message))
        return;
    if (session->silent && session->fabric)
        snprintf(who, sizeof who, "rank %d on %.60s: ", session->fabric->rank,
                 session->fabric->host(session->fabric, session->fabric->rank));
    cli_progress_wipe(&session->progress);
    fprintf(stderr, "esscher %s: %s%s\n", session->command->name, who,
            cli_escape(message, text, sizeof text));
}

/* Kernels, threads, memory and progress for the library, as the common options say. */
static es_status start_session(cli_session *s, es_error *err)
{
    static const es_isa isas[] = {ES_ISA_PORTABLE, ES_ISA_AVX2, ES_ISA_AVX512, ES_ISA_NEON};
    const es_isa wanted = s->common.isa < 0 ? ES_ISA_AUTO : isas[s->common.isa];
    es_isa isa;
    if (s->command->common == 0)
        isa = ES_ISA_PORTABLE; /* whatever ESSCHER_ISA says, help is given */
    else if (es_isa_resolve(wanted, &isa, err) != ES_OK)
        return err->code = ES_E_ARGUMENT; /* the CPU does not have what the user asked for */
    es_log_set(show_remark, s,
               s->common.quiet     ? ES_LOG_ERROR
               : s->common.verbose ? ES_LOG_DEBUG
                                   : ES_LOG_WARN);
    cli_progress_start(&s->progress, s->command->name,
                       s->silent ? CLI_PROGRESS_NEVER : s->common.progress, s->common.quiet);
    const int threads = s->common.threads ? (int)s->common.threads : cli_ranks_threads(s);
    s->exec = (es_exec){.threads = es_build_info().openmp ? threads : 1,
                        .isa = isa,
                        .budget = &s->budget,
                        .progress = cli_progress_report,
                        .progress_user = &s->progress,
                        .executor = s->executor};
    cli_ranks_say(s);
    return ES_OK;
}

/* ---- studies ---- */

/* Prints the memory bound before work begins. */
static void say_cost(void *user, const es_cost *cost)
{
    cli_session *s = user;
    const es_format_form bytes = {.format = ES_FORMAT_BYTES};
    const double bound = cost->input_bytes + cost->output_bytes + cost->work_bytes;
    char text[ES_FORMAT_SIZE];
    cli_progress_wipe(&s->progress);
    if (!s->common.quiet && !s->silent)
        fprintf(stderr, "esscher %s: memory bound %s, %.3g operations\n", s->command->name,
                es_format_put(bytes, bound, (double)NAN, text, sizeof text), cost->flops);
}

/* Passes progress to the terminal; true asks the library to stop. */
static bool show_progress(void *user, const es_progress *now)
{
    cli_session *s = user;
    return cli_progress_phase(&s->progress, now->phase, now->share, now->kept);
}

/* "3/16" */
static es_status read_shard(const char *text, int64_t *shard, int64_t *shards, es_error *err)
{
    long long at = 0, of = 0;
    char rest;
    *shard = *shards = 0;
    if (!text)
        return ES_OK;
    if (text[strspn(text, "0123456789/")] ||
        sscanf(text, "%18lld/%18lld%c", &at, &of, &rest) != 2 || at < 1 || at > of)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value",
                        "four shards are 1/4, 2/4, 3/4 and 4/4",
                        "--shard \"%s\" is not I/K with 1 <= I <= K", text);
    *shard = at;
    *shards = of;
    return ES_OK;
}

/* Runs a study with the common options and adds the command line to its provenance. */
static es_status run_study(cli_session *s, es_params *own, es_error *err)
{
    int64_t shard, shards;
    if (read_shard(s->common.shard, &shard, &shards, err) != ES_OK)
        return err->code;
    char *line = cli_shell_join(s->argc, (const char *const *)s->argv);
    const es_study_opts opts = {.seed = s->common.seed,
                                .precision = s->common.precision < 0    ? (es_dtype)0
                                             : s->common.precision == 1 ? ES_F64
                                                                        : ES_F32,
                                .exec = s->exec,
                                .max_memory = (size_t)s->common.max_memory,
                                .dry_run = s->common.dry_run,
                                .out = s->common.out,
                                .resume = s->common.resume,
                                .force = s->common.force,
                                .shard = shard,
                                .shards = shards,
                                .line = line,
                                .progress = show_progress,
                                .admitted = say_cost,
                                .user = s};
    const es_status status = es_study_run(s->command->study, own, &opts, &s->result, err);
    free(line);
    if (status != ES_OK || !s->result) /* the answer is rank 0's */
        return status;
    cli_ranks_facts(s, s->result);
    es_answer_provenance_list(s->result, "argv", (const char *const *)s->argv, s->argc);
    if (s->stdin_facts[0])
        es_answer_provenance(s->result, "stdin", s->stdin_facts);
    s->check_failed = es_answer_check_failed(s->result);
    return ES_OK;
}

/* ---- any command ---- */

es_answer *cli_result(cli_session *session)
{
    es_error err;
    if (!session->result) {
        if (es_answer_new(NULL, &session->result, &err) != ES_OK) {
            cli_complain(session->command->name, &err);
            exit(CLI_LIMIT);
        }
        es_answer_name(session->result, session->command->name, -1);
        es_answer_machine(session->result, &session->exec);
        es_answer_provenance_list(session->result, "argv", (const char *const *)session->argv,
                                  session->argc);
        if (session->stdin_facts[0])
            es_answer_provenance(session->result, "stdin", session->stdin_facts);
    }
    return session->result;
}

es_dtype cli_kernels(const cli_session *session)
{
    return session->common.precision == 1 ? ES_F64 : ES_F32;
}

es_status cli_admit(cli_session *session, const es_cost *cost, bool *done, es_error *err)
{
    *done = session->common.dry_run;
    if (*done)
        return es_cost_report(cost, &session->exec, cli_kernels(session), cli_result(session), err);
    say_cost(session, cost);
    return es_cost_admit(cost, (size_t)session->common.max_memory, &session->budget, err);
}

/* Runs a command with signals caught and standard input copied if an option names it. */
static es_status run_command(cli_session *s, es_params *own, es_error *err)
{
    cli_interrupt_install();
    es_status status = cli_stdin_copy(s, own, err);
    if (status == ES_OK)
        status = s->command->study ? run_study(s, own, err)
                                   : s->command->run(s, es_params_values(own), err);
    cli_progress_wipe(&s->progress);
    return status;
}

/* Runs a command from its options to its answer. Joins the other ranks, if there are any; a
 * failure before the run is shared with them, because they would wait for this rank. */
static es_status run_session(cli_session *s, es_params *own, cli_tour_step *step, es_error *err)
{
    const bool together = s->command->study && !step;
    es_status status = cli_stdin_check(s, own, err);
    if (status == ES_OK && together)
        status = cli_ranks_join(s, err);
    if (status != ES_OK)
        return status;
    status = start_session(s, err);
    if (step)
        cli_progress_within(&s->progress, step->tour, step->from, step->to);
    if (status != ES_OK)
        return es_work_agree(&(es_exec){.executor = s->executor}, status, "", err);
    return run_command(s, own, err);
}

int cli_execute(const cli_command *command, int argc, char **argv, cli_tour_step *step)
{
    es_error err = {0};
    cli_help_kind help = CLI_HELP_NONE;
    cli_session session = {.command = command, .argc = argc - 1, .argv = argv + 1};
    cli_options options;
    es_status status = cli_options_parse(command, argc - 2, argv + 2, &options, &help, &err);
    if (options.common)
        session.common = *(const cli_common *)es_params_values(options.common);
    session.silent = !cli_speaks(&session.common);
    if (status == ES_OK && !help)
        status = run_session(&session, options.own, step, &err);
    int code = status == ES_E_INTERRUPTED ? cli_interrupt_exit() : cli_exit_of(status);
    /* Wherever in the library it was noticed; a command that has kept something says so itself. */
    if (status == ES_E_INTERRUPTED && (!err.message[0] || strcmp(err.rule, "exec.progress") == 0))
        cli_fail(&err, status, NULL, "", "", "interrupted; nothing was written");
    if (session.silent && status != ES_OK && !session.fabric)
        cli_leave_last();
    if (status != ES_OK && cli_ranks_says(&session, &err))
        cli_complain(command->name, &err);
    if (status != ES_OK || session.silent)
        session.printed = true; /* or never will be */
    else if (help)
        (help == CLI_HELP_SHORT ? cli_help_short : cli_help_command)(command, stdout);
    else if (!step && !session.printed)
        cli_print(&session);
    code = session.print_failed ? CLI_USAGE : code;
    if (status == ES_OK && session.check_failed)
        code = CLI_CHECK;
    code = session.code ? session.code : code;
    cli_ranks_leave(&session, status == ES_OK, code);
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    if (step)
        step->answer = status == ES_OK ? session.result : NULL;
    if (!step || status != ES_OK)
        es_answer_free(session.result);
    cli_options_free(&options);
    return code;
}
