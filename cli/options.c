#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "number.h"
#include "talk.h"

static const char *const precisions[] = {"f32", "f64", NULL};
static const char *const progresses[] = {"auto", "always", "never", NULL};
const char *const cli_isa_choices[] = {"portable", "avx2", "avx512", NULL};

const cli_common cli_common_defaults = {.precision = -1, .isa = -1, .progress = -1};

/* The common options, each under the bit by which a command takes it. */
static const struct {
    unsigned bit;
    cli_option option;
} common_options[] = {
    {CLI_TAKES_THREADS,
     {"threads", 't', CLI_WHOLE, "N",
      "threads that work (default: all processors). Results have "
      "the same bits for any number",
      .field = offsetof(cli_common, threads), .min = 1, .max = 1024}},
    {CLI_TAKES_PRECISION,
     {"precision", 0, CLI_CHOICE, "f32|f64", "kernels that compute (default: f32)",
      .field = offsetof(cli_common, precision), .choices = precisions}},
    {CLI_TAKES_ISA,
     {"isa", 0, CLI_CHOICE, "NAME",
      "instruction set of the kernels: portable, avx2 or avx512 "
      "(default: the best of this CPU, or the environment variable ESSCHER_ISA)",
      .field = offsetof(cli_common, isa), .choices = cli_isa_choices}},
    {CLI_TAKES_SEED,
     {"seed", 0, CLI_SEED, "N", "seed of every random number (default: 0)",
      .field = offsetof(cli_common, seed)}},
    {CLI_TAKES_MEMORY,
     {"max-memory", 0, CLI_BYTES, "SIZE",
      "refuse to start, with exit code 5, when the memory "
      "bound is above SIZE bytes; suffixes K, M, G, T (default: no limit)",
      .field = offsetof(cli_common, max_memory)}},
    {CLI_TAKES_DRY_RUN,
     {"dry-run", 0, CLI_FLAG, NULL,
      "print what the run would cost, in operations, seconds and "
      "bytes, and stop",
      .field = offsetof(cli_common, dry_run)}},
    {CLI_TAKES_FORMAT,
     {"json", 0, CLI_FLAG, NULL, "print one JSON object instead of tables",
      .field = offsetof(cli_common, json)}},
    {CLI_TAKES_FORMAT,
     {"csv", 0, CLI_FLAG, NULL, "print the main table as CSV, full precision",
      .field = offsetof(cli_common, csv)}},
    {CLI_TAKES_FORMAT,
     {"quiet", 0, CLI_FLAG, NULL, "say nothing on stderr but errors and warnings",
      .field = offsetof(cli_common, quiet)}},
    {CLI_TAKES_FORMAT,
     {"verbose", 0, CLI_FLAG, NULL, "say more on stderr", .field = offsetof(cli_common, verbose)}},
    {CLI_TAKES_PROGRESS,
     {"progress", 0, CLI_CHOICE, "WHEN",
      "progress on stderr: auto, always or never (default: "
      "auto, on a terminal and after one second)",
      .field = offsetof(cli_common, progress), .choices = progresses}},
};

void cli_options_of(const cli_command *command, cli_option_list *out)
{
    *out = (cli_option_list){0};
    const int room = (int)(sizeof out->at / sizeof out->at[0]);
    for (const cli_option *o = command->options; o && o->name && out->count < room; o++)
        out->at[out->count++].option = o;
    for (size_t i = 0; i < sizeof common_options / sizeof common_options[0]; i++) {
        if ((command->common & common_options[i].bit) && out->count < room) {
            out->at[out->count].option = &common_options[i].option;
            out->at[out->count++].common = true;
        }
    }
}

/* ---- misspelt names ---- */

/* Edits that turn a into b: insertions, deletions, replacements. Names longer than the table are
 * compared by their beginnings. */
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[LONGEST + 1];
    const int width = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= width; j++)
        row[j] = j;
    for (int i = 1; i <= LONGEST && a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            const int replaced = diagonal + (a[i - 1] != b[j - 1]);
            const int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[width];
}

