/* SPDX-License-Identifier: Apache-2.0 */
/* test_tasks.c : labelled files and paragraphs, read and refused; blocks of token ids of them. */
#include "tiny_model.h"

#include <esscher/tokenizer.h>

#include "model/tasks.h"

static const es_model_config two = {.labels = 2, .label = {"NEGATIVE", "POSITIVE"}};

static es_status parse(const char *text, es_tasks *out)
{
    return es_tasks_parse(text, strlen(text), "t.tsv", &two, NULL, out, &err);
}

/* ---- files ---- */

static void lines_are_texts_with_labels(void **state)
{
    (void)state;
    static const char *const files[] = {"sentence\tlabel\na b\t1\nc\t0\n",
                                        "a b\t1\nc\t0",
                                        "\xef\xbb\xbf"
                                        "a b\t1\r\nc\t0\r\n\r\n",
                                        "a b\tpositive\nc\tNEGATIVE\n",
                                        "a b\tLABEL_1\nc\t0 \n\n \n",
                                        "text\tclass\r\na b\t 1\nc\t0\n"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        es_tasks t;
        assert_ok(parse(files[i], &t));
        assert_int_equal(t.count, 2);
        assert_int_equal(t.at[0].bytes, 3);
        assert_memory_equal(t.at[0].text, "a b", 3);
        assert_int_equal(t.at[0].label, 1);
        assert_memory_equal(t.at[1].text, "c", 1);
        assert_int_equal(t.at[1].label, 0);
        assert_int_equal(t.at[1].line, t.at[0].line + 1);
        es_tasks_free(&t);
    }
}

