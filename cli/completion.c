/* SPDX-License-Identifier: Apache-2.0 */
/* completion.c : completion scripts for bash, zsh and fish, generated from the tables of commands
 * and options, so that they cannot disagree with what the program accepts. */
#include "completion.h"

#include <string.h>

#include <esscher/study.h>

#include "command.h"
#include "options.h"

const char *const cli_completion_shells[] = {"bash", "zsh", "fish", NULL};

/* ---- what a value may be ---- */

typedef enum wanted {
    WANTS_NOTHING, /* a flag */
    WANTS_ANYTHING,
    WANTS_WORDS, /* of a list that is known now: choices, commands, claims */
    WANTS_FILE,
    WANTS_TABLE /* of the run file on the line: the program is asked */
} wanted;

/* Returns what an option takes as its value, by its kind. */
static wanted wanted_by(const cli_option *o)
{
    switch (o->kind) {
    case ES_PARAM_FLAG:
        return WANTS_NOTHING;
    case ES_PARAM_CHOICE:
        return WANTS_WORDS;
    case ES_PARAM_FILE:
    case ES_PARAM_FILES:
    case ES_PARAM_NAMED:
    case ES_PARAM_MODEL:
    case ES_PARAM_OUTPUT:
        return WANTS_FILE;
    default:
        return !o->argument                        ? WANTS_NOTHING
               : strcmp(o->argument, "TABLE") == 0 ? WANTS_TABLE
               : strcmp(o->argument, "COMMAND") == 0 || strcmp(o->argument, "CLAIM") == 0
                   ? WANTS_WORDS
                   : WANTS_ANYTHING;
    }
}

/* The word number `at` of those an option may be; NULL beyond the last. */
static const char *word_at(const cli_option *o, int at)
{
    if (o->kind == ES_PARAM_CHOICE)
        return o->choices[at];
    if (strcmp(o->argument, "COMMAND") == 0) /* of help, which explains `options`, too */
        return cli_command_at(at)                 ? cli_command_at(at)->name
               : at > 0 && cli_command_at(at - 1) ? "options"
                                                  : NULL;
    return es_claim_id_at(at);
}

/* Prints the words that an option may be. */
static void print_words(const cli_option *o, FILE *out)
{
    for (int i = 0; word_at(o, i); i++)
        fprintf(out, "%s%s", i ? " " : "", word_at(o, i));
}

/* Prints the names of all commands. */
static void print_commands(FILE *out)
{
    for (int i = 0; cli_command_at(i); i++)
        fprintf(out, "%s ", cli_command_at(i)->name);
}

