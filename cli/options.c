/* SPDX-License-Identifier: Apache-2.0 */
/* options.c : parses a command line: the command's own options, the common ones and operands.
 * Errors name the nearest option. */
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launch.h"
#include "talk.h"

static const char *const precisions[] = {"f32", "f64", NULL};
static const char *const formats[] = {"text", "markdown", "csv", "json", "latex", NULL};
static const char *const progresses[] = {"auto", "always", "never", NULL};
const char *const cli_isa_choices[] = {"portable", "avx2", "avx512", "neon", NULL};

/* The common options, each under the bit by which a command takes it. */
static const struct {
    unsigned bit;
    cli_option option;
} common_options[] = {
    {CLI_TAKES_THREADS,
     {"threads", 't', CLI_WHOLE, "N",
      "number of threads (default: all processors). Results do not depend on it, to the last bit",
      .field = offsetof(cli_common, threads), .min = 1, .max = 1024}},
    {CLI_TAKES_PRECISION,
     {"precision", 0, CLI_CHOICE, "f32|f64", "precision of the attention kernels (default: f32)",
      .field = offsetof(cli_common, precision), .choices = precisions}},
    {CLI_TAKES_ISA,
     {"isa", 0, CLI_CHOICE, "NAME",
      "instruction set of the kernels: portable, avx2, avx512 or neon "
      "(default: the best of this CPU, or the environment variable ESSCHER_ISA)",
      .field = offsetof(cli_common, isa), .choices = cli_isa_choices}},
    {CLI_TAKES_SEED,
     {"seed", 0, CLI_SEED, "N", "seed of every random number (default: 0)",
      .field = offsetof(cli_common, seed)}},
    {CLI_TAKES_RUN,
     {"out", 'o', ES_PARAM_OUTPUT, "RUN",
      "run file (SQLite): stores each result as soon as it is computed",
      .field = offsetof(cli_common, out)}},
    {CLI_TAKES_RUN,
     {"resume", 0, CLI_FLAG, NULL,
      "continue the run file of --out, or start it if it does not exist",
      .field = offsetof(cli_common, resume)}},
    {CLI_TAKES_RUN,
     {"force", 0, CLI_FLAG, NULL, "overwrite existing output files",
      .field = offsetof(cli_common, force)}},
    {CLI_TAKES_RUN,
     {"shard", 0, CLI_STRING, "I/K",
      "compute part I of K of the work, 1 <= I <= K, into the run file of --out; esscher merge "
      "joins the files of all shards (default: all cells)",
      .field = offsetof(cli_common, shard)}},
    {CLI_TAKES_MEMORY,
     {"max-memory", 0, CLI_BYTES, "SIZE",
      "refuse to start, with exit code 5, when the memory "
      "bound is above SIZE bytes; suffixes K, M, G, T (default: no limit)",
      .field = offsetof(cli_common, max_memory)}},
    {CLI_TAKES_DRY_RUN,
     {"dry-run", 0, CLI_FLAG, NULL, "print the cost in operations, seconds and bytes, and stop",
      .field = offsetof(cli_common, dry_run)}},
    {CLI_TAKES_RANKS,
     {"mpi", 0, CLI_FLAG, NULL,
      "share the work with the other MPI processes (default: if mpirun or srun started more than "
      "one)",
      .field = offsetof(cli_common, mpi)}},
    {CLI_TAKES_RANKS,
     {"no-mpi", 0, CLI_FLAG, NULL,
      "run without MPI, even under mpirun or srun; the environment variable ESSCHER_NO_MPI=1 does "
      "the same",
      .field = offsetof(cli_common, no_mpi)}},
    {CLI_TAKES_RANKS,
     {"expect-ranks", 0, CLI_WHOLE, "N", "refuse to start unless N processes share the work",
      .field = offsetof(cli_common, expect_ranks), .min = 1, .max = 1e6}},
    {CLI_TAKES_RANKS,
     {"rank-timeout", 0, CLI_NUMBER, "SECONDS",
      "stop if another process has not answered for this long; 0: never",
      .field = offsetof(cli_common, rank_timeout), .default_value = "60", .min = 0, .max = 1e6}},
    {CLI_TAKES_FORMAT,
     {"format", 0, CLI_CHOICE, "FORM",
      "output format: text, markdown, latex, csv (the main table, full precision) or json "
      "(everything) (default: text)",
      .field = offsetof(cli_common, format), .choices = formats}},
    {CLI_TAKES_FORMAT,
     {"json", 0, CLI_FLAG, NULL, "short for --format json", .field = offsetof(cli_common, json)}},
    {CLI_TAKES_FORMAT,
     {"csv", 0, CLI_FLAG, NULL, "short for --format csv", .field = offsetof(cli_common, csv)}},
    {CLI_TAKES_FORMAT,
     {"markdown", 0, CLI_FLAG, NULL, "short for --format markdown",
      .field = offsetof(cli_common, markdown)}},
    {CLI_TAKES_FORMAT,
     {"full", 0, CLI_FLAG, NULL, "print every table with all columns and rows",
      .field = offsetof(cli_common, full)}},
    {CLI_TAKES_HEADS,
     {"layer", 0, CLI_COUNTS, "LIST", "print only the rows of these layers: 3 or 0,1",
      .field = offsetof(cli_common, layers), .min = 0, .max = 65536}},
    {CLI_TAKES_HEADS,
     {"head", 0, CLI_COUNTS, "LIST", "print only the rows of these heads: 5 or 0,11",
      .field = offsetof(cli_common, heads), .min = 0, .max = 65536}},
    {CLI_TAKES_ROWS,
     {"sort", 0, CLI_STRING, "KEY",
      "sort rows by a column, named by its CSV key or title; -KEY: largest first",
      .field = offsetof(cli_common, sort)}},
    {CLI_TAKES_ROWS,
     {"top", 0, CLI_WHOLE, "N", "print the first N rows of a table (default: 40 in text, else all)",
      .field = offsetof(cli_common, top), .min = 1, .max = 1e12}},
    {CLI_TAKES_FORMAT,
     {"quiet", 0, CLI_FLAG, NULL, "print only errors and warnings to stderr",
      .field = offsetof(cli_common, quiet)}},
    {CLI_TAKES_FORMAT,
     {"verbose", 0, CLI_FLAG, NULL, "print more to stderr",
      .field = offsetof(cli_common, verbose)}},
    {CLI_TAKES_PROGRESS,
     {"progress", 0, CLI_CHOICE, "WHEN",
      "progress on stderr: auto, always or never (default: "
      "auto, on a terminal and after one second)",
      .field = offsetof(cli_common, progress), .choices = progresses}},
};

