/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_faults.c : run files whose writers are killed, whose disks are full, whose bytes are
 * turned. */
#define _DEFAULT_SOURCE /* syscall */
#include "testing.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "runs.h"
#include "store/run.h"
#include "store/run_inside.h"

static char path[512];
static uint64_t dice_state;

static void start(void)
{
    count_files(true);
    snprintf(path, sizeof path, "%s", in_folder("a.run"));
}

/* Seeded, so that a failure can be repeated: a number of [0, n). */
static uint64_t dice(uint64_t n)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (dice_state >> 33) % n;
}

static bool quick(void) { return getenv("ESSCHER_QUICK_TESTS") != NULL; }
static bool exists(void) { return access(path, F_OK) == 0; }

/* ---- FS01 ---- */

enum { KILLED_CELLS = 400 };

/* A process that is killed leaves what its system calls have written: between two of them it makes
 * no difference when. So it is killed at one that is chosen by number: a write, of which half is
 * done, a flush, a truncation or a removal. */
static uint64_t calls_left; /* 0: nobody is killed */

static void count_call(void)
{
    if (calls_left && --calls_left == 0)
        kill(getpid(), SIGKILL);
}

static ssize_t counted_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    if (calls_left == 1 && pwrite(fd, bytes, size / 2, offset) < 0)
        return -1;
    count_call();
    return pwrite(fd, bytes, size, offset);
}

static int counted_ftruncate(int fd, off_t size)
{
    count_call();
    return ftruncate(fd, size);
}

static int counted_unlink(const char *file)
{
    count_call();
    return unlink(file);
}

/* These two take the place of the system's for the whole program. What a process that will be
 * killed has written is there without a flush: only a power cut would lose it. */
int fsync(int fd)
{
    count_call();
    return calls_left ? 0 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    count_call();
    return calls_left ? 0 : (int)syscall(SYS_fdatasync, fd);
}

static void die_at_call(uint64_t number)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)counted_pwrite);
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)counted_pwrite);
    vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)counted_ftruncate);
    vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)counted_unlink);
    calls_left = number;
}

static pid_t start_child(int flush, uint64_t calls)
{
    const pid_t child = fork();
    assert_at_least(child, 0);
    if (child == 0) {
        es_error e;
        die_at_call(calls);
        const es_status status = do_experiment(path, KILLED_CELLS, flush, exists(), &e);
        if (status != ES_OK)
            fprintf(stderr, "child: %s: %s\n", e.rule, e.message);
        _exit(status == ES_OK ? 0 : 1);
    }
    return child;
}

/* Whatever the moment of the kill, a reader finds a sound file whose cells are right, or none. */
static int64_t check_what_is_left(void)
{
    double expected[CELL], back[CELL];
    es_run *run;
    int64_t found = 0;
    if (!exists())
        return 0;
    assert_ok(es_run_open(path, &run, &err));
    for (int64_t i = 0; es_run_info(run).stages_count && i < KILLED_CELLS; i++) {
        const es_status status = es_run_get_cell(run, 0, i, back, &err);
        if (status == ES_E_EMPTY)
            continue;
        assert_ok(status);
        compute_cell(i, expected);
        assert_memory_equal(back, expected, sizeof back);
        found++;
    }
    assert_ok(es_run_close(run, &err));
    return found;
}

static void read_rates(es_run_table *out)
{
    es_run *run;
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_table(run, "rates", NULL, out, &err));
    assert_ok(es_run_close(run, &err));
}

