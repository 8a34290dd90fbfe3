#include "help.h"

#include <string.h>

#include <esscher/status.h>

#include "completion.h"
#include "options.h"
#include "talk.h"

enum { WIDTH = 92, INDENT = 28 };

static const char exit_codes[] =
    "0 done; 1 done, but a check you asked for failed; 2 wrong usage; 3 invalid input file; "
    "4 file or stdout cannot be read or written; 5 over a limit; 6 numerical failure; "
    "7 stopped by a limit or by SIGTERM; 129 by SIGHUP; 130 interrupted";

/* Words of `text`, wrapped; the cursor is at `column`, later lines start at `indent`. A newline in
 * the text is kept. */
static void print_wrapped(FILE *out, const char *text, int column, int indent)
{
    bool fresh = true; /* nothing on this line yet that a space would have to follow */
    while (*text) {
        const int length = (int)strcspn(text, " \n");
        if (*text == '\n' || (!fresh && column + 1 + length > WIDTH)) {
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

/* What an option does, and what happens without it. */
static const char *help_of(const cli_option *o, char *out, size_t size)
{
    const char *standard = o->otherwise ? o->otherwise : o->standard;
    snprintf(out, size, standard ? "%s (default: %s)" : "%s", o->help, standard);
    return out;
}

static void print_option(const cli_option *o, FILE *out)
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
    print_wrapped(out, help_of(o, text, sizeof text), INDENT, INDENT);
}

void cli_help_program(FILE *out)
{
    fputs("Usage: esscher COMMAND [options]\n\n"
          "A laboratory for softmax attention at long context.\n\nCommands:\n",
          out);
    for (int i = 0; cli_command_at(i); i++)
        fprintf(out, "  %-12s %s\n", cli_command_at(i)->name, cli_command_at(i)->summary);
    fputs("  help         help for a command: esscher help COMMAND\n\n"
          "Options:\n  --help, --version\n\nExit codes: ",
          out);
    print_wrapped(out, exit_codes, 12, 2);
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
        print_option(list.at[i].option, out);
    }
    fprintf(out, "  -h, --help%*sthis text\n", INDENT - 12, "");
    fputs("\nExamples:\n", out);
    for (const char *const *e = command->examples; *e; e++)
        fprintf(out, "  %s\n", *e);
}

/* ---- man pages ---- */

#define PAGE_DATE                                                                                  \
    "2026-11-15" /* when options last changed; not of the build, whose bytes must repeat */

/* Text for troff: backslashes and hyphens escaped, no line that starts with a request. */
static void print_roff(FILE *out, const char *text)
{
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\n' && text[1] == '\n')
            fputs("\n.PP", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
    fputc('\n', out);
}

void cli_help_man(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    fprintf(out, ".TH ESSCHER-%s 1 \"" PAGE_DATE "\" \"esscher %s\"\n.SH NAME\nesscher-%s \\- ",
            command->name, ES_VERSION_STRING, command->name);
    print_roff(out, command->summary);
    fprintf(out, ".SH SYNOPSIS\n.B esscher %s\n", command->name);
    print_roff(out, command->usage);
    fputs(".SH DESCRIPTION\n", out);
    print_roff(out, command->about);
    fputs(".SH OPTIONS\n", out);
    for (int i = 0; i < list.count; i++) {
        const cli_option *o = list.at[i].option;
        fprintf(out, ".TP\n.BI \"\\-\\-%s \" \"%s\"\n", o->name, o->argument ? o->argument : "");
        char text[1024];
        print_roff(out, help_of(o, text, sizeof text));
    }
    fputs(".SH EXAMPLES\n.nf\n", out);
    for (const char *const *e = command->examples; *e; e++)
        print_roff(out, *e);
    fputs(".fi\n.SH EXIT STATUS\n", out);
    print_roff(out, exit_codes);
    fputs(".SH SEE ALSO\n.BR esscher (1)\n", out);
}

/* ---- the command `help` ---- */

int cli_help_unknown(const char *name)
{
    const char *names[64] = {"help"};
    int count = 1;
    for (int i = 0; cli_command_at(i) && count < 64; i++)
        names[count++] = cli_command_at(i)->name;
    const char *nearest = es_nearest(name, names, count);
    char hint[96] = "esscher --help lists the commands";
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean \"esscher %s\"?", nearest);
    es_error err;
    cli_fail(&err, ES_E_ARGUMENT, NULL, "command.unknown", hint, "there is no command \"%s\"",
             name);
    cli_complain(NULL, &err);
    return CLI_USAGE;
}

static int complete_for(int argc, char **argv)
{
    es_error err;
    if (argc == 1 && cli_completion(argv[0], stdout))
        return CLI_OK;
    cli_fail(&err, ES_E_ARGUMENT, NULL, "completion.shell", "esscher help --completion bash",
             "completion is for bash or zsh");
    cli_complain("help", &err);
    return CLI_USAGE;
}

int cli_help_run(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "--completion") == 0)
        return complete_for(argc - 1, argv + 1);
    const bool man = argc > 0 && strcmp(argv[0], "--man") == 0;
    argc -= man;
    argv += man;
    if (argc == 0) {
        cli_help_program(stdout);
        return CLI_OK;
    }
    const cli_command *command = cli_command_find(argv[0]);
    if (!command)
        return cli_help_unknown(argv[0]);
    (man ? cli_help_man : cli_help_command)(command, stdout);
    return CLI_OK;
}
