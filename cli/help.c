/* SPDX-License-Identifier: Apache-2.0 */
/* esscher help : help, man pages and completion. */
#include "help.h"

#include <ctype.h>
#include <string.h>

#include <esscher/status.h>

#include "completion.h"
#include "man_page.h"
#include "options.h"
#include "talk.h"

enum {
    MOST_WIDTH = 92,   /* longer lines are hard to read, however wide the terminal is */
    INDENT = 28,       /* column in which descriptions of options start */
    SHORT_LINES = 40,  /* of `esscher COMMAND -h`: one screen */
    SHORT_ABOUT = 6,   /* of these, at most this many for sentences */
    SHORT_EXAMPLES = 2 /* and this many examples */
};

/* Common options that short help names. */
static const char main_common[] = "threads seed out resume max-memory dry-run json csv full quiet";

/* Returns the width for help: that of the terminal, but at most MOST_WIDTH. */
static int width(void)
{
    const int paper = cli_paper_width();
    return paper < MOST_WIDTH ? paper : MOST_WIDTH;
}

/* Prints the words of text[0..length), wrapped, and returns the number of lines; with out NULL it
 * only counts them. The cursor is at `column`; later lines start at `indent`. A newline in the
 * text is kept. */
static int print_part(FILE *out, const char *text, int length, int column, int indent)
{
    const char *end = text + length;
    bool fresh = true; /* true at the start of a line: no space before the next word */
    int lines = 1;
    while (text < end) {
        int word = (int)strcspn(text, " \n");
        word = word < end - text ? word : (int)(end - text);
        if (*text == '\n' || (!fresh && column + 1 + word > width())) {
            text += *text == '\n';
            if (out)
                fprintf(out, "\n%*s", *text == '\n' ? 0 : indent, "");
            column = indent;
            fresh = true;
            lines++;
            continue;
        }
        if (out)
            fprintf(out, "%s%.*s", fresh ? "" : " ", word, text);
        column += word + !fresh;
        fresh = false;
        text += word;
        text += text < end && *text == ' ';
    }
    if (out)
        fputc('\n', out);
    return lines;
}

/* Prints a whole text wrapped; as print_part(). */
static int print_wrapped(FILE *out, const char *text, int column, int indent)
{
    return print_part(out, text, (int)strlen(text), column, indent);
}

const char *cli_help_of(const cli_option *o, char *out, size_t size)
{
    const char *standard = o->default_note ? o->default_note : o->default_value;
    snprintf(out, size, standard ? "%s (default: %s)" : "%s", o->help, standard);
    return out;
}

/* Prints an option with its description and returns the number of lines; out NULL: counts them.
 * The description is cut after `length` characters; -1: all of it, and the default. */
static int print_option(const cli_option *o, int length, FILE *out)
{
    char left[80], text[1024];
    char letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const int used = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name,
                              o->argument ? " " : "", o->argument ? o->argument : "");
    if (out)
        fprintf(out, "%s%s%*s", left, used >= INDENT ? "\n" : "",
                used >= INDENT ? INDENT : INDENT - used, "");
    cli_help_of(o, text, sizeof text);
    if (length >= 0)
        snprintf(text, sizeof text, "%.*s", length, o->help);
    return (used >= INDENT) + print_wrapped(out, text, INDENT, INDENT);
}

/* Prints the usage line and returns the number of lines. */
static int print_usage(const cli_command *command, FILE *out)
{
    fprintf(out, "Usage: esscher %s ", command->name);
    return print_wrapped(out, command->usage, 16 + (int)strlen(command->name), 8);
}

/* Returns whether `name` is one of the words of `names`, separated by spaces. */
static bool is_among(const char *name, const char *names)
{
    const size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at++)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* Prints the names of a command's common options, which `help options` explains; `main`: only the
 * most important ones. Returns the number of lines, with out NULL as well. */