static void FS01_kill_at_any_moment_and_resume_gives_the_same_table(void **state)
{
    (void)state;
    const int kills = quick() ? 60 : 300;
    es_run_table whole, parts;
    int partial = 0, finished = 0;
    start();
    assert_ok(do_experiment(path, KILLED_CELLS, 0, false, &err));
    read_rates(&whole);
    assert_int_equal(whole.rows, KILLED_CELLS);
    remove(path);
    dice_state = 1;
    for (int i = 0; i < kills; i++) {
        const int flush = 1 + (int)dice(7);
        const pid_t child = start_child(flush, 1 + dice(300));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        const int64_t found = check_what_is_left();
        partial += found > 0 && found < KILLED_CELLS;
        if (found == KILLED_CELLS) { /* done: the table must be right, then all over again */
            assert_ok(do_experiment(path, KILLED_CELLS, 0, true, &err));
            read_rates(&parts);
            assert_true(same_tables(&whole, &parts));
            es_run_table_free(&parts);
            remove(path);
            finished++;
        }
    }
    assert_ok(do_experiment(path, KILLED_CELLS, 0, exists(), &err));
    read_rates(&parts);
    assert_true(same_tables(&whole, &parts));
    es_run_table_free(&parts);
    es_run_table_free(&whole);
    print_message("%d kills, %d in the middle of the cells, %d runs finished\n", kills, partial,
                  finished);
    assert_above(partial, kills / 2);
    assert_above(finished, 0);
}

/* What another process would find: the cells that are on disk. */
static int64_t cells_on_disk(void)
{
    es_run *run;
    es_run_stage stage;
    assert_ok(es_run_open(path, &run, &err));
    assert_ok(es_run_get_stage(run, 0, &stage, &err));
    assert_ok(es_run_close(run, &err));
    return stage.cells;
}

static void FS01_slow_cells_are_on_disk_at_once_and_fast_ones_share(void **state)
{
    (void)state;
    double values[CELL];
    es_run *run;
    int64_t stage;
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    for (int64_t i = 0; i < 4; i++) { /* each took longer than a second */
        run->last_commit -= ES_RUN_BATCH_SECONDS;
        compute_cell(i, values);
        assert_ok(es_run_put_cell(run, stage, i, values, &err));
        assert_int_equal(cells_on_disk(), i + 1);
    }
    run->last_commit += 3600.0; /* whatever the machine does now, less than a second passes */
    for (int64_t i = 4; i < 8; i++)
        assert_ok(es_run_put_cell(run, stage, i, values, &err));
    assert_int_equal(cells_on_disk(), 4);
    assert_ok(es_run_flush(run, &err));
    assert_int_equal(cells_on_disk(), 8);
    assert_ok(es_run_close(run, &err));
}

/* ---- FS03 ---- */

static void refuse(es_status status, const char *rule)
{
    es_run *run;
    assert_int_equal(es_run_open(path, &run, &err), status);
    assert_string_equal(err.rule, rule);
    assert_int_equal(es_run_resume(path, &spec, &run, &err), status);
    assert_string_equal(err.rule, rule);
    assert_null(run);
}