void cli_options_of(const cli_command *command, cli_option_list *out)
{
    *out = (cli_option_list){0};
    const int capacity = (int)(sizeof out->at / sizeof out->at[0]);
    for (const cli_option *o = command->options; o && o->name && out->count < capacity; o++)
        out->at[out->count++].option = o;
    for (size_t i = 0; i < sizeof common_options / sizeof common_options[0]; i++) {
        if ((command->common & common_options[i].bit) && out->count < capacity) {
            out->at[out->count].option = &common_options[i].option;
            out->at[out->count++].common = true;
        }
    }
}

/* The common options as one list, for es_params_new(). */
static const es_param *common_list(void)
{
    enum { COUNT = sizeof common_options / sizeof common_options[0] };
    static es_param list[COUNT + 1];
    for (int i = 0; i < COUNT; i++)
        list[i] = common_options[i].option;
    return list;
}

/* ---- the whole line ---- */

/* A command line under way. */
typedef struct reading {
    const cli_command *command;
    cli_option_list list;
    int argc, at; /* the word being read */
    char **argv;
    cli_options *into;
} reading;

/* The name in "--name", "--name=value" or "-x", as an option of the command calls it; false if it
 * has none of that name. */
static bool find_option(const reading *r, const char *arg, char name[64], bool *common)
{
    snprintf(name, 64, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    for (int i = 0; i < r->list.count; i++) {
        const cli_option *o = r->list.at[i].option;
        if (arg[1] == '-' ? strcmp(o->name, name) == 0 || (o->alias && !strcmp(o->alias, name))
                          : o->letter && arg[1] == o->letter && arg[2] == '\0') {
            snprintf(name, 64, "%s", o->name);
            *common = r->list.at[i].common;
            return true;
        }
    }
    return false;
}

int cli_option_words(const cli_command *command, int argc, char **argv, int at,
                     const cli_option **option, bool *common)
{
    reading r = {.command = command};
    const char *arg = argv[at];
    char name[64];
    cli_options_of(command, &r.list);
    if (arg[0] != '-' || arg[1] == '\0' || !find_option(&r, arg, name, common))
        return 0;
    const cli_option *o = es_param_find(*common ? common_list() : command->options, name);
    const bool equals = arg[1] == '-' && strchr(arg, '=');
    int words = o->kind == ES_PARAM_FLAG || equals ? 1 : 2;
    while (o->several && at + words < argc && argv[at + words][0] != '-')
        words++;
    *option = o;
    return words < argc - at ? words : argc - at;
}

/* Fails for an unknown option; the hint names the new spelling or the nearest option. */
static es_status fail_unknown(const reading *r, const char *name, es_error *err)
{
    const char *names[97] = {"help"};
    for (int i = 0; i < r->list.count; i++) {
        const cli_option *o = r->list.at[i].option;
        names[i + 1] = o->name;
        if (o->renamed_from && strcmp(o->renamed_from, name) == 0)
            return cli_fail(err, ES_E_ARGUMENT, NULL, "option.renamed", "the option was renamed",
                            "--%s is now --%s", name, o->name);
    }
    const char *nearest = es_nearest(name, names, r->list.count + 1);
    char hint[128] = "--help lists the options";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.unknown", hint, "unknown option --%s", name);
}

/* Fails for an option without its value; the hint says what it takes. */
static es_status fail_missing(const cli_option *o, es_error *err)
{
    char hint[sizeof err->hint];
    snprintf(hint, sizeof hint, "--%s %s: %s", o->name, o->argument, o->help);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value", hint, "--%s needs a value: %s",
                    o->name, o->argument);
}