const char *cli_nearest(const char *text, const char *const *names, int count)
{
    const char *best = NULL;
    int least = (int)strnlen(text, 9) / 3 + 1; /* one slip in three letters is still a slip */
    for (int i = 0; i < count; i++) {
        const int distance = edit_distance(text, names[i]);
        if (distance <= least && distance < (int)strlen(names[i])) {
            best = names[i];
            least = distance - 1;
        }
    }
    return best;
}

static es_status fail_unknown(const cli_option_list *list, const char *name, es_error *err)
{
    const char *names[97] = {"help"};
    for (int i = 0; i < list->count; i++)
        names[i + 1] = list->at[i].option->name;
    const char *nearest = cli_nearest(name, names, list->count + 1);
    char hint[128] = "--help lists the options";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean --%s?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.unknown", hint, "there is no option --%s",
                    name);
}

/* ---- one argument ---- */

static es_status fail_value(const cli_option *o, const char *text, const char *why, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value", "", "--%s %s: %s", o->name, text,
                    why);
}

static es_status fail_bounds(const cli_option *o, const char *text, es_error *err)
{
    char why[96];
    snprintf(why, sizeof why, "expected a number from %.10g to %.10g", o->min, o->max);
    return fail_value(o, text, why, err);
}

static es_status store_choice(const cli_option *o, const char *text, int *out, es_error *err)
{
    char why[128] = "expected";
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(text, o->choices[i]) == 0) {
            *out = i;
            return ES_OK;
        }
        const size_t used = strlen(why);
        snprintf(why + used, sizeof why - used, "%s %s", i ? " or" : "", o->choices[i]);
    }
    return fail_value(o, text, why, err);
}

static es_status store_grid(const cli_option *o, const char *text, cli_grid *out, es_error *err)
{
    char why[256];
    const cli_grid_rule rule = {.min = o->min, .max = o->max, .increasing = o->increasing};
    if (cli_grid_parse(text, o->kind == CLI_COUNTS, &rule, out, why, (int)sizeof why))
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.grid",
                    "a grid is a number, a list 64,128,256 or LOW..HIGH*POINTS", "--%s: %s",
                    o->name, why);
}

static const char *store_string(cli_strings *strings, const char *text)
{
    if (strings->count == CLI_MOST_STRINGS)
        return "too many of them";
    strings->at[strings->count++] = text;
    return NULL;
}

static es_status store(const cli_option *o, const char *text, void *to, es_error *err)
{
    const char *why = NULL;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)to = true;
        break;
    case CLI_STRING:
        *(const char **)to = text;
        why = *text ? NULL : "the text is empty";
        break;
    case CLI_WHOLE:
        why = cli_number_whole(text, to);
        if (!why && ((double)*(int64_t *)to < o->min || (double)*(int64_t *)to > o->max))
            return fail_bounds(o, text, err);
        break;
    case CLI_NUMBER:
        why = cli_number_real(text, to);
        if (!why && (*(double *)to < o->min || *(double *)to > o->max))
            return fail_bounds(o, text, err);
        break;
    case CLI_SEED:
        why = cli_number_seed(text, to);
        break;
    case CLI_BYTES:
        why = cli_number_bytes(text, to);
        if (!why && *(int64_t *)to < 1)
            why = "expected at least one byte";
        break;
    case CLI_CHOICE:
        return store_choice(o, text, to, err);
    case CLI_REALS:
    case CLI_COUNTS:
        return store_grid(o, text, to, err);
    case CLI_STRINGS:
        why = *text ? store_string(to, text) : "the text is empty";
        break;
    }
    return why ? fail_value(o, text, why, err) : ES_OK;
}

/* ---- the whole line ---- */

/* The option that argument `arg` names ("--name", "--name=value", "-x"), or -1. */
static int find_option(const cli_option_list *list, const char *arg)
{
    const bool spelt_out = arg[1] == '-';
    const size_t length = spelt_out ? strcspn(arg + 2, "=") : 0;
    for (int i = 0; i < list->count; i++) {
        const cli_option *o = list->at[i].option;
        if (spelt_out ? strlen(o->name) == length && memcmp(o->name, arg + 2, length) == 0
                      : o->letter && arg[1] == o->letter && arg[2] == '\0')
            return i;
    }
    return -1;
}

