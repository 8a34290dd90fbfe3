/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_split.c : models that are split into several GGUF files. */
#include "testing.h"

#include "gguf_writer.h"

#include "base/memory.h"

static gguf_draft g;

/* What a test writes about one file of a split model. */
typedef struct split_file {
    const char *file;
    int number, count, tensors; /* the values split.*; tensors < 0: without that value */
    const char *tensor;         /* its one tensor of 8 f32, NULL: none */
    float first;                /* number of the tensor; the others follow by 1 */
} split_file;

static const char *write_split(const split_file *s)
{
    put_begin(&g, 3, s->tensor ? 1 : 0, s->tensors < 0 ? 3 : 4);
    put_string(&g, "which", s->file);
    put_key(&g, "split.no", ES_GGUF_U16);
    put_number(&g, (uint64_t)s->number, 2);
    put_key(&g, "split.count", ES_GGUF_U16);
    put_number(&g, (uint64_t)s->count, 2);
    if (s->tensors >= 0) {
        put_key(&g, "split.tensors.count", ES_GGUF_I32);
        put_number(&g, (uint64_t)s->tensors, 4);
    }
    if (s->tensor) {
        put_tensor(&g, s->tensor, 4, 2, 0, 0);
        put_padding(&g, 32);
        for (int i = 0; i < 8; i++) {
            const float x = s->first + (float)i;
            put_bytes(&g, &x, sizeof x);
        }
    }
    return write_file(s->file, g.bytes, g.size);
}

static const split_file parts[] = {{"m-00001-of-00003.gguf", 0, 3, 3, "b", 10},
                                   {"m-00002-of-00003.gguf", 1, 3, 3, "c", 20},
                                   {"m-00003-of-00003.gguf", 2, 3, 3, "a", 30}};

/* Writes the three files of a good model, and file `i` with another content if `other` is given. */
static void write_parts(int i, const split_file *other)
{
    for (int k = 2; k >= 0; k--)
        write_split(other && k == i ? other : &parts[k]);
}

static void refuse_split(const char *file, const char *rule, const char *word)
{
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    es_gguf *model;
    const es_status status = es_gguf_open(in_folder(file), &opts, &model, &err);
    if (status != ES_E_FORMAT || strcmp(err.rule, rule) != 0 ||
        !(strstr(err.message, word) || strstr(err.hint, word)))
        fail_msg("%s %s: %s (%s), expected %s with %s", es_status_name(status), err.rule,
                 err.message, err.hint, rule, word);
    assert_null(model);
    assert_int_equal(budget.used, 0);
}

static void the_first_file_opens_all(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    static const float firsts[] = {30, 10, 20};
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    es_gguf *model;
    es_gguf_text text = {0};
    float x[8];
    write_parts(0, NULL);
    assert_ok(es_gguf_open(in_folder(parts[0].file), &opts, &model, &err));
    assert_int_equal(model->n_parts, 3);
    assert_int_equal(model->header.count, 3);
    assert_ok(es_gguf_string(&model->header, "which", true, &text, &err));
    assert_true(es_gguf_text_is(text, parts[0].file));
    for (int i = 0; i < 3; i++) {
        es_st_seen seen = {.first = -1};
        const es_st_tensor *t = &model->header.tensors[i];
        assert_string_equal(t->name, names[i]);
        assert_int_equal(t->file, (i + 2) % 3);
        assert_ok(es_gguf_read(model, t, ES_F32, x, NULL, &err));
        for (int k = 0; k < 8; k++)
            assert_near((double)x[k], (double)firsts[i] + k, 0);
        assert_ok(es_gguf_read_rows(model, t, 1, 1, ES_F32, x, &seen, &err));
        assert_near((double)x[0], (double)firsts[i] + 4, 0);
    }
    es_gguf_close(model);
    assert_int_equal(budget.used, 0);
}

/* A first file without tensors, as `llama-gguf-split --no-tensor-first-split` writes it; and a
 * split into one file. */
static void other_splits_are_opened(void **state)
{
    (void)state;
    split_file none = parts[0], one = parts[0];
    es_gguf *model;
    none.tensor = NULL;
    none.tensors = 2;
    write_parts(0, &none);
    assert_ok(es_gguf_open(in_folder(none.file), NULL, &model, &err));
    assert_int_equal(model->header.count, 2);
    es_gguf_close(model);
    one.file = "any name.gguf";
    one.count = 1;
    assert_ok(es_gguf_open(write_split(&one), NULL, &model, &err));
    assert_int_equal(model->n_parts, 1);
    es_gguf_close(model);
}

static void GG09_other_parts_name_the_first(void **state)
{
    (void)state;
    write_parts(0, NULL);
    refuse_split(parts[1].file, "gguf.split", "use m-00001-of-00003.gguf");
    refuse_split(parts[2].file, "gguf.split", "part 3 of 3");
    split_file renamed = parts[1];
    renamed.file = "second.gguf";
    write_split(&renamed);
    refuse_split("second.gguf", "gguf.split", "NAME-00001-of-00003.gguf");
    renamed = parts[0];
    renamed.file = "m-00001-of-00004.gguf";
    write_split(&renamed);
    refuse_split("m-00001-of-00004.gguf", "gguf.split", "-00001-of-00003.gguf");
}

static void GG09_missing_parts_are_named(void **state)
{
    (void)state;
    write_parts(0, NULL);
    assert_int_equal(remove(in_folder(parts[2].file)), 0);
    refuse_split(parts[0].file, "gguf.split", "m-00003-of-00003.gguf");
}

/* Every part is checked: its values, its tensors, its data. */
static void GG09_parts_that_do_not_fit(void **state)
{
    (void)state;
    split_file other = parts[1];
    other.number = 2;
    write_parts(1, &other);
    refuse_split(parts[0].file, "gguf.split", "part 3 of 3");
    other = parts[1];
    other.count = 2;
    write_parts(1, &other);
    refuse_split(parts[0].file, "gguf.split", "part 2 of 2");
    other = parts[1];
    other.tensor = "a";
    write_parts(1, &other);
    refuse_split(parts[0].file, "gguf.duplicate", "'a'");
    other = parts[0];
    other.tensors = 4;
    write_parts(0, &other);
    refuse_split(parts[0].file, "gguf.split", "split.tensors.count is 4");
    other.tensors = -1;
    write_parts(0, &other);
    refuse_split(parts[0].file, "gguf.missing", "split.tensors.count");
    other = parts[0];
    other.number = 3;
    write_parts(0, &other);
    refuse_split(parts[0].file, "gguf.split", "split.no is 3");
    write_parts(0, NULL);
    write_split(&parts[1]);
    write_file(parts[1].file, g.bytes, g.size - 1);
    refuse_split(parts[0].file, "gguf.range", "'c'");
    assert_non_null(strstr(err.file, parts[1].file));
    write_file(parts[1].file, "GGUG", 4);
    refuse_split(parts[0].file, "gguf.magic", "GGUF");
}

TEST_FILE(gguf_split)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_file_opens_all),
        cmocka_unit_test(other_splits_are_opened),
        cmocka_unit_test(GG09_other_parts_name_the_first),
        cmocka_unit_test(GG09_missing_parts_are_named),
        cmocka_unit_test(GG09_parts_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