/* The option at r->at, and its value; leaves r->at on the last word used. */
static es_status read_option(reading *r, es_error *err)
{
    const char *arg = r->argv[r->at];
    char name[64];
    bool common = false;
    if (!find_option(r, arg, name, &common))
        return arg[1] == '-' ? fail_unknown(r, name, err)
                             : cli_fail(err, ES_E_ARGUMENT, NULL, "option.unknown",
                                        "--help lists the options", "unknown option %s", arg);
    const es_param *o = es_param_find(common ? common_list() : r->command->options, name);
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    const char *value = equals ? equals + 1 : NULL;
    if (o->kind == ES_PARAM_FLAG && value)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value", "give it without a value",
                        "--%s takes no value", name);
    if (o->kind != ES_PARAM_FLAG && !value) {
        if (r->at + 1 >= r->argc)
            return fail_missing(o, err);
        value = r->argv[++r->at];
    }
    es_params *to = common ? r->into->common : r->into->own;
    es_status status = es_params_set(to, name, value, err);
    while (status == ES_OK && o->several && r->at + 1 < r->argc && r->argv[r->at + 1][0] != '-')
        status = es_params_set(to, name, r->argv[++r->at], err);
    return status;
}

/* Reports points of a grid that coincide after rounding, because the table will have fewer rows
 * than asked for. */
static void report_merged(const cli_command *command, es_params *own)
{
    for (const es_param *o = command->options; o && o->name; o++) {
        if (o->kind != ES_PARAM_COUNTS)
            continue;
        const es_grid *grid =
            (const es_grid *)(const void *)((const char *)es_params_values(own) + o->field);
        if (grid->merged)
            fprintf(stderr,
                    "esscher %s: --%s: %lld of %lld points coincide after rounding and are used "
                    "once\n",
                    command->name, o->name, (long long)grid->merged,
                    (long long)(grid->merged + grid->count));
    }
}

/* Writes a hint for an argument that the command does not take: the option that was probably
 * meant, judged by the file of that name. */