/* TX05 */
static void TX05_what_is_no_labelled_text_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rule;
        int64_t row;
    } cases[] = {{"", "tasks.rows", 1},
                 {"sentence\tlabel\n", "tasks.rows", 2},
                 {"\n\n", "tasks.rows", 3},
                 {"a\t1\nno tab\n", "tasks.fields", 2},
                 {"a\t1\nb\tc\t1\n", "tasks.fields", 2},
                 {"a\t1\nb\t\n", "tasks.label", 2},
                 {"a\t1\nb\t2\n", "tasks.label", 2},
                 {"a\t7\n", "tasks.label", 1},
                 {"a\t99999999999999999999\n", "tasks.label", 1},
                 {"a\t1\nb\t-1\n", "tasks.label", 2},
                 {"a\t1\nb\t1.0\n", "tasks.label", 2},
                 {"a\t1\nb\tneutral\n", "tasks.label", 2},
                 {"a\t1\n\t1\n", "tasks.text", 2},
                 {"a\t1\n \t1\n", "tasks.text", 2},
                 {"a\t1\n\nb\t1\n", "tasks.blank", 3},
                 {"a\t1\nb\xff\t1\n", "tasks.utf8", 2},
                 {"a\t1\nb\xc3\t1\n", "tasks.utf8", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_tasks t;
        const es_status status = parse(cases[i].text, &t);
        assert_int_not_equal(status, ES_OK);
        assert_string_equal(err.rule, cases[i].rule);
        assert_int_equal(err.row, cases[i].row);
        assert_at_least(err.offset, 0);
        assert_at_most(err.offset, (int64_t)strlen(cases[i].text));
        assert_null(t.at);
    }
    es_tasks t;
    assert_int_equal(es_tasks_parse("a\t1\nb\0c\t1\n", 11, "t", &two, NULL, &t, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "tasks.nul");
}

static void TX05_files_too_large_compressed_or_missing_are_refused_unread(void **state)
{
    (void)state;
    es_mem_limit budget = {0};
    es_tasks t;
    const char *path = write_file("large.tsv", "a\t1\n", 4);
    assert_int_equal(truncate(path, (off_t)ES_TASKS_BYTES + 1), 0); /* sparse: no disk */
    assert_int_equal(es_tasks_load(path, &two, &budget, &t, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "tasks.size");
    assert_int_equal(budget.peak, 0);
    path = write_file("a.tsv.gz", "\x1f\x8b\x08\0\0\0", 6);
    assert_int_equal(es_tasks_load(path, &two, &budget, &t, &err), ES_E_UNSUPPORTED);
    assert_int_equal(es_tasks_load(in_folder("missing"), &two, &budget, &t, &err), ES_E_IO);
    assert_int_equal(es_tasks_load(folder, &two, &budget, &t, &err), ES_E_IO);
    assert_int_equal(budget.used, 0);
}

static void paragraphs_are_divided_by_blank_lines(void **state)
{
    (void)state;
    static const char text[] = "\n\none\ntwo\r\n  \nthree\n\n\n\nfour";
    es_tasks t;
    assert_ok(es_tasks_paragraphs(write_file("p", text, sizeof text - 1), NULL, &t, &err));
    assert_int_equal(t.count, 3);
    assert_int_equal(t.at[0].bytes, 7);
    assert_memory_equal(t.at[0].text, "one\ntwo", 7);
    assert_int_equal(t.at[0].line, 3);
    assert_memory_equal(t.at[1].text, "three", 5);
    assert_memory_equal(t.at[2].text, "four", 4);
    assert_int_equal(t.at[2].label, -1);
    es_tasks_free(&t);
    assert_int_equal(es_tasks_paragraphs(write_file("p", "\n \n", 3), NULL, &t, &err), ES_E_EMPTY);
}

/* ---- blocks ---- */

static es_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    tiny t = tiny_default();
    if (make_folder(state) != 0)
        return -1;
    tiny_write_vocab(&t);
    return es_tokenizer_open(folder, NULL, &tokenizer, &err) == ES_OK ? 0 : -1;
}

static int close_tokenizer(void **state)
{
    es_tokenizer_free(tokenizer);
    return remove_folder(state);
}

static es_task_spec spec_of(int64_t positions)
{
    return (es_task_spec){.tokenizer = tokenizer, .positions = positions, .least = 1};
}

static void texts_stand_between_specials_and_end_at_the_model(void **state)
{
    (void)state;
    es_tasks t;
    es_task_blocks b;
    es_task_spec spec = spec_of(5);
    assert_ok(parse("the cat\t1\nthe cat sat on the mat\t0\n", &t));
    assert_ok(es_tasks_encode(&t, &spec, NULL, &b, &err));
    const int32_t want[] = {TINY_CLS, 5, 6, TINY_SEP, TINY_CLS, 5, 6, 7, TINY_SEP};
    assert_int_equal(b.blocks.count, 2);
    assert_int_equal(b.blocks.start[1], 4);
    assert_int_equal(b.blocks.start[2], 9);
    assert_memory_equal(b.blocks.ids, want, sizeof want);
    assert_int_equal(b.labels[0], 1);
    assert_int_equal(b.labels[1], 0);
    assert_int_equal(b.cut, 1);
    assert_int_equal(b.longest, 5);
    assert_int_equal(b.ids, 9);
    es_task_blocks_free(&b);
    spec.most = 1;
    assert_ok(es_tasks_encode(&t, &spec, NULL, &b, &err));
    assert_int_equal(b.blocks.count, 1);
    assert_int_equal(b.left_out, 1);
    es_task_blocks_free(&b);
    es_tasks_free(&t);
    assert_ok(parse("the\t1\n\xc2\xad\t0\n", &t)); /* a soft hyphen, which cleaning drops */
    assert_int_equal(es_tasks_encode(&t, &spec, NULL, &b, &err), ES_E_EMPTY);
    assert_string_equal(err.rule, "tasks.tokens");
    assert_int_equal(err.row, 2);
    es_tasks_free(&t);
}

/* A line of 8 MiB of words takes no more memory than its first few tokens. */
static void TX05_long_lines_take_little_memory(void **state)
{
    (void)state;
    const size_t size = 1 << 23;
    es_mem_limit budget = {0};
    es_tasks t;
    es_task_blocks b;
    const es_task_spec spec = spec_of(40);
    char *text = malloc(size);
    for (size_t i = 0; i < size; i++)
        text[i] = "the "[i % 4];
    memcpy(text + size - 3, "\t1\n", 3);
    assert_ok(es_tasks_parse(text, size, "t", &two, &budget, &t, &err));
    assert_ok(es_tasks_encode(&t, &spec, &budget, &b, &err));
    assert_int_equal(b.blocks.start[1], 40);
    assert_below(budget.peak, 1 << 20);
    es_task_blocks_free(&b);
    es_tasks_free(&t);
    assert_int_equal(budget.used, 0);
    free(text);
}

/* 7 texts of label 0 and 5 of label 1, word15 .. word26, in documents of 2: each text at most once,
 * labels taking turns, a shuffle that depends on the seed alone. */
static void documents_are_made_of_one_label(void **state)
{
    (void)state;
    char text[512] = "";
    es_tasks t;
    es_task_blocks a, b;
    es_task_spec spec = spec_of(40);
    for (int i = 0; i < 12; i++)
        sprintf(text + strlen(text), "word%d\t%d\n", 15 + i, i % 12 < 10 ? i % 2 : 0);
    assert_ok(parse(text, &t));
    spec.concat = 2;
    spec.seed = 5;
    assert_ok(es_tasks_encode(&t, &spec, NULL, &a, &err));
    assert_int_equal(a.blocks.count, 5); /* 3 of label 0, 2 of label 1 */
    assert_int_equal(a.left_out, 2);
    bool seen[31] = {false};
    for (int64_t i = 0; i < 5; i++) {
        const int32_t *ids = a.blocks.ids + a.blocks.start[i];
        assert_int_equal(a.blocks.start[i + 1] - a.blocks.start[i], 4);
        assert_int_equal(a.labels[i], i == 4 ? 0 : i % 2);
        for (int k = 1; k < 3; k++) {
            const int word = ids[k] - 15;
            assert_int_equal(word < 10 ? word % 2 : 0, a.labels[i]);
            assert_false(seen[ids[k]]);
            seen[ids[k]] = true;
        }
    }
    assert_ok(es_tasks_encode(&t, &spec, NULL, &b, &err));
    assert_memory_equal(a.blocks.ids, b.blocks.ids, 20 * sizeof(int32_t));
    es_task_blocks_free(&b);
    spec.seed = 6;
    assert_ok(es_tasks_encode(&t, &spec, NULL, &b, &err));
    assert_memory_not_equal(a.blocks.ids, b.blocks.ids, 20 * sizeof(int32_t));
    es_task_blocks_free(&b);
    es_task_blocks_free(&a);
    spec.concat = 8;
    assert_int_equal(es_tasks_encode(&t, &spec, NULL, &b, &err), ES_E_EMPTY);
    es_tasks_free(&t);
}

TEST_FILE(tasks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_texts_with_labels),
        cmocka_unit_test(TX05_what_is_no_labelled_text_is_refused_with_its_line),
        cmocka_unit_test(TX05_files_too_large_compressed_or_missing_are_refused_unread),
        cmocka_unit_test(paragraphs_are_divided_by_blank_lines),
        cmocka_unit_test(texts_stand_between_specials_and_end_at_the_model),
        cmocka_unit_test(TX05_long_lines_take_little_memory),
        cmocka_unit_test(documents_are_made_of_one_label),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
