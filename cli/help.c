/* esscher help : help, man pages and completion. */
#include "help.h"

#include <string.h>

#include <esscher/status.h>

#include "completion.h"
#include "man_page.h"
#include "options.h"
#include "talk.h"

enum { MOST_WIDTH = 92, INDENT = 28 };

/* Lines that are longer are hard to read, wherever there is room for them. */
static int width(void)
{
    const int paper = cli_paper_width();
    return paper < MOST_WIDTH ? paper : MOST_WIDTH;
}

/* Words of `text`, wrapped; the cursor is at `column`, later lines start at `indent`. A newline in
 * the text is kept. */
static void print_wrapped(FILE *out, const char *text, int column, int indent)
{
    bool fresh = true; /* nothing on this line yet that a space would have to follow */
    while (*text) {
        const int length = (int)strcspn(text, " \n");
        if (*text == '\n' || (!fresh && column + 1 + length > width())) {
            text += *text == '\n';
            fprintf(out, "\n%*s", *text == '\n' ? 0 : indent, "");
            column = indent;
            fresh = true;
            continue;
        }
        column += fprintf(out, "%s%.*s", fresh ? "" : " ", length, text);
        fresh = false;
        text += length;
        text += *text == ' ';
    }
    fputc('\n', out);
}

const char *cli_help_of(const cli_option *o, char *out, size_t size)
{
    const char *standard = o->default_note ? o->default_note : o->default_value;
    snprintf(out, size, standard ? "%s (default: %s)" : "%s", o->help, standard);
    return out;
}

/* The first `length` characters of what an option does; -1: all. */
static void print_option(const cli_option *o, int length, FILE *out)
{
    char left[80];
    char letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const int used = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name,
                              o->argument ? " " : "", o->argument ? o->argument : "");
    fputs(left, out);
    if (used >= INDENT)
        fputc('\n', out);
    fprintf(out, "%*s", used >= INDENT ? INDENT : INDENT - used, "");
    char text[1024];
    cli_help_of(o, text, sizeof text);
    if (length >= 0)
        snprintf(text, sizeof text, "%.*s", length, o->help);
    print_wrapped(out, text, INDENT, INDENT);
}

void cli_help_program(FILE *out)
{
    fputs("Usage: esscher COMMAND [options]\n\n"
          "A laboratory for softmax attention at long context.\n\nCommands:\n",
          out);
    for (int i = 0; cli_command_at(i); i++) {
        fprintf(out, "  %-12s ", cli_command_at(i)->name);
        print_wrapped(out, cli_command_at(i)->summary, 15, 15);
    }
    fputs("\nOptions:\n  -h, --help, --version; esscher help COMMAND says more\n\nExit codes: ",
          out);
    char codes[1024];
    size_t used = 0;
    for (const cli_exit_meaning *e = cli_exits; e->text; e++)
        used += (size_t)snprintf(codes + used, sizeof codes - used, "%s%d %s", used ? "; " : "",
                                 e->code, e->text);
    print_wrapped(out, codes, 12, 2);
}

void cli_help_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    fprintf(out, "Usage: esscher %s ", command->name);
    print_wrapped(out, command->usage, 16 + (int)strlen(command->name), 8);
    fputc('\n', out);
    print_wrapped(out, command->about, 0, 0);
    fputs("\nOptions:\n", out);
    for (int i = 0; i < list.count; i++) {
        if (list.at[i].common && (i == 0 || !list.at[i - 1].common))
            fputs("\nCommon options:\n", out);
        print_option(list.at[i].option, -1, out);
    }
    fprintf(out, "  -h%*sthe options in short\n", INDENT - 4, "");
    fprintf(out, "      --help%*sthis text\n", INDENT - 12, "");
    fputs("\nExamples:\n", out);
    for (const char *const *e = command->examples; *e; e++)
        fprintf(out, "  %s\n", *e);
}

/* Where the first sentence, or the first part of one, ends. */
static int first_part(const char *text)
{
    static const char *const ends[] = {". ", "; "};
    int length = (int)strlen(text);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = strstr(text, ends[i]);
        if (end && end - text < length)
            length = (int)(end - text);
    }
    return length;
}

void cli_help_short(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    fprintf(out, "Usage: esscher %s ", command->name);
    print_wrapped(out, command->usage, 16 + (int)strlen(command->name), 8);
    fprintf(out, "  %s\n\nOptions:\n", command->summary);
    for (int i = 0; i < list.count; i++)
        print_option(list.at[i].option, first_part(list.at[i].option->help), out);
    fprintf(out, "\nesscher help %s says more.\n", command->name);
}

/* ---- the command `help` ---- */

es_status cli_command_unknown(const char *name, es_error *err)
{
    const char *names[64];
    int count = 0;
    for (int i = 0; cli_command_at(i) && count < 64; i++)
        names[count++] = cli_command_at(i)->name;
    const char *nearest = es_nearest(name, names, count);
    char hint[96] = "esscher --help lists the commands";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean \"esscher %s\"?", nearest);
    return cli_fail(err, ES_E_ARGUMENT, NULL, "command.unknown", hint, "there is no command \"%s\"",
                    name);
}

typedef struct help_options {
    const char *command;
    bool man;
    int shell;
} help_options;

static const cli_option operand = {
    "command", 0, CLI_STRING, "COMMAND", "one of them", .field = offsetof(help_options, command)};

static const cli_option options[] = {
    {"man", 0, CLI_FLAG, NULL, "as a man page, for man -l -: of a command, or of the program",
     .field = offsetof(help_options, man)},
    {"completion", 0, CLI_CHOICE, "SHELL",
     "the completion of command lines for a shell: bash, zsh or fish",
     .field = offsetof(help_options, shell), .choices = cli_completion_shells},
    {0}};

static es_status run(cli_session *session, void *given, es_error *err)
{
    const help_options *o = given;
    const cli_command *command = o->command ? cli_command_find(o->command) : NULL;
    session->printed = true;
    if (o->command && !command)
        return cli_command_unknown(o->command, err);
    if (o->shell >= 0)
        cli_completion(cli_completion_shells[o->shell], stdout);
    else if (o->man)
        cli_man_page(command, stdout);
    else if (command)
        cli_help_command(command, stdout);
    else
        cli_help_program(stdout);
    return ES_OK;
}

static const char *const examples[] = {
    "esscher help converge", "esscher help --man probe | man -l -",
    "source <(esscher help --completion bash)", "esscher help --completion fish | source", NULL};

const cli_command cli_help = {
    .name = "help",
    .summary = "help for a command: esscher help COMMAND",
    .usage = "[COMMAND] [--man] [--completion SHELL]",
    .about = "Without a command, lists them all. `esscher COMMAND -h` gives the options in short, "
             "`esscher COMMAND --help` and `esscher help COMMAND` everything about it. What an "
             "installation puts in place, man pages and completion, is made here.",
    .examples = examples,
    .options = options,
    .operand = &operand,
    .size = sizeof(help_options),
    .run = run,
};
