/* make_model FOLDER : writes a small random BERT with a classifier and a vocabulary into an
 * existing folder, for tests of the program. */
#include "tiny_model.h"

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    tiny t = tiny_default();
    t.labels = 2;
    t.prefix = "bert.";
    t.dtype = "F16";
    snprintf(folder, sizeof folder, "%s", argv[1]);
    tiny_draw(&t);
    tiny_write(&t);
    tiny_write_vocab(&t);
    tiny_free(&t);
    return 0;
}