static int print_common_names(const cli_option_list *list, bool main, FILE *out)
{
    char names[1024] = "";
    size_t used = 0;
    for (int i = 0; i < list->count; i++)
        if (list->at[i].common && (!main || is_among(list->at[i].option->name, main_common)))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s", used ? " " : "",
                                     list->at[i].option->name);
    if (!used)
        return 0;
    if (out)
        fputs("\nCommon options (esscher help options):\n  ", out);
    return 2 + print_wrapped(out, names, 2, 2);
}

/* ---- the program, and what all commands have in common ---- */

void cli_help_program(FILE *out)
{
    fputs("Usage: esscher COMMAND [options]\n\n"
          "A laboratory for softmax attention at long context.\n",
          out);
    for (const cli_group *g = cli_groups; g->title; g++) {
        fprintf(out, "\n%s:\n", g->title);
        for (int i = 0; cli_command_at(i); i++) {
            const cli_command *c = cli_command_at(i);
            if (c->group != g->group || c == &cli_help)
                continue;
            fprintf(out, "  %-12s ", c->name);
            print_wrapped(out, c->summary, 15, 15);
        }
    }
    fputs("\nHelp:\n"
          "  esscher COMMAND -h     what it does, its main options and two examples\n"
          "  esscher help COMMAND   everything about a command\n"
          "  esscher help options   options that many commands share, words, exit codes\n"
          "  esscher --version      version and build\n",
          out);
}

/* Prints the exit codes. */
static void print_exits(FILE *out)
{
    fputs("\nExit codes:\n", out);
    for (const cli_exit_meaning *e = cli_exits; e->text; e++) {
        fprintf(out, "  %-4d ", e->code);
        print_wrapped(out, e->more ? e->more : e->text, 7, 7);
    }
}

/* Prints a list of definitions under a title. */
static void print_definitions(const char *title, const cli_definition *list, FILE *out)
{
    fprintf(out, "\n%s:\n", title);
    for (const cli_definition *d = list; d->name; d++) {
        fprintf(out, "  %-12s ", d->name);
        print_wrapped(out, d->text, 15, 15);
    }
}

void cli_help_options(FILE *out)
{
    const cli_command every = {.common = CLI_TAKES_ALL};
    cli_option_list list;
    cli_options_of(&every, &list);
    fputs("Options that many commands share. esscher help COMMAND lists those that it takes.\n\n",
          out);
    for (int i = 0; i < list.count; i++)
        print_option(list.at[i].option, -1, out);
    fprintf(out, "  -h%*sshort help\n", INDENT - 4, "");
    fprintf(out, "      --help%*severything about the command\n", INDENT - 12, "");
    print_definitions("Values", cli_value_forms, out);
    print_definitions("Words", cli_words, out);
    print_exits(out);
}

const cli_definition cli_value_forms[] = {
    {"number", "decimal with a point: 4096, 0.125, 1e6; a power 2^20; a fraction 1/4; or a "
               "percentage 25%"},
    {"whole", "whole number: 4096, 1e6 or 2^20"},
    {"size", "bytes with a suffix K, M, G or T (powers of 1024): 500M, 1.5G"},
    {"grid", "one number, a list 64,128,256, or LOW..HIGH*POINTS in geometric steps: 1e3..3e4*12"},
    {"file", "a name; - is standard input, for one option of a command"},
    {NULL, NULL}};

const cli_definition cli_words[] = {
    {"[proved]", "a theoretical value that is derived; [heuristic]: with a step unproved; "
                 "[numerical]: seen in numbers, not derived; [cited]: stated by a paper"},
    {"ESS", "effective number of keys of a query, 1/sum w^2 of its weights: n if all are equal, 1 "
            "if one key has all"},
    {"averaging",
     "100 keys or more share the weight (two thirds of n if there are fewer than 150); selective: "
     "2 or more do; single-key: fewer than 2"},
    {"spread", "root mean square distance from the mean, the unit of most errors: at 0.1 a result "
               "is off by a tenth of how much outputs, values or hidden states vary. The "
               "table says which"},
    {"sink", "a key that takes weight from every query, such as the first token"},
    {"horizon H",
     "how sharp a head's attention is: spectral norm of S^1/2 A S^1/2 with the tokens' "
     "covariance S and A = Wk'Wq/sqrt(k). The larger, the slower outputs converge"},
    {"limit", "attention over infinitely many tokens of the same kind"},
    {NULL, NULL}};

