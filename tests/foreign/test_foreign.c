/* SPDX-License-Identifier: Apache-2.0 */
/* What callers from another language rely on: fields of structs, and progress that is watched. */
#include "testing.h"

#include <pthread.h>

#include <esscher/attend.h>
#include <esscher/foreign.h>

static const es_field *find_field(const char *type, const char *name)
{
    const es_field *f;
    for (int64_t i = 0; (f = es_field_at(i)); i++)
        if (strcmp(f->type, type) == 0 && strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* Fields of a struct follow it, do not overlap, and leave no space for one that was forgotten: a
 * gap is padding, smaller than the largest alignment. */
static void fields_fill_their_structs(void **state)
{
    (void)state;
    const es_field *whole = NULL, *f;
    int64_t end = 0;
    for (int64_t i = 0; (f = es_field_at(i)); i++) {
        if (!*f->name) {
            assert_true(!whole || whole->size - end < 8);
            whole = f;
            end = 0;
            assert_equals(f->offset, 0);
            assert_above(f->size, 0);
            continue;
        }
        assert_non_null(whole);
        assert_string_equal(f->type, whole->type);
        assert_at_least(f->offset, end);
        assert_below(f->offset - end, 8);
        end = f->offset + f->size;
        assert_at_most(end, whole->size);
    }
    assert_true(whole && whole->size - end < 8);
    assert_null(es_field_at(-1));
    assert_int_equal(find_field("es_attend_opts", "mask")->offset, offsetof(es_attend_opts, mask));
}

static void monitor_tells_what_it_was_told(void **state)
{
    (void)state;
    es_monitor *monitor;
    es_monitor_view now;
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_ok(es_monitor_new(&monitor, &err));
    es_monitor_read(monitor, &now);
    assert_below(now.share, 0);
    assert_false(es_monitor_work(monitor, 1, 4));
    es_monitor_read(monitor, &now);
    assert_equals(now.share, 0.25);
    assert_equals(now.phase[0], '\0');
    const es_progress told = {.phase = longer, .share = 0.5, .phase_share = 0.75, .kept = 0.125};
    assert_false(es_monitor_progress(monitor, &told));
    es_monitor_read(monitor, &now);
    assert_equals(now.share, 0.5);
    assert_equals(now.phase_share, 0.75);
    assert_equals(now.kept, 0.125);
    assert_int_equal(strlen(now.phase), sizeof now.phase - 1);
    es_monitor_stop(monitor);
    assert_true(es_monitor_work(monitor, 2, 4));
    es_monitor_free(monitor);
    es_monitor_free(NULL);
}

static void *watch_and_stop(void *user)
{
    es_monitor_view now;
    do
        es_monitor_read(user, &now);
    while (now.share < 0);
    es_monitor_stop(user);
    return NULL;
}

/* Another thread looks at a call of attention, and stops it. */
static void a_call_is_stopped_from_another_thread(void **state)
{
    (void)state;
    enum { N = 20000, D = 16 };
    float *x = calloc((size_t)N * D, sizeof *x);
    double *y = calloc((size_t)N * D, sizeof *y);
    assert_true(x && y);
    es_monitor *monitor;
    pthread_t thread;
    assert_ok(es_monitor_new(&monitor, &err));
    assert_int_equal(pthread_create(&thread, NULL, watch_and_stop, monitor), 0);
    const es_exec exec = {.threads = 2, .progress = es_monitor_work, .progress_user = monitor};
    const es_view view = es_view_f32(x, N, D);
    assert_int_equal(es_attend(&view, &view, &view, &(es_attend_opts){.exec = &exec},
                               &(es_attend_out){.output = y}, &err),
                     ES_E_INTERRUPTED);
    pthread_join(thread, NULL);
    es_monitor_free(monitor);
    free(x);
    free(y);
}

TEST_FILE(foreign)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_fill_their_structs),
        cmocka_unit_test(monitor_tells_what_it_was_told),
        cmocka_unit_test(a_call_is_stopped_from_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