/* Reads the option at argv[*at], and its value, and leaves *at on the last word used. */
static es_status read_option(cli_option_list *list, int argc, char **argv, int *at,
                             cli_common *common, void *own, es_error *err)
{
    const char *arg = argv[*at];
    const int i = find_option(list, arg);
    if (i < 0) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
        return arg[1] == '-' ? fail_unknown(list, name, err)
                             : cli_fail(err, ES_E_ARGUMENT, NULL, "option.unknown",
                                        "--help lists the options", "there is no option %s", arg);
    }
    const cli_option *o = list->at[i].option;
    if (list->at[i].seen && list->at[i].option->kind != CLI_STRINGS)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.repeated", "give it once",
                        "--%s is given twice", o->name);
    list->at[i].seen = true;
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    const char *value = equals ? equals + 1 : NULL;
    if (o->kind == CLI_FLAG && value)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value", "", "--%s takes no value",
                        o->name);
    if (o->kind != CLI_FLAG && !value) {
        if (*at + 1 >= argc)
            return cli_fail(err, ES_E_ARGUMENT, NULL, "option.value", "", "--%s needs a value: %s",
                            o->name, o->argument);
        value = argv[++*at];
    }
    return store(o, value, (char *)(list->at[i].common ? (void *)common : own) + o->field, err);
}

/* Points of a grid that coincided are said, because the table will have fewer rows than asked. */
static void tell_merged(const cli_command *command, const cli_option_list *list, const void *own)
{
    for (int i = 0; i < list->count; i++) {
        const cli_option *o = list->at[i].option;
        if (o->kind != CLI_COUNTS || list->at[i].common)
            continue;
        const cli_grid *grid = (const cli_grid *)(const void *)((const char *)own + o->field);
        if (grid->merged)
            fprintf(stderr,
                    "esscher %s: --%s: %lld of %lld points coincide after rounding and are used "
                    "once\n",
                    command->name, o->name, (long long)grid->merged,
                    (long long)(grid->merged + grid->count));
    }
}

/* A word that belongs to no option: an operand of the command, if it takes one, or several. */
static es_status read_operand(const cli_command *command, const char *text, bool *seen, void *own,
                              es_error *err)
{
    const cli_option *o = command->operand;
    if (!o)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.operand",
                        "every input has an option; --help lists them", "nothing to do with \"%s\"",
                        text);
    if (*seen && o->kind != CLI_STRINGS)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.operand", "give one",
                        "one %s is enough, and here is another: \"%s\"", o->argument, text);
    *seen = true;
    return store(o, text, (char *)own + o->field, err);
}

es_status cli_options_parse(const cli_command *command, int argc, char **argv, cli_common *common,
                            void *own, bool *help, es_error *err)
{
    cli_option_list list;
    cli_options_of(command, &list);
    bool options = true, operand = false;
    for (int at = 0; at < argc; at++) {
        const char *arg = argv[at];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
            continue;
        }
        if (!options || arg[0] != '-' || arg[1] == '\0') {
            const es_status status = read_operand(command, arg, &operand, own, err);
            if (status != ES_OK)
                return status;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            *help = true;
            return ES_OK;
        }
        const es_status status = read_option(&list, argc, argv, &at, common, own, err);
        if (status != ES_OK)
            return status;
    }
    if (common->json && common->csv)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "option.conflict", "choose one",
                        "--json and --csv at once");
    if (!common->quiet)
        tell_merged(command, &list, own);
    return ES_OK;
}

void cli_options_free(const cli_command *command, void *own)
{
    for (const cli_option *o = command->options; o && o->name; o++)
        if (o->kind == CLI_REALS || o->kind == CLI_COUNTS)
            cli_grid_free((cli_grid *)(void *)((char *)own + o->field));
    free(own);
}