/* ---- a command ---- */

void cli_help_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    print_usage(command, out);
    fputc('\n', out);
    print_wrapped(out, command->about, 0, 0);
    if (list.count && !list.at[0].common)
        fputs("\nOptions:\n", out);
    for (int i = 0; i < list.count && !list.at[i].common; i++)
        print_option(list.at[i].option, -1, out);
    print_common_names(&list, false, out);
    fputs("\nExamples:\n", out);
    for (const char *const *e = command->examples; *e; e++)
        fprintf(out, "  %s\n", *e);
}

/* Returns where the first sentence of a text ends, or with `clause` its first clause. What is in
 * parentheses ends neither. */
static int first_part(const char *text, bool clause)
{
    int at = 0;
    for (int inside = 0; text[at]; at++) {
        inside += (text[at] == '(') - (text[at] == ')');
        if (inside == 0 && (text[at] == '.' || (clause && text[at] == ';')) && text[at + 1] == ' ')
            break;
    }
    return at;
}

/* Returns where the short description of an option ends. The clauses of a choice are its values:
 * all of them stay. */
static int short_part(const cli_option *o)
{
    return first_part(o->help, o->kind != ES_PARAM_CHOICE);
}

/* Returns the length of the first paragraph of a text if it fits SHORT_ABOUT lines, else of as many
 * of its first three sentences as fit. 0 if the first sentence is longer than that. */
static int first_sentences(const char *text)
{
    const int paragraph = (int)strcspn(text, "\n");
    int length = 0;
    if (print_part(NULL, text, paragraph, 0, 0) <= SHORT_ABOUT)
        return paragraph;
    for (int at = 0, count = 0; at < paragraph && count < 3; at++) {
        if (text[at] != '.' || (text[at + 1] != ' ' && at + 1 != paragraph))
            continue;
        if (print_part(NULL, text, at + 1, 0, 0) > SHORT_ABOUT)
            break;
        length = at + 1;
        count++;
    }
    return length;
}

/* Prints as many of the command's own options as fit `capacity` lines: its main options or, if it
 * names none, the first ones. */
static void print_main_options(const cli_command *command, const cli_option_list *list,
                               int capacity, FILE *out)
{
    for (int i = 0, printed = 0; i < list->count && !list->at[i].common; i++) {
        const cli_option *o = list->at[i].option;
        const int length = short_part(o), lines = print_option(o, length, NULL);
        if (lines > capacity ||
            (command->main_options && !is_among(o->name, command->main_options)))
            continue;
        if (printed++ == 0)
            fputs("\nMain options:\n", out);
        print_option(o, length, out);
        capacity -= lines;
    }
}

/* Prints the first examples that fit a line of 100 columns. */
static void print_short_examples(const cli_command *command, FILE *out)
{
    fputs("\nExamples:\n", out);
    for (int i = 0, printed = 0; command->examples[i] && printed < SHORT_EXAMPLES; i++)
        if (strlen(command->examples[i]) <= 98) {
            fprintf(out, "  %s\n", command->examples[i]);
            printed++;
        }
}

void cli_help_short(const cli_command *command, FILE *out)
{
    cli_option_list list;
    int lines = 0;
    cli_options_of(command, &list);
    lines += print_usage(command, out);
    fprintf(out, "\n%c%s.\n", toupper((unsigned char)command->summary[0]), command->summary + 1);
    lines += 2;
    const int about = first_sentences(command->about);
    if (about)
        lines += print_part(out, command->about, about, 0, 0);
    lines += print_common_names(&list, true, NULL);
    lines += 2 + SHORT_EXAMPLES + 2 + 2; /* blank line and heading of examples, of options; end */
    print_main_options(command, &list, SHORT_LINES - lines, out);
    print_common_names(&list, true, out);
    print_short_examples(command, out);
    fprintf(out, "\nAll options, defaults and details: esscher help %s\n", command->name);
}

