/* SPDX-License-Identifier: Apache-2.0 */
/* shell_words.c : quotes and splits words as a POSIX shell does, for the command line that a run
 * file records. */
#include "shell_words.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

char *cli_shell_join(int count, const char *const *words)
{
    size_t size = 16;
    for (int i = 0; i < count; i++)
        size += 4 * strlen(words[i]) + 3; /* a quote becomes four characters */
    char *line = cli_alloc(size);
    size_t used = (size_t)snprintf(line, size, "esscher");
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        const bool plain =
            word[0] && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                    "WXYZ0123456789-_=.,/:+@%") == strlen(word);
        line[used++] = ' ';
        if (!plain)
            line[used++] = '\'';
        for (const char *c = word; *c; c++) {
            if (*c == '\'')
                used += (size_t)snprintf(line + used, size - used, "'\\''");
            else
                line[used++] = *c;
        }
        if (!plain)
            line[used++] = '\'';
    }
    line[used] = '\0';
    return line;
}

/* One word at *from, unquoted, to `to`; leaves *from behind it. false: a quote is left open. */
static bool take_word(const char **from, char **to)
{
    bool quoted = false;
    const char *c = *from;
    for (; *c && (quoted || *c != ' '); c++) {
        if (*c == '\'')
            quoted = !quoted;
        else if (!quoted && *c == '\\' && c[1])
            *(*to)++ = *++c;
        else
            *(*to)++ = *c;
    }
    *(*to)++ = '\0';
    *from = c;
    return !quoted;
}

char **cli_shell_split(const char *text, int *count)
{
    /* every word but the last takes a space, so this bounds their number */
    const size_t length = strlen(text), most = length / 2 + 2;
    char **words = cli_alloc(most * sizeof *words + length + 2);
    char *to = (char *)(words + most);
    *count = 0;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        words[*count] = to;
        if (!take_word(&text, &to)) {
            *count = 0;
            break;
        }
        ++*count;
    }
    words[*count] = NULL;
    return words;
}
