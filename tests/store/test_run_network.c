/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_network.c : run files on network file systems (FS03), of which the test pretends that
 * there are some. */
#define _DEFAULT_SOURCE /* syscall */
#include "testing.h"

#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "folder.h"
#include "runs.h"
#include "store/file.h"
#include "store/run.h"

static bool pretends; /* in this file's tests only: other files of the program ask the system */
static uint32_t pretended;
static int answers; /* 0: the system tells; -1: it does not */

/* Takes the place of the system's, for the library, too. */
int fstatfs(int fd, struct statfs *out)
{
    if (!pretends)
        return (int)syscall(SYS_fstatfs, fd, out);
    memset(out, 0, sizeof *out);
    out->f_type = (__typeof__(out->f_type))pretended;
    return answers;
}

static char heard[1024];
static int remarks;

static void hear(void *user, es_log_level level, const char *message)
{
    (void)user;
    assert_int_equal(level, ES_LOG_WARN);
    snprintf(heard, sizeof heard, "%s", message);
    remarks++;
}

static void FS03_a_network_is_remarked_on_when_a_run_is_written(void **state)
{
    static const struct {
        uint32_t type;
        const char *name;
    } kinds[] = {{0x6969, "(NFS)"},      {0x0bd00bd0, "(Lustre)"}, {0xfe534d42, "(SMB)"},
                 {0x65735546, "(FUSE)"}, {0xef53, NULL},           {0x01021994, NULL},
                 {0x9123683e, NULL},     {0x58465342, NULL}}; /* ext4, tmpfs, btrfs, XFS */
    es_run *run;
    (void)state;
    pretends = true;
    es_log_set(hear, NULL, ES_LOG_WARN);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const int expected = kinds[i].name ? 1 : 0;
        pretended = kinds[i].type;
        remarks = 0;
        assert_ok(es_run_create(in_folder("a.run"), &spec, true, &run, &err));
        assert_ok(es_run_close(run, &err));
        assert_int_equal(remarks, expected);
        if (kinds[i].name && (!strstr(heard, kinds[i].name) || !strstr(heard, "a.run")))
            fail_msg("%s", heard);
        assert_ok(es_run_resume(in_folder("a.run"), &spec, &run, &err));
        assert_ok(es_run_close(run, &err));
        assert_int_equal(remarks, 2 * expected);
        /* who only reads is in nobody's way */
        assert_ok(es_run_open(in_folder("a.run"), &run, &err));
        assert_ok(es_run_close(run, &err));
        assert_int_equal(remarks, 2 * expected);
    }
    /* a system that does not tell is no reason to complain */
    pretended = 0x6969;
    answers = -1;
    remarks = 0;
    assert_ok(es_run_create(in_folder("a.run"), &spec, true, &run, &err));
    assert_ok(es_run_close(run, &err));
    assert_int_equal(remarks, 0);
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    pretends = false;
    remove(in_folder("a.run"));
}

TEST_FILE(run_network)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FS03_a_network_is_remarked_on_when_a_run_is_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