/* ---- the command `help` ---- */

/* Fails for an option in place of a command. */
static es_status fail_option(const char *name, es_error *err)
{
    static const char *const names[] = {"--version", "--help"};
    const char *nearest = es_nearest(name, names, 2);
    char hint[96] = "a command comes first: esscher COMMAND ...; alone: --help, --version";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean \"esscher %s\"?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "option.unknown", hint, "unknown option %s", name);
}

es_status cli_command_unknown(const char *name, es_error *err)
{
    if (name[0] == '-')
        return fail_option(name, err);
    const char *names[64];
    int count = 0;
    for (int i = 0; cli_command_at(i) && count < 64; i++)
        names[count++] = cli_command_at(i)->name;
    const char *nearest = es_nearest(name, names, count);
    char hint[96] = "esscher help lists the commands";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean \"esscher %s\"?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "command.unknown", hint, "unknown command \"%s\"",
                    name);
}

typedef struct help_options {
    const char *command;
    bool man, list;
    int shell;
} help_options;

static const cli_option operand = {"command",
                                   0,
                                   CLI_STRING,
                                   "COMMAND",
                                   "a command, or `options`",
                                   .field = offsetof(help_options, command)};

static const cli_option options[] = {
    {"man", 0, CLI_FLAG, NULL, "print a man page, of the command or of the program: | man -l -",
     .field = offsetof(help_options, man)},
    {"list", 0, CLI_FLAG, NULL,
     "print one line per command for programs: name, group and summary, with tabs between them",
     .field = offsetof(help_options, list)},
    {"completion", 0, CLI_CHOICE, "SHELL",
     "print the completion script for a shell: bash, zsh or fish",
     .field = offsetof(help_options, shell), .choices = cli_completion_shells},
    {0}};

/* Prints the commands for programs: name, group and summary with tabs between them. */
static void print_list(FILE *out)
{
    for (const cli_group *g = cli_groups; g->title; g++)
        for (int i = 0; cli_command_at(i); i++)
            if (cli_command_at(i)->group == g->group)
                fprintf(out, "%s\t%s\t%s\n", cli_command_at(i)->name, g->title,
                        cli_command_at(i)->summary);
}

/* Prints the kind of help that was asked for. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    const help_options *o = given;
    const cli_command *command = o->command ? cli_command_find(o->command) : NULL;
    const bool shared = o->command && strcmp(o->command, "options") == 0;
    session->printed = true;
    if (o->command && !command && !shared)
        return cli_command_unknown(o->command, err);
    if (o->shell >= 0)
        cli_completion(cli_completion_shells[o->shell], stdout);
    else if (o->list)
        print_list(stdout);
    else if (o->man)
        cli_man_page(command, stdout);
    else if (command)
        cli_help_command(command, stdout);
    else if (shared)
        cli_help_options(stdout);
    else
        cli_help_program(stdout);
    return ES_OK;
}

static const char *const examples[] = {"esscher help converge",
                                       "esscher help options",
                                       "esscher help --man probe | man -l -",
                                       "source <(esscher help --completion bash)",
                                       "esscher help --completion fish | source",
                                       NULL};

const cli_command cli_help = {
    .name = "help",
    .summary = "help for a command: esscher help COMMAND; for common options: esscher help options",
    .usage = "[COMMAND | options] [--man | --list | --completion SHELL]",
    .about =
        "Without an argument, lists all commands by group. `esscher help COMMAND` and `esscher "
        "COMMAND --help` print everything about a command, `esscher COMMAND -h` one screen. "
        "`esscher help options` explains the options that many commands share.\n\n"
        "Packages install the man pages and completion scripts that this command prints.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .size = sizeof(help_options),
    .run = run,
};