/* Something that only the sqlite3 program would do to the file. */
static void tamper(const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void fresh(void)
{
    start();
    assert_ok(do_experiment(path, 50, 0, false, &err));
}

static void FS03_what_is_no_run_file_is_told_apart(void **state)
{
    (void)state;
    char text[6000];
    es_run *run;
    start();
    refuse(ES_E_IO, "file.open");
    write_file("a.run", "", 0);
    refuse(ES_E_FORMAT, "run.empty");
    write_file("a.run", "n,mean\n1000,0.5\n", 16);
    refuse(ES_E_FORMAT, "run.magic");
    memset(text, 'x', sizeof text);
    write_file("a.run", text, sizeof text);
    refuse(ES_E_FORMAT, "run.magic");
    remove(path);
    tamper("CREATE TABLE songs(title)");
    refuse(ES_E_FORMAT, "run.magic");
    assert_int_equal(es_run_create(path, &spec, false, &run, &err), ES_E_EXISTS);
    snprintf(path, sizeof path, "%s", folder);
    refuse(ES_E_IO, "file.regular");
    assert_int_equal(es_run_create(path, &spec, true, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "file.regular");
    snprintf(path, sizeof path, "%s", in_folder("no/such/a.run"));
    refuse(ES_E_IO, "file.open");
    assert_int_equal(es_run_create(path, &spec, true, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "file.create");
}

static void FS03_newer_schemas_and_strange_tables_are_refused(void **state)
{
    (void)state;
    fresh();
    tamper("PRAGMA user_version = 3");
    refuse(ES_E_UNSUPPORTED, "run.schema");
    tamper("PRAGMA user_version = 0");
    refuse(ES_E_FORMAT, "run.corrupt");
    fresh();
    tamper("CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM cell; END");
    refuse(ES_E_FORMAT, "run.corrupt");
    fresh();
    tamper("CREATE TABLE mine(x)");
    refuse(ES_E_FORMAT, "run.corrupt");
    fresh();
    tamper("CREATE INDEX i ON cell(idx)");
    refuse(ES_E_FORMAT, "run.corrupt");
    fresh();
    tamper("DELETE FROM run");
    refuse(ES_E_FORMAT, "run.corrupt");
    fresh();
    tamper("UPDATE parameter SET text = '8' WHERE key = 'seed'");
    refuse(ES_E_FORMAT, "run.checksum");
    fresh();
    tamper("UPDATE stage SET rows = 1000000000");
    refuse(ES_E_FORMAT, "run.checksum");
    fresh();
    assert_int_equal(truncate(path, 5000), 0);
    refuse(ES_E_FORMAT, "run.corrupt");
}

static void FS03_a_damaged_cell_is_named_and_computed_again(void **state)
{
    (void)state;
    double expected[CELL], back[CELL];
    es_run *run;
    bool there;
    fresh();
    tamper("UPDATE cell SET data = zeroblob(48) WHERE idx = 7;"
           "UPDATE cell SET data = zeroblob(47) WHERE idx = 8;"
           "UPDATE cell SET data = (SELECT data FROM cell WHERE idx = 1) WHERE idx = 9");
    assert_ok(es_run_open(path, &run, &err));
    assert_int_equal(es_run_get_cell(run, 0, 7, back, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "run.checksum");
    assert_non_null(strstr(err.message, "cell 7 of stage error"));
    for (int64_t i = 7; i < 10; i++) {
        assert_ok(es_run_has_cell(run, 0, i, &there, &err));
        assert_false(there);
    }
    assert_ok(es_run_close(run, &err));
    assert_ok(do_experiment(path, 50, 0, true, &err));
    assert_ok(es_run_open(path, &run, &err));
    for (int64_t i = 0; i < 50; i++) {
        assert_ok(es_run_get_cell(run, 0, i, back, &err));
        compute_cell(i, expected);
        assert_memory_equal(back, expected, sizeof back);
    }
    assert_ok(es_run_close(run, &err));
}

static void FS03_a_file_held_by_another_program_is_busy(void **state)
{
    (void)state;
    sqlite3 *db;
    es_run *run;
    fresh();
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(es_run_open(path, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "run.busy");
    sqlite3_close(db);
}

/* A reader that stays must not cost the writer its cells: it waits and tries again. */
static void FS03_a_reader_delays_a_commit_but_loses_nothing(void **state)
{
    (void)state;
    double values[CELL];
    sqlite3 *db;
    es_run *run;
    fresh();
    assert_ok(es_run_resume(path, &spec, &run, &err));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM cell", NULL, NULL, NULL),
                     SQLITE_OK);
    run->last_commit -= 10.0; /* a commit is due */
    sqlite3_busy_timeout(run->sql.db, 100);
    compute_cell(50, values);
    assert_ok(es_run_put_cell(run, 0, 50, values, &err));
    assert_true(run->pending);
    sqlite3_close(db);
    assert_ok(es_run_flush(run, &err));
    assert_false(run->pending);
    assert_ok(es_run_close(run, &err));
}

/* Root may write anywhere, so as root this test becomes somebody else for a while. */
static void FS03_read_only_files_and_folders(void **state)
{
    (void)state;
    es_run *run;
    const bool root = geteuid() == 0;
    fresh();
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    if (root)
        assert_int_equal(seteuid(65534), 0);
    const es_status read = es_run_open(path, &run, &err);
    es_run_close(run, NULL);
    es_error resume, create;
    const es_status resumed = es_run_resume(path, &spec, &run, &resume);
    const es_status created = es_run_create(in_folder("b.run"), &spec, false, &run, &create);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(read, ES_OK);
    assert_int_equal(resumed, ES_E_IO);
    assert_string_equal(resume.rule, "file.create"); /* not even a lock */
    assert_int_equal(created, ES_E_IO);
    assert_string_equal(create.rule, "file.create");

    if (root) {
        assert_int_equal(chmod(folder, 0777), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    const es_status writable_folder = es_run_resume(path, &spec, &run, &resume);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(writable_folder, ES_E_IO);
    assert_string_equal(resume.rule, "run.readonly");
}

/* ---- FS05 ---- */

static void FS05_clocks_that_jump_do_no_harm(void **state)
{
    (void)state;
    es_run *run;
    es_run_table before, after;
    double values[CELL];
    fresh();
    read_rates(&before);
    assert_ok(es_run_resume(path, &spec, &run, &err));
    run->last_commit = 1e12; /* as if the clock of the last commit lay ahead */
    strcpy(run->created, "2999-01-01T00:00:00Z");
    compute_cell(0, values);
    assert_ok(es_run_put_cell(run, 0, 0, values, &err));
    assert_ok(es_run_close(run, &err));
    tamper("UPDATE run SET created = '2999-01-01T00:00:00Z'"); /* its checksum is right by now */
    assert_ok(do_experiment(path, 50, 0, true, &err));
    read_rates(&after);
    assert_true(same_tables(&before, &after));
    es_run_table_free(&before);
    es_run_table_free(&after);
}

/* ---- FS06 ---- */

static void FS06_two_writers_are_one_too_many(void **state)
{
    (void)state;
    int ready[2];
    char byte, who[32];
    es_run *run;
    es_run_stage stage;
    fresh();
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        es_error e;
        const bool held = es_run_resume(path, &spec, &run, &e) == ES_OK;
        if (write(ready[1], held ? "y" : "n", 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(es_run_resume(path, &spec, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "run.locked");
    snprintf(who, sizeof who, "process %ld on ", (long)child);
    assert_non_null(strstr(err.message, who));
    assert_int_equal(es_run_create(path, &spec, true, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "run.locked");
    char link_name[600];
    snprintf(link_name, sizeof link_name, "%s", in_folder("link.run"));
    assert_int_equal(symlink(path, link_name), 0); /* another name, the same run */
    assert_int_equal(es_run_resume(link_name, &spec, &run, &err), ES_E_IO);
    assert_string_equal(err.rule, "run.locked");
    assert_ok(es_run_open(path, &run, &err)); /* reading is free */
    assert_ok(es_run_get_stage(run, 0, &stage, &err));
    assert_int_equal(stage.cells, 50);
    assert_ok(es_run_close(run, &err));

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(access(in_folder("a.run.lock"), F_OK), 0); /* left behind, and harmless */
    assert_ok(es_run_resume(path, &spec, &run, &err));
    es_run *second;
    assert_int_equal(es_run_resume(path, &spec, &second, &err), ES_E_IO); /* same process */
    assert_string_equal(err.rule, "run.locked");
    assert_ok(es_run_close(run, &err));
    assert_int_equal(count_files(false), 2);
}

/* Where locks do not hold, as on some network file systems, both get one. That is what it looks
 * like to the first when somebody removes the lock file and another process comes. */
static void FS06_of_two_who_got_the_lock_the_later_goes_on(void **state)
{
    (void)state;
    es_run *first, *second;
    double values[CELL];
    bool there;
    fresh();
    assert_ok(es_run_resume(path, &spec, &first, &err));
    compute_cell(50, values);
    assert_ok(es_run_put_cell(first, 0, 50, values, &err));
    assert_ok(es_run_flush(first, &err));
    assert_int_equal(unlink(in_folder("a.run.lock")), 0); /* by itself no harm */
    assert_ok(es_run_put_cell(first, 0, 51, values, &err));
    assert_ok(es_run_flush(first, &err));
    assert_int_equal(unlink(in_folder("a.run.lock")), 0);
    assert_ok(es_run_resume(path, &spec, &second, &err));
    assert_int_equal(es_run_put_cell(first, 0, 52, values, &err), ES_E_IO);
    assert_string_equal(err.rule, "run.stolen");
    assert_int_equal(es_run_close(first, NULL), ES_E_IO);
    assert_ok(es_run_put_cell(second, 0, 53, values, &err));
    assert_ok(es_run_close(second, &err));
    assert_ok(es_run_open(path, &second, &err)); /* whole, and what either was told is there */
    for (int64_t i = 50; i <= 53; i++) {
        assert_ok(es_run_has_cell(second, 0, i, &there, &err));
        assert_int_equal(there, i != 52);
    }
    assert_ok(es_run_close(second, &err));
}

/* ---- FS07 ---- */

static void put_until_it_fails(es_run *run, int64_t stage)
{
    double values[CELL];
    es_status status = ES_OK;
    for (int64_t i = 0; i < 100000 && status == ES_OK; i++) {
        compute_cell(i, values);
        status = es_run_put_cell(run, stage, i, values, &err);
        if (status == ES_OK && i % 50 == 0)
            status = es_run_flush(run, &err);
    }
    assert_int_equal(status, ES_E_IO);
    assert_true(strcmp(err.rule, "run.io") == 0 || strcmp(err.rule, "run.full") == 0);
    assert_non_null(strstr(err.hint, "resume"));
    assert_int_equal(es_run_put_cell(run, stage, 0, values, NULL), ES_E_IO); /* and stays so */
    assert_int_equal(es_run_flush(run, &err), ES_E_IO);
    assert_int_equal(es_run_close(run, &err), ES_E_IO);
}

static void check_resumable(void)
{
    es_run_table whole, parts;
    const int64_t kept = check_what_is_left();
    assert_above(kept, 0);
    assert_at_most(kept, KILLED_CELLS);
    assert_ok(do_experiment(path, KILLED_CELLS, 0, true, &err));
    assert_int_equal(check_what_is_left(), KILLED_CELLS);
    read_rates(&parts);
    remove(path);
    assert_ok(do_experiment(path, KILLED_CELLS, 0, false, &err));
    read_rates(&whole);
    /* More cells than the experiment has may have been put before the disk was full. */
    assert_at_least(parts.rows, whole.rows);
    for (int j = 0; j < 3; j++)
        assert_memory_equal(parts.columns[j].reals, whole.columns[j].reals, 8 * KILLED_CELLS);
    es_run_table_free(&parts);
    es_run_table_free(&whole);
}

static void FS07_a_full_disk_is_an_error_and_the_run_resumes(void **state)
{
    (void)state;
    es_run *run;
    int64_t stage;
    start();
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    assert_int_equal(sqlite3_exec(run->sql.db, "PRAGMA max_page_count = 14", NULL, NULL, NULL),
                     SQLITE_OK);
    put_until_it_fails(run, stage);
    assert_string_equal(err.rule, "run.full");
    check_resumable();
}

static void CL06_a_file_that_may_not_grow_is_an_error_and_the_run_resumes(void **state)
{
    (void)state;
    struct rlimit before, small;
    es_run *run;
    int64_t stage;
    start();
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    signal(SIGXFSZ, SIG_IGN);
    /* Too small for a new run: no trace of it. */
    small.rlim_cur = 5000;
    setrlimit(RLIMIT_FSIZE, &small);
    const es_status status = es_run_create(path, &spec, false, &run, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, ES_E_IO);
    assert_non_null(strstr(err.message, "File too large"));
    assert_int_equal(count_files(false), 0);
    /* Large enough for some of the cells. */
    assert_ok(es_run_create(path, &spec, false, &run, &err));
    assert_ok(es_run_add_stage(run, "error", ROWS, COLS, cell_columns, &stage, &err));
    small.rlim_cur = 14 * 4096 + 100;
    setrlimit(RLIMIT_FSIZE, &small);
    put_until_it_fails(run, stage);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_string_equal(err.rule, "run.io");
    check_resumable();
}

/* ---- bytes that somebody turned ---- */

/* Every number and text that can be had is right; what cannot is an error. */
static void look_at_everything(es_run *run)
{
    double expected[CELL], back[CELL];
    es_run_table table;
    const es_run_about about = es_run_info(run);
    assert_string_equal(about.command, "converge");
    assert_int_equal(about.params_count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(about.params[i].text, spec_params[i].text);
    assert_int_equal(about.facts_count, 3);
    assert_string_equal(about.facts[2].text, "a quick one");
    for (int64_t i = 0; about.stages_count && i < 50; i++) {
        const es_status status = es_run_get_cell(run, 0, i, back, &err);
        if (status != ES_OK)
            continue;
        compute_cell(i, expected);
        assert_memory_equal(back, expected, sizeof back);
    }
    if (es_run_get_table(run, "rates", NULL, &table, &err) != ES_OK)
        return;
    assert_int_equal(table.rows, 50);
    assert_int_equal(table.cols, 3);
    for (int64_t i = 0; i < 50; i++) {
        compute_cell(i, expected);
        assert_equals(table.columns[0].reals[i], (double)i);
        assert_memory_equal(&table.columns[1].reals[i], &expected[0], 8);
        assert_memory_equal(&table.columns[2].reals[i], &expected[CELL - 1], 8);
    }
    es_run_table_free(&table);
}

static void FS03_turned_bytes_never_pass_for_data(void **state)
{
    (void)state;
    static unsigned char good[200000], bad[200000];
    const int rounds = quick() ? 300 : 3000;
    int opened = 0;
    fresh();
    FILE *file = fopen(path, "rb");
    const size_t size = fread(good, 1, sizeof good, file);
    fclose(file);
    assert_between(size, 4096, sizeof good);
    dice_state = 2;
    for (int i = 0; i < rounds; i++) {
        es_run *run;
        memcpy(bad, good, size);
        for (uint64_t turned = 1 + dice(4); turned > 0; turned--) /* half of them in headers */
            bad[dice(2) ? dice(size) : dice(size / 4096) * 4096 + dice(128)] ^=
                (unsigned char)(1u << dice(8));
        const size_t length = dice(10) ? size : dice(size);
        count_files(true);
        write_file("a.run", bad, length);
        if (es_run_open(path, &run, &err) == ES_OK) {
            look_at_everything(run);
            es_run_close(run, NULL);
            opened++;
        }
        es_run_table table;
        if (i % 8 == 0 && do_experiment(path, 50, 0, true, &err) == ES_OK) {
            read_rates(&table); /* healed: the table was made again from sound cells */
            assert_int_equal(table.rows, 50);
            es_run_table_free(&table);
        }
    }
    print_message("%d of %d damaged files could be opened\n", opened, rounds);
    assert_between(opened, 0, rounds);
}

TEST_FILE(run_faults)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FS01_kill_at_any_moment_and_resume_gives_the_same_table),
        cmocka_unit_test(FS01_slow_cells_are_on_disk_at_once_and_fast_ones_share),
        cmocka_unit_test(FS03_what_is_no_run_file_is_told_apart),
        cmocka_unit_test(FS03_newer_schemas_and_strange_tables_are_refused),
        cmocka_unit_test(FS03_a_damaged_cell_is_named_and_computed_again),
        cmocka_unit_test(FS03_a_file_held_by_another_program_is_busy),
        cmocka_unit_test(FS03_a_reader_delays_a_commit_but_loses_nothing),
        cmocka_unit_test(FS03_read_only_files_and_folders),
        cmocka_unit_test(FS03_turned_bytes_never_pass_for_data),
        cmocka_unit_test(FS05_clocks_that_jump_do_no_harm),
        cmocka_unit_test(FS06_two_writers_are_one_too_many),
        cmocka_unit_test(FS06_of_two_who_got_the_lock_the_later_goes_on),
        cmocka_unit_test(FS07_a_full_disk_is_an_error_and_the_run_resumes),
        cmocka_unit_test(CL06_a_file_that_may_not_grow_is_an_error_and_the_run_resumes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
