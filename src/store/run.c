/* SPDX-License-Identifier: Apache-2.0 */
/* run.c : creates, opens, resumes and closes run files (SQLite). A run file is complete or
 * absent, and after a kill it holds everything up to the last commit. */
#include <esscher/run.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"
#include "store/run.h"
#include "store/run_inside.h"

/* Closes the database, then the lock, and frees the run. */
static void free_run(es_run *run)
{
    es_run_stages_free(run);
    es_run_spec_free(run);
    es_sql_close(&run->sql); /* before the lock is released: no other process may write while this
                                one still can */
    es_run_lock_drop(&run->lock);
    es_mem_free(NULL, run->path);
    es_mem_free(NULL, run);
}

/* An es_run around an existing file; nothing of its content is known yet. */
static es_status new_run(const char *path, es_run **out, es_error *err)
{
    uint64_t size;
    es_run *run;
    *out = NULL;
    ES_TRY(es_file_examine(path, &size, err));
    if (size == 0)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "run.empty",
                            "remove it, or create the run again", "the file is empty");
    ES_TRY(ES_MEM_NEW(NULL, run, 1, "a run", err));
    run->lock.fd = -1;
    es_status status = es_mem_text(NULL, path, "a file name", &run->path, err);
    if (status == ES_OK)
        status = es_sql_open(path, run->path, &run->sql, err);
    if (status != ES_OK) {
        free_run(run);
        return status;
    }
    *out = run;
    return ES_OK;
}

/* Reads parameters, facts and stages of a run and checks their checksums. */
static es_status load(es_run *run, es_error *err)
{
    int64_t version;
    ES_TRY(es_run_file_check(&run->sql, err));
    ES_TRY(es_sql_number(&run->sql, "PRAGMA user_version", &version, err));
    run->schema = (int)version;
    ES_TRY(es_run_spec_load(run, err));
    return es_run_stages_load(run, err);
}

/* ---- reading ---- */

es_status es_run_open(const char *path, es_run **out, es_error *err)
{
    es_run *run;
    *out = NULL;
    ES_TRY(new_run(path, &run, err));
    es_status status = es_sql_exec(&run->sql, "PRAGMA query_only = ON", err);
    if (status == ES_OK)
        status = load(run, err);
    if (status != ES_OK) {
        free_run(run);
        return status;
    }
    *out = run;
    return ES_OK;
}

/* ---- writing ---- */

/* Writes the facts of this session: program, machine and time of the continuation. */
static es_status write_session(es_run *run, const void *spec, es_error *err)
{
    return es_run_facts_write(&run->sql, spec, run->identity, err);
}

/* What the lock holder does to a run before the first cell. With `session` a new one is begun. */
static es_status make_writable(es_run *run, const es_run_spec *spec, bool session, es_error *err)
{
    run->writable = true;
    if (sqlite3_db_readonly(run->sql.db, "main") == 1)
        return es_sql_fail(&run->sql, SQLITE_READONLY, err);
    ES_TRY(load(run, err));
    ES_TRY(es_run_spec_compare(run, spec, err));
    /* fullfsync: on macOS bytes else stay in the drive's memory; elsewhere it changes nothing */
    ES_TRY(es_sql_exec(&run->sql, "PRAGMA journal_mode = DELETE; PRAGMA fullfsync = ON", err));
    return session ? es_run_write(run, write_session, spec, 0, true, err) : ES_OK;
}

es_status es_run_resume(const char *path, const es_run_spec *spec, es_run **out, es_error *err)
{
    es_run *run;
    *out = NULL;
    ES_TRY(es_run_spec_check(spec, err));
    ES_TRY(new_run(path, &run, err));
    /* SQLite has followed symbolic links: whatever the file was called, its lock is one. */
    es_status status =
        es_run_lock_take(sqlite3_db_filename(run->sql.db, "main"), run->path, &run->lock, err);
    if (status == ES_OK)
        status = make_writable(run, spec, true, err);
    if (status != ES_OK) {
        free_run(run);
        return status;
    }
    *out = run;
    return ES_OK;
}

/* A journal without its file, or one of the file that is about to be replaced, would be taken for
 * the new file's, and undo it. */
