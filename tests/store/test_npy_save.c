/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy_save.c : writing .npy files: all of it or nothing. */
#include "testing.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "folder.h"
#include "store/file.h"
#include "store/npy.h"
#include <esscher/npy.h>

static void round_trip_keeps_every_bit(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{24}, {6, 4}, {2, 3, 4}, {2, 1, 3, 4}};
    double wide[24];
    float narrow[24];
    for (int i = 0; i < 24; i++) {
        wide[i] = i == 5 ? -0.0 : i == 6 ? INFINITY : i == 7 ? 5e-324 : 1.0 / (i + 1);
        narrow[i] = (float)wide[i];
    }
    for (int rank = 1; rank <= 4; rank++) {
        for (int d = ES_F32; d <= ES_F64; d++) {
            const void *data = d == ES_F32 ? (const void *)narrow : wide;
            es_mem_limit budget = {0};
            es_array a;
            es_npy_info info;
            const char *path = in_folder("trip.npy");
            assert_ok(es_npy_save(path, (es_dtype)d, rank, shapes[rank - 1], data, true, &err));
            assert_ok(es_npy_inspect(path, &info, &err));
            assert_ok(es_npy_load(path, &budget, &a, &err));
            assert_int_equal(a.dtype, d);
            assert_int_equal(a.rank, rank);
            assert_int_equal(info.bytes, 24 * es_dtype_size(a.dtype));
            assert_int_equal((uintptr_t)a.data % 64, 0);
            for (int i = 0; i < 4; i++)
                assert_int_equal(a.shape[i], i < rank ? shapes[rank - 1][i] : 1);
            assert_memory_equal(a.data, data, (size_t)info.bytes);
            es_array_free(&a);
            assert_int_equal(budget.used, 0);
        }
    }
    assert_int_equal(count_files(true), 1);
}

static void save_refuses_to_replace_unless_asked(void **state)
{
    (void)state;
    static const float x[2] = {1, 2}, y[2] = {3, 4};
    const int64_t shape[1] = {2};
    es_array a;
    count_files(true);
    const char *path = in_folder("out.npy");
    assert_ok(es_npy_save(path, ES_F32, 1, shape, x, false, &err));
    assert_int_equal(es_npy_save(path, ES_F32, 1, shape, y, false, &err), ES_E_EXISTS);
    assert_string_equal(err.rule, "file.exists");
    assert_ok(es_npy_load(path, NULL, &a, &err));
    assert_memory_equal(a.data, x, sizeof x);
    es_array_free(&a);
    assert_ok(es_npy_save(path, ES_F32, 1, shape, y, true, &err));
    assert_ok(es_npy_load(path, NULL, &a, &err));
    assert_memory_equal(a.data, y, sizeof y);
    es_array_free(&a);
    assert_int_equal(count_files(true), 1);
}

static void save_checks_its_arguments(void **state)
{
    (void)state;
    static const float x[1];
    const char *path = in_folder("never.npy");
    assert_int_equal(es_npy_save(path, (es_dtype)7, 1, (int64_t[]){1}, x, true, &err),
                     ES_E_ARGUMENT);
    assert_int_equal(es_npy_save(path, ES_F32, 0, (int64_t[]){1}, x, true, &err), ES_E_ARGUMENT);
    assert_int_equal(es_npy_save(path, ES_F32, 5, (int64_t[]){1}, x, true, &err), ES_E_ARGUMENT);
    assert_int_equal(es_npy_save(path, ES_F32, 1, (int64_t[]){-1}, x, true, &err), ES_E_SHAPE);
    assert_int_equal(es_npy_save(path, ES_F32, 1, (int64_t[]){1}, NULL, true, &err), ES_E_ARGUMENT);
    const int64_t big = INT64_C(1) << 40;
    assert_int_equal(es_npy_save(path, ES_F32, 2, (int64_t[]){big, big}, x, true, &err),
                     ES_E_OVERFLOW);
    assert_int_equal(es_npy_save(folder, ES_F32, 1, (int64_t[]){1}, x, true, &err), ES_E_IO);
    assert_int_equal(es_npy_save("/dev/null", ES_F32, 1, (int64_t[]){1}, x, true, &err), ES_E_IO);
    assert_int_equal(es_npy_save("", ES_F32, 1, (int64_t[]){1}, x, true, &err), ES_E_ARGUMENT);
    assert_int_equal(
        es_npy_save(in_folder("no/such/x.npy"), ES_F32, 1, (int64_t[]){1}, x, true, &err), ES_E_IO);
    assert_int_equal(count_files(true), 0);
}

