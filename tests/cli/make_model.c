/* SPDX-License-Identifier: Apache-2.0 */
/* make_model FOLDER [distilbert] : writes a small random BERT, or DistilBERT, with a classifier and
 * a vocabulary into an existing folder, for tests of the program. */
#include "tiny_distilbert.h"

int main(int argc, char **argv)
{
    const bool distil = argc == 3 && strcmp(argv[2], "distilbert") == 0;
    if (argc != 2 && !distil) {
        fprintf(stderr, "usage: %s FOLDER [distilbert]\n", argv[0]);
        return 2;
    }
    tiny t = distil ? distil_default() : tiny_default();
    t.labels = 2;
    t.prefix = distil ? "distilbert." : "bert.";
    t.dtype = "F16";
    snprintf(folder, sizeof folder, "%s", argv[1]);
    if (distil) {
        distil_draw(&t);
        distil_write(&t, false);
    } else {
        tiny_draw(&t);
        tiny_write(&t);
    }
    tiny_write_vocab(&t);
    tiny_free(&t);
    return 0;
}
