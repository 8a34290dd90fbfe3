/* SPDX-License-Identifier: Apache-2.0 */
/* shell_words.h : a command line as one text that a shell takes apart, and back. */
#ifndef CLI_SHELL_WORDS_H
#define CLI_SHELL_WORDS_H

/* "esscher" and the words, quoted where a shell needs it; release with free(). */
char *cli_shell_join(int count, const char *const *words);

/* The words of a text that cli_shell_join() made, "esscher" among them, and a NULL behind them; one
 * piece of memory, to be released with free(). *count is how many, 0 if a quote is left open. */
char **cli_shell_split(const char *text, int *count);

#endif