static void CL06_FS04_a_full_disk_leaves_no_trace(void **state)
{
    (void)state;
    static const float old[1] = {7}, x[65536];
    struct rlimit before, small;
    es_array a;
    const char *path = in_folder("out.npy");
    assert_ok(es_npy_save(path, ES_F32, 1, (int64_t[]){1}, old, false, &err));
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    signal(SIGXFSZ, SIG_IGN);
    /* Fail in the header, at the start and in the middle of the data. */
    for (rlim_t limit = 0; limit <= 100000; limit += 50000) {
        small.rlim_cur = limit;
        setrlimit(RLIMIT_FSIZE, &small);
        const es_status status = es_npy_save(path, ES_F32, 1, (int64_t[]){65536}, x, true, &err);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, ES_E_IO);
        assert_string_equal(err.rule, "file.write");
        assert_int_equal(count_files(false), 1); /* in_folder() inside: take path anew below */
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_ok(es_npy_load(in_folder("out.npy"), NULL, &a, &err));
    assert_equals(((float *)a.data)[0], 7.0f);
    assert_equals(a.shape[0], 1);
    es_array_free(&a);
    count_files(true);
}

/* A process that is killed while it writes `name`, in its two forms: the draft and a journal. */
static void leave_draft(const char *name)
{
    const pid_t child = fork();
    assert_at_least(child, 0);
    if (child == 0) {
        es_draft draft;
        char journal[600];
        if (es_draft_open(in_folder(name), true, &draft, NULL) == ES_OK) {
            snprintf(journal, sizeof journal, "%s-journal", draft.temp);
            fclose(fopen(journal, "w"));
        }
        raise(SIGKILL);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
}

static void FS09_drafts_of_killed_processes_go_with_the_next(void **state)
{
    (void)state;
    es_draft mine, next;
    count_files(true);
    leave_draft("a.npy");
    leave_draft("b.npy");
    assert_int_equal(count_files(false), 4);
    char other[] = "c.npy", path[512], again[512];
    snprintf(path, sizeof path, "%s", in_folder(other));
    assert_ok(es_draft_open(path, true, &mine, &err)); /* another file: both stay */
    assert_int_equal(count_files(false), 5);
    assert_ok(es_draft_open(path, true, &next, &err)); /* mine is alive, and stays */
    es_draft_discard(&next);
    assert_int_equal(count_files(false), 5);
    snprintf(again, sizeof again, "%s", in_folder("a.npy"));
    assert_ok(es_draft_open(again, true, &next, &err)); /* those of a.npy go */
    assert_int_equal(count_files(false), 4);
    assert_ok(es_draft_publish(&next, &err));
    assert_ok(es_draft_publish(&mine, &err));
    assert_int_equal(count_files(true), 4); /* a.npy, c.npy, and what b.npy left */
}

TEST_FILE(npy_save)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_keeps_every_bit),
        cmocka_unit_test(save_refuses_to_replace_unless_asked),
        cmocka_unit_test(save_checks_its_arguments),
        cmocka_unit_test(CL06_FS04_a_full_disk_leaves_no_trace),
        cmocka_unit_test(FS09_drafts_of_killed_processes_go_with_the_next),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
