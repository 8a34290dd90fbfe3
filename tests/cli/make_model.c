/* make_model FOLDER : writes a small random BERT with a classifier and a vocabulary into an
 * existing folder, for tests of the program. */
#include "tiny_model.h"

static void write_vocab(int64_t size)
{
    static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                        "the",   "cat",   "sat",   "on",    "mat",
                                        ".",     ",",     "un",    "##aff", "##able"};
    const int64_t known = sizeof words / sizeof words[0];
    FILE *file = fopen(in_folder("vocab.txt"), "w");
    assert_non_null(file);
    for (int64_t i = 0; i < size; i++) {
        if (i < known)
            fprintf(file, "%s\n", words[i]);
        else
            fprintf(file, "word%d\n", (int)i);
    }
    assert_int_equal(fclose(file), 0);
}

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
    write_vocab(t.vocab);
    tiny_free(&t);
    return 0;
}
