/* SPDX-License-Identifier: Apache-2.0 */
/* man_page.c : man pages in roff, generated from the same tables as help. */
#include "man_page.h"

#include <string.h>

#include <esscher/status.h>

#include "help.h"
#include "options.h"
#include "talk.h"

/* When options last changed; not of the build, whose bytes must repeat. */
#define PAGE_DATE "2026-11-18"

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

/* Prints title line and NAME section. */
static void print_title(const char *name, FILE *out)
{
    fprintf(out, ".TH ESSCHER%s%s 1 \"" PAGE_DATE "\" \"esscher %s\"\n.SH NAME\nesscher%s%s \\- ",
            name ? "-" : "", name ? name : "", ES_VERSION_STRING, name ? "-" : "",
            name ? name : "");
}

/* Prints one option with its description. */
static void print_option(const cli_option *o, FILE *out)
{
    char text[1024], letter[16] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "\\-%c, ", o->letter);
    fprintf(out, ".TP\n.BI \"%s\\-\\-%s \" \"%s\"\n", letter, o->name,
            o->argument ? o->argument : "");
    print_roff(out, cli_help_of(o, text, sizeof text));
}

/* Prints the section about exit codes. */
static void print_exits(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    for (const cli_exit_meaning *e = cli_exits; e->text; e++) {
        fprintf(out, ".TP\n.B %d\n", e->code);
        print_roff(out, e->more ? e->more : e->text);
    }
}

/* ---- a command ---- */

/* Names the common options that a command takes; esscher(1) explains them. */
static void print_common_names(const cli_option_list *list, FILE *out)
{
    if (!list->count || !list->at[list->count - 1].common)
        return;
    fputs(".PP\nCommon options, explained in\n.BR esscher (1):\n", out);
    for (int i = 0; i < list->count; i++)
        if (list->at[i].common) {
            char name[80];
            snprintf(name, sizeof name, "--%s", list->at[i].option->name);
            print_roff(out, name);
        }
}

/* Prints the page of a command. */
static void print_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    print_title(command->name, out);
    print_roff(out, command->summary);
    fprintf(out, ".SH SYNOPSIS\n.B esscher %s\n", command->name);
    print_roff(out, command->usage);
    fputs(".SH DESCRIPTION\n", out);
    print_roff(out, command->about);
    fputs(".SH OPTIONS\n", out);
    for (int i = 0; i < list.count && !list.at[i].common; i++)
        print_option(list.at[i].option, out);
    fputs(".TP\n.B \\-h\nprint short help\n.TP\n.B \\-\\-help\nprint all help\n", out);
    print_common_names(&list, out);
    fputs(".SH EXAMPLES\n.nf\n", out);
    for (const char *const *e = command->examples; *e; e++)
        print_roff(out, *e);
    fputs(".fi\n", out);
    print_exits(out);
    fputs(".SH SEE ALSO\n.BR esscher (1)\n", out);
}

/* ---- the program ---- */

static const char program_begin[] =
    "a laboratory for softmax attention at long context\n"
    ".SH SYNOPSIS\n"
    ".B esscher\n.I COMMAND\n[options]\n.br\n"
    ".B esscher help\n[\\fICOMMAND\\fR]\n.br\n"
    ".B esscher \\-\\-help\n.br\n"
    ".B esscher \\-\\-version\n"
    ".SH DESCRIPTION\n"
    "Softmax attention over n tokens is exponential tilting (the Esscher transform) of the\n"
    "distribution of the tokens, estimated from n samples.\n"
    ".B esscher\n"
    "measures what attention does as n grows, exactly and in bounded memory.\n"
    ".PP\n"
    "Results go to stdout: first the findings in sentences, then the tables that support them.\n"
    "Tables are as wide as the terminal.\n.B \\-\\-full\nprints every table with all columns and "
    "rows;\n"
    ".BR \\-\\-sort ,\n.B \\-\\-top\nand, where tables have heads,\n.B \\-\\-layer\nand\n"
    ".B \\-\\-head\nchoose rows.\n.BI \\-\\-format \" FORM\"\nis\n.BR text ,\n.B markdown\nor\n.B "
    "latex\n"
    "for documents, or\n.B csv\nand\n.B json\nfor programs;\n.BR \\-\\-markdown ,\n"
    ".B \\-\\-csv\nand\n.B \\-\\-json\nare short for it. Everything else goes to stderr.\n"
    "The memory bound of a run is printed before it starts. Results have the same bits for any\n"
    "number of threads, and of processes: a study that\n.BR mpirun (1)\nor\n.BR srun (1)\nstarts\n"
    "divides its work among them; rank 0 prints and writes. If the reader of a pipe\n"
    "ends early, as\n.BR head (1)\ndoes, the command ends without an error and its run file is "
    "complete.\n";

static const char program_end[] =
    ".SH ENVIRONMENT\n"
    ".TP\n.B ESSCHER_ISA\nkernels to use: portable, avx2, avx512 or neon\n"
    ".TP\n.B ESSCHER_NO_MPI\nif not empty: run without MPI, as with\n.B \\-\\-no\\-mpi\n"
    ".TP\n.B ESSCHER_MPI_PLUGIN\nthe MPI plugin to load, instead of the one that fits the "
    "launcher\n"
    ".TP\n.B OMP_NUM_THREADS\nnumber of threads without\n.B \\-\\-threads\n"
    ".TP\n.B COLUMNS\nwidth of text output; default: the width of the terminal, or 100\n"
    ".TP\n.B NO_COLOR\nno bold headers on a terminal\n";

/* Returns the title of a group. */
static const char *group_title(es_study_group group)
{
    const cli_group *g = cli_groups;
    while (g->title && g->group != group)
        g++;
    return g->title ? g->title : "";
}

/* Prints a section of definitions, from the same list as `esscher help options`. */
static void print_definitions(const char *title, const cli_definition *list, FILE *out)
{
    fprintf(out, ".SH %s\n", title);
    for (const cli_definition *d = list; d->name; d++) {
        fprintf(out, ".TP\n.B %s\n", d->name);
        print_roff(out, d->text);
    }
}

/* Prints the page of the program: all commands, the common options, values and environment. */
static void print_program(FILE *out)
{
    const cli_command every = {.common = CLI_TAKES_ALL};
    cli_option_list list;
    print_title(NULL, out);
    fputs(program_begin, out);
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; cli_command_at(i); i++) {
        if (i == 0 || cli_command_at(i)->group != cli_command_at(i - 1)->group)
            fprintf(out, ".SS %s\n", group_title(cli_command_at(i)->group));
        fputs(".TP\n.BR esscher\\-", out);
        for (const char *c = cli_command_at(i)->name; *c; c++)
            fprintf(out, *c == '-' ? "\\-" : "%c", *c);
        fputs(" (1)\n", out);
        print_roff(out, cli_command_at(i)->summary);
    }
    fputs(".SH COMMON OPTIONS\nThe page of a command names those that it takes.\n", out);
    cli_options_of(&every, &list);
    for (int i = 0; i < list.count; i++)
        print_option(list.at[i].option, out);
    print_definitions("VALUES", cli_value_forms, out);
    print_definitions("WORDS", cli_words, out);
    fputs(program_end, out);
    print_exits(out);
}

void cli_man_page(const cli_command *command, FILE *out)
{
    if (command)
        print_command(command, out);
    else
        print_program(out);
}
