#include "completion.h"

#include <string.h>

#include "command.h"
#include "options.h"

/* Does the argument of this option name a file? */
static bool is_file(const cli_option *o)
{
    static const char *const names[] = {"FILE", "RUN", "DIR", "MODEL"};
    for (size_t i = 0; o->argument && i < sizeof names / sizeof names[0]; i++)
        if (strncmp(o->argument, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void print_words(FILE *out, const char *const *words)
{
    for (; *words; words++)
        fprintf(out, "%s%s", *words, words[1] ? " " : "");
}

/* ---- bash ---- */

static void bash_command(const cli_command *command, FILE *out)
{
    cli_option_list list;
    cli_options_of(command, &list);
    for (int i = 0; i < list.count; i++) {
        const cli_option *o = list.at[i].option;
        if (o->kind == CLI_CHOICE) {
            fprintf(out, "    %s:--%s) words='", command->name, o->name);
            print_words(out, o->choices);
            fputs("' ;;\n", out);
        } else if (o->argument) {
            fprintf(out, "    %s:--%s) %s ;;\n", command->name, o->name,
                    is_file(o) ? "files=yes" : "return");
        }
    }
    fprintf(out, "    %s:*) words='", command->name);
    for (int i = 0; i < list.count; i++)
        fprintf(out, "--%s ", list.at[i].option->name);
    fprintf(out, "--help'%s ;;\n", command->operand ? " files=operand" : "");
}

static void bash(FILE *out)
{
    fputs("# bash completion for esscher; made by: esscher help --completion bash\n"
          "_esscher() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' "
          "files=''\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          out);
    for (int i = 0; cli_command_at(i); i++)
        fprintf(out, "%s ", cli_command_at(i)->name);
    fputs("help --help --version' -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]}:$prev in\n",
          out);
    for (int i = 0; cli_command_at(i); i++)
        bash_command(cli_command_at(i), out);
    fputs("    help:*) words='", out);
    for (int i = 0; cli_command_at(i); i++)
        fprintf(out, "%s ", cli_command_at(i)->name);
    fputs("--man --completion' ;;\n"
          "    esac\n"
          "    # an operand is a file, unless an option has been begun\n"
          "    if [ \"$files\" = yes ] || { [ \"$files\" = operand ] && [ \"${cur#-}\" = \"$cur\" "
          "]; }; then\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _esscher esscher\n",
          out);
}

/* ---- zsh ---- */

/* Text inside '...' and [...] of _arguments: its first sentence is enough. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text && *text != '\n' && *text != ';' && *text != '('; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_option(const cli_option *o, FILE *out)
{
    fprintf(out, "            '--%s[", o->name);
    zsh_text(out, o->help);
    fputs("]", out);
    if (o->argument) {
        fputs(":", out);
        zsh_text(out, o->argument);
        fputs(":", out);
        if (o->kind == CLI_CHOICE) {
            fputs("(", out);
            print_words(out, o->choices);
            fputs(")", out);
        } else if (is_file(o)) {
            fputs("_files", out);
        }
    }
    fputs("' \\\n", out);
}

static void zsh(FILE *out)
{
    fputs("#compdef esscher\n"
          "# zsh completion for esscher; made by: esscher help --completion zsh\n"
          "_esscher() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (int i = 0; cli_command_at(i); i++) {
        fprintf(out, "        '%s:", cli_command_at(i)->name);
        zsh_text(out, cli_command_at(i)->summary);
        fputs("'\n", out);
    }
    fputs("        'help:help for a command'\n"
          "    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe 'command' commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n",
          out);
    for (int i = 0; cli_command_at(i); i++) {
        cli_option_list list;
        cli_options_of(cli_command_at(i), &list);
        fprintf(out, "    %s)\n        _arguments \\\n", cli_command_at(i)->name);
        for (int j = 0; j < list.count; j++)
            zsh_option(list.at[j].option, out);
        fprintf(out, "            '--help[help]'%s\n        ;;\n",
                cli_command_at(i)->operand ? " \\\n            '*:file:_files'" : "");
    }
    fputs("    help) _describe 'command' commands ;;\n"
          "    esac\n"
          "}\n"
          "_esscher \"$@\"\n",
          out);
}

bool cli_completion(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        bash(out);
    else if (strcmp(shell, "zsh") == 0)
        zsh(out);
    else
        return false;
    return true;
}