static const char *operand_hint(const cli_command *command, const char *text, char *out,
                                size_t size)
{
    struct stat st;
    const bool exists = stat(text, &st) == 0;
    const char *dot = strrchr(text, '.');
    const char *name = exists && S_ISDIR(st.st_mode)                 ? "model"
                       : dot && strcmp(dot, ".json") == 0            ? "plan"
                       : exists || (dot && strcmp(dot, ".txt") == 0) ? "text"
                                                                     : NULL;
    if (name && es_param_find(command->options, name))
        snprintf(out, size, "did you mean --%s %s?", name, text);
    else
        snprintf(out, size, "every input has an option; esscher %s -h shows them", command->name);
    return out;
}

/* Reads an argument that is not an option: an operand of the command, if it takes one or several.
 */
static es_status read_operand(reading *r, const char *text, es_error *err)
{
    const cli_option *o = r->command->operand;
    char hint[sizeof err->hint];
    if (!o)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.operand",
                        operand_hint(r->command, text, hint, sizeof hint),
                        "unexpected argument \"%s\"", text);
    const es_status status = es_params_set(r->into->operand, o->name, text, err);
    if (status != ES_OK && strcmp(err->rule, "option.repeated") == 0)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.operand", "give one",
                        "more than one %s: \"%s\"", o->argument, text);
    return status;
}

/* Reads all words of the command line; after "--" every word is an operand. */
static es_status read_words(reading *r, cli_help_kind *help, es_error *err)
{
    bool options = true;
    for (; r->at < r->argc; r->at++) {
        const char *arg = r->argv[r->at];
        es_status status;
        if (options && strcmp(arg, "--") == 0) {
            options = false;
            continue;
        }
        if (options && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            *help = arg[1] == 'h' ? CLI_HELP_SHORT : CLI_HELP_ALL;
            return ES_OK;
        }
        if (!options || arg[0] != '-' || arg[1] == '\0')
            status = read_operand(r, arg, err);
        else
            status = read_option(r, err);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

/* One form of the answer, however it was asked for; and rows may be chosen of those that are not
 * everything. */
static es_status settle_format(cli_common *c, es_error *err)
{
    bool *const flags[] = {NULL, &c->markdown, &c->csv, &c->json, &c->latex};
    if (c->json + c->csv + c->markdown + (c->format >= 0) > 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict", "choose one",
                        "--format, --json, --csv and --markdown exclude each other");
    if (c->format > 0)
        *flags[c->format] = true;
    if (c->json && (c->layers.count || c->heads.count || c->sort || c->top))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict",
                        "use another --format, or filter the JSON with jq",
                        "JSON holds every row: --layer, --head, --sort and --top do not apply");
    return ES_OK;
}

es_status cli_options_parse(const cli_command *command, int argc, char **argv, cli_options *out,
                            cli_help_kind *help, es_error *err)
{
    reading r = {.command = command, .argc = argc, .argv = argv, .into = out};
    *out = (cli_options){0};
    cli_options_of(command, &r.list);
    es_status status = es_params_new(common_list(), sizeof(cli_common), &out->common, err);
    if (status == ES_OK)
        status = es_params_new(command->options, command->size, &out->own, err);
    if (status != ES_OK)
        return status;
    out->operand = out->own;
    if (command->operand && !es_param_find(command->options, command->operand->name)) {
        static es_param alone[2];
        alone[0] = *command->operand;
        alone[1] = (es_param){0};
        status = es_params_new(alone, command->size, &out->operand, err);
    }
    if (status == ES_OK && command->defaults)
        memcpy(es_params_values(out->own), command->defaults, command->size);
    if (status == ES_OK)
        status = read_words(&r, help, err);
    if (status != ES_OK || *help)
        return status;
    if (out->operand != out->own) /* copy the value of a separate list */
        memcpy((char *)es_params_values(out->own) + command->operand->field,
               (char *)es_params_values(out->operand) + command->operand->field,
               command->operand->kind == ES_PARAM_TEXTS || command->operand->kind == ES_PARAM_FILES
                   ? sizeof(es_texts)
                   : sizeof(char *));
    cli_common *common = es_params_values(out->common);
    status = settle_format(common, err);
    if (status != ES_OK)
        return status;
    if (!common->quiet && cli_speaks(common))
        report_merged(command, out->own);
    return ES_OK;
}

void cli_options_free(cli_options *options)
{
    if (options->operand != options->own)
        es_params_free(options->operand);
    es_params_free(options->own);
    es_params_free(options->common);
}