/* The first sentence of a help text, between single quotes; `special` gets a backslash. */
static void print_text(FILE *out, const char *text, const char *special)
{
    for (; *text && *text != '\n' && *text != ';' && *text != '('; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(special, *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* What a shell calls the kinds of values: a list of words between `before` and `after`, files, the
 * tables of a run file, nothing to offer. */
typedef struct value_code {
    const char *before, *after, *file, *table, *nothing;
} value_code;

/* Prints the code that offers values of an option. */
static void print_value(const cli_option *o, const value_code *code, FILE *out)
{
    const int kind = wanted_by(o);
    if (kind == WANTS_WORDS) {
        fputs(code->before, out);
        print_words(o, out);
        fputs(code->after, out);
    } else {
        fputs(kind == WANTS_FILE    ? code->file
              : kind == WANTS_TABLE ? code->table
                                    : code->nothing,
              out);
    }
}

/* ---- bash ---- */

/* Prints the shell code that offers values of an option. */
static void bash_value(const cli_option *o, FILE *out)
{
    static const value_code code = {"words='", "'", "files=yes", "words=$(_esscher_tables)",
                                    "return"};
    print_value(o, &code, out);
}

/* Prints the cases of one command. */
static void bash_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    for (int i = 0; i < list.count; i++) {
        const cli_option *o = list.at[i].option;
        if (wanted_by(o) == WANTS_NOTHING)
            continue;
        fprintf(out, "    %s:--%s", command->name, o->name);
        if (o->letter)
            fprintf(out, " | %s:-%c", command->name, o->letter);
        fputs(") ", out);
        bash_value(o, out);
        fputs(" ;;\n", out);
    }
    fprintf(out, "    %s:*)\n        case $cur in\n        -*) words='", command->name);
    for (int i = 0; i < list.count; i++)
        fprintf(out, "--%s ", list.at[i].option->name);
    fputs("--help' ;;\n", out);
    if (command->operand) {
        fputs("        *) ", out);
        bash_value(command->operand, out);
        fputs(" ;;\n", out);
    }
    fputs("        esac\n        ;;\n", out);
}

/* Prints the completion script for bash. */
static void bash(FILE *out)
{
    fputs("# bash completion for esscher; made by: esscher help --completion bash\n"
          "\n"
          "# The tables of the first run file on the line.\n"
          "_esscher_tables() {\n"
          "    local word\n"
          "    for word in \"${COMP_WORDS[@]:2}\"; do\n"
          "        word=${word/#\\~/$HOME}\n"
          "        if [ -f \"$word\" ]; then\n"
          "            \"${COMP_WORDS[0]/#\\~/$HOME}\" export \"$word\" --csv 2>/dev/null |\n"
          "                sed '1d; s/,.*//'\n"
          "            return\n"
          "        fi\n"
          "    done\n"
          "}\n"
          "\n"
          "_esscher() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' "
          "files=''\n"
          "    COMPREPLY=()\n"
          "    # --option=value comes in three words\n"
          "    if [ \"$cur\" = '=' ]; then\n"
          "        cur=''\n"
          "    elif [ \"$prev\" = '=' ]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    print_commands(out);
    fputs("--help --version' -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]}:$prev in\n",
          out);
    for (int i = 0; cli_command_at(i); i++)
        bash_command(cli_command_at(i), out);
    fputs("    esac\n"
          "    if [ \"$files\" = yes ]; then\n"
          "        compopt -o filenames 2>/dev/null || :\n"
          "        local IFS=$'\\n'\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _esscher esscher\n",
          out);
}

/* ---- zsh ---- */

#define ZSH_SPECIAL "[]:\\"

/* :WHAT:ACTION of an argument's specification */
static void zsh_value(const cli_option *o, FILE *out)
{
    static const value_code code = {"(", ")", "_files", "_esscher_tables", " "};
    fputs(":", out);
    print_text(out, o->argument, ZSH_SPECIAL);
    fputs(":", out);
    print_value(o, &code, out);
}

/* Returns true for options that may be given several times. */
static bool takes_more(const cli_option *o)
{
    return o->kind == ES_PARAM_TEXTS || o->kind == ES_PARAM_FILES || o->kind == ES_PARAM_NAMED;
}

/* Prints one option as a specification of _arguments. */
static void zsh_option(const cli_option *o, FILE *out)
{
    fputs("            ", out);
    if (takes_more(o))
        fputs("'*'", out);
    else if (o->letter)
        fprintf(out, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter)
        fprintf(out, "{-%c,--%s}'[", o->letter, o->name);
    else
        fprintf(out, "'--%s[", o->name);
    print_text(out, o->help, ZSH_SPECIAL);
    fputs("]", out);
    if (o->argument)
        zsh_value(o, out);
    fputs("' \\\n", out);
}

/* Prints the options of one command. */
static void zsh_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    fprintf(out, "    %s)\n        _arguments \\\n", command->name);
    for (int i = 0; i < list.count; i++)
        zsh_option(list.at[i].option, out);
    fputs("            '-h[short help]' '--help[all help]'", out);
    if (command->operand) {
        fputs(takes_more(command->operand) ? " \\\n            '*" : " \\\n            '1", out);
        zsh_value(command->operand, out);
        fputs("'", out);
    }
    fputs("\n        ;;\n", out);
}

/* Prints the completion script for zsh. */
static void zsh(FILE *out)
{
    fputs("#compdef esscher\n"
          "# zsh completion for esscher; made by: esscher help --completion zsh\n"
          "\n"
          "# The tables of the first run file on the line.\n"
          "_esscher_tables() {\n"
          "    local word\n"
          "    local -a tables\n"
          "    for word in ${(Q)words[2,-1]}; do\n"
          "        if [[ -f ${~word} ]]; then\n"
          "            tables=(${(f)\"$($program export ${~word} --csv 2>/dev/null | "
          "sed '1d; s/,.*//')\"})\n"
          "            compadd -a tables\n"
          "            return\n"
          "        fi\n"
          "    done\n"
          "}\n"
          "\n"
          "_esscher() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (int i = 0; cli_command_at(i); i++) {
        fprintf(out, "        '%s:", cli_command_at(i)->name);
        print_text(out, cli_command_at(i)->summary, ZSH_SPECIAL);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe 'command' commands\n"
          "        return\n"
          "    fi\n"
          "    local program=${~words[1]} command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n",
          out);
    for (int i = 0; cli_command_at(i); i++)
        zsh_command(cli_command_at(i), out);
    fputs("    esac\n"
          "}\n"
          "_esscher \"$@\"\n",
          out);
}

/* ---- fish ---- */

/* In single quotes of fish a quote is \', not '\''. */
static void fish_text(FILE *out, const char *text)
{
    fputs(" -d '", out);
    for (; *text && *text != '\n' && *text != ';' && *text != '('; text++)
        fprintf(out, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputs("'", out);
}

/* What is offered: -x takes an argument and no files, -r one and files. */
static void fish_value(const cli_option *o, const char *taken, FILE *out)
{
    switch (wanted_by(o)) {
    case WANTS_WORDS:
        fprintf(out, " %s -a '", taken);
        print_words(o, out);
        fputs("'", out);
        break;
    case WANTS_TABLE:
        fprintf(out, " %s -a '(__esscher_tables)'", taken);
        break;
    default:
        fprintf(out, " %s", taken);
    }
}

/* Prints the completions of one command. */
static void fish_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    const cli_option *operand = command->operand;
    fprintf(out, "complete -c esscher -n __fish_use_subcommand -f -a %s", command->name);
    fish_text(out, command->summary);
    if (!operand || wanted_by(operand) != WANTS_FILE) {
        fprintf(out, "\ncomplete -c esscher -n '__esscher_in %s'", command->name);
        if (operand)
            fish_value(operand, "-f", out);
        else
            fputs(" -f", out);
    }
    fputc('\n', out);
    for (int i = 0; i < list.count; i++) {
        const cli_option *o = list.at[i].option;
        fprintf(out, "complete -c esscher -n '__esscher_in %s' -l %s", command->name, o->name);
        if (o->letter)
            fprintf(out, " -s %c", o->letter);
        if (wanted_by(o) == WANTS_FILE)
            fputs(" -r -F", out);
        else if (wanted_by(o) != WANTS_NOTHING)
            fish_value(o, "-x", out);
        fish_text(out, o->help);
        fputc('\n', out);
    }
}

/* Prints the completion script for fish. */
static void fish(FILE *out)
{
    fputs("# fish completion for esscher; made by: esscher help --completion fish\n"
          "\n"
          "function __esscher_in --description 'is this the command of the line?'\n"
          "    set -l words (commandline -opc)\n"
          "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
          "end\n"
          "\n"
          "function __esscher_tables --description 'tables of the first run file on the line'\n"
          "    set -l words (commandline -opc)\n"
          "    for word in $words[3..-1]\n"
          "        if test -f $word\n"
          "            $words[1] export $word --csv 2>/dev/null | sed '1d; s/,.*//'\n"
          "            return\n"
          "        end\n"
          "    end\n"
          "end\n"
          "\n"
          "complete -c esscher -n __fish_use_subcommand -f -l version -d 'version and build'\n"
          "complete -c esscher -f -s h -l help -d help\n",
          out);
    for (int i = 0; cli_command_at(i); i++)
        fish_command(cli_command_at(i), out);
}

void cli_completion(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        bash(out);
    else if (strcmp(shell, "zsh") == 0)
        zsh(out);
    else
        fish(out);
}