static es_status remove_journal(const char *path, es_error *err)
{
    static const char suffix[] = "-journal";
    char *name;
    ES_TRY(ES_MEM_BYTES(NULL, name, strlen(path) + sizeof suffix, "a file name", err));
    memcpy(name, path, strlen(path));
    memcpy(name + strlen(path), suffix, sizeof suffix);
    unlink(name);
    es_mem_free(NULL, name);
    return ES_OK;
}

/* Writes a new run under a temporary name and renames it: a run file is complete or absent. */
static es_status write_new(const char *path, const es_run_spec *spec, bool overwrite, es_error *err)
{
    es_draft draft;
    ES_TRY(es_draft_open(path, overwrite, &draft, err));
    es_status status = es_run_file_write(draft.temp, path, spec, err);
    if (status == ES_OK)
        status = remove_journal(path, err);
    if (status == ES_OK)
        return es_draft_publish(&draft, err);
    es_draft_discard(&draft);
    return status;
}

es_status es_run_create(const char *path, const es_run_spec *spec, bool overwrite, es_run **out,
                        es_error *err)
{
    es_run_lock lock;
    es_run *run = NULL;
    *out = NULL;
    ES_TRY(es_run_spec_check(spec, err));
    if (!path || !*path)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    ES_TRY(es_run_lock_take(path, path, &lock, err));
    es_status status = write_new(path, spec, overwrite, err);
    if (status == ES_OK)
        status = new_run(path, &run, err);
    if (status != ES_OK) {
        es_run_lock_drop(&lock);
        return status;
    }
    run->lock = lock;
    status = make_writable(run, spec, false, err);
    if (status != ES_OK) {
        free_run(run);
        return status;
    }
    *out = run;
    return ES_OK;
}

/* ---- a run that gets its name when it is whole ---- */

/* The file is not known to others yet and worthless after a crash: no journal, no waiting for the
 * disk. es_draft_publish() waits. */
static es_status open_draft(es_run_draft *d, const es_run_spec *spec, es_error *err)
{
    ES_TRY(es_run_file_write(d->file.temp, d->file.path, spec, err));
    ES_TRY(new_run(d->file.temp, &d->run, err));
    ES_TRY(make_writable(d->run, spec, false, err));
    return es_sql_exec(&d->run->sql, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF", err);
}

es_status es_run_draft_open(const char *path, const es_run_spec *spec, bool overwrite,
                            es_run_draft *out, es_error *err)
{
    *out = (es_run_draft){.lock.fd = -1};
    ES_TRY(es_run_spec_check(spec, err));
    ES_TRY(es_run_lock_take(path, path, &out->lock, err));
    es_status status = es_draft_open(path, overwrite, &out->file, err);
    if (status == ES_OK)
        status = open_draft(out, spec, err);
    return status == ES_OK ? ES_OK : es_run_draft_end(out, status, err);
}

es_status es_run_draft_end(es_run_draft *d, es_status status, es_error *err)
{
    es_error closing;
    const es_status closed = es_run_close(d->run, &closing);
    if (status == ES_OK && closed != ES_OK) {
        *err = closing;
        status = closed;
    }
    if (status != ES_OK && d->file.temp && strcmp(err->file, d->file.temp) == 0)
        snprintf(err->file, sizeof err->file, "%s", d->file.path);
    if (status == ES_OK)
        status = remove_journal(d->file.path, err);
    if (status == ES_OK)
        status = es_draft_publish(&d->file, err);
    if (d->file.temp)
        es_draft_discard(&d->file);
    es_run_lock_drop(&d->lock);
    *d = (es_run_draft){.lock.fd = -1};
    return status;
}

/* ---- closing, and queries ---- */

es_status es_run_close(es_run *run, es_error *err)
{
    if (!run)
        return ES_OK;
    const es_status status = run->writable ? es_run_flush(run, err) : ES_OK;
    free_run(run);
    return status;
}

es_run_about es_run_info(const es_run *run)
{
    es_run_enter(run);
    const es_run_about about = {.command = run->command,
                                .schema = run->schema,
                                .created = run->created,
                                .updated = run->updated,
                                .params = run->params,
                                .params_count = run->params_count,
                                .facts = run->facts,
                                .facts_count = run->facts_count,
                                .stages_count = run->stages_count};
    es_run_leave(run);
    return about;
}
