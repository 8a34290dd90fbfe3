/* SPDX-License-Identifier: Apache-2.0 */
/* papers.h : the registry of experiments of papers, for `esscher paper`. */
#ifndef CLI_PAPERS_H
#define CLI_PAPERS_H

enum { CLI_PAPER_WORDS = 24 };

/* An experiment of a paper: a study with the paper's parameters. One row of the table in papers.c.
 */
typedef struct cli_paper_row {
    const char *name;
    const char *paper;                  /* arXiv number */
    const char *about;                  /* what is measured: one line, no full stop */
    const char *words[CLI_PAPER_WORDS]; /* a command line: study, then options; NULL-ended */
    const char *quick[CLI_PAPER_WORDS]; /* options that --quick has instead; NULL-ended */
    const char *inputs;                 /* options that the user must give; NULL: none */
    const char *figure;                 /* title of the figure that has the paper's form, without
                                           what follows a number; NULL: none */
    const char *cost;                   /* of the full size, about */
} cli_paper_row;

/* Returns the rows in the order of the list; NULL beyond the last. */
const cli_paper_row *cli_paper_at(int at);

/* Returns the row of that name; NULL if there is none. */
const cli_paper_row *cli_paper_find(const char *name);

/* Replaces the command line "esscher paper NAME ..." by that of the study which it stands for, and
 * prints that line on stderr. argv is left as it is for any other command line, and for a name
 * that is not in the list. Returns the new argv, which the caller frees after its last use, or NULL
 * if argv was left as it is. */
char **cli_paper_expand(int *argc, char ***argv);

#endif
