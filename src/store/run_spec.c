/* SPDX-License-Identifier: Apache-2.0 */
/* run_spec.c : command, parameters and facts of a run, and the comparison of two runs. */
#include "store/run_inside.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/checksum.h"
#include "store/run.h"

void es_run_now(char out[32])
{
    struct tm parts;
    const time_t now = time(NULL);
    if (!gmtime_r(&now, &parts) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
        out[0] = '\0';
}

bool es_run_name_ok(const char *name)
{
    return name && *name && strnlen(name, ES_RUN_NAME + 1) <= ES_RUN_NAME;
}

/* ---- checking ---- */

/* Checks keys and texts of a list of pairs. */
static es_status check_pairs(const es_run_pair *pairs, int64_t count, const char *what, bool unique,
                             es_error *err)
{
    static const char hint[] = "keys have 1 to 255 bytes, texts at most 1 MiB";
    if (count < 0 || (count > 0 && !pairs))
        return es_fail(err, ES_E_ARGUMENT, "run.spec", "", "no list of %ss", what);
    for (int64_t i = 0; i < count; i++) {
        if (!es_run_name_ok(pairs[i].key) || !pairs[i].text ||
            strnlen(pairs[i].text, ES_RUN_LINE + 1) > ES_RUN_LINE)
            return es_fail(err, ES_E_ARGUMENT, "run.spec", hint,
                           "%s %lld has no key or no text, or one too long", what, (long long)i);
        for (int64_t j = 0; unique && j < i; j++)
            if (strcmp(pairs[i].key, pairs[j].key) == 0)
                return es_fail(err, ES_E_ARGUMENT, "run.spec", "give each key once",
                               "%s %s is given twice", what, pairs[i].key);
    }
    return ES_OK;
}

es_status es_run_spec_check(const es_run_spec *spec, es_error *err)
{
    if (!spec || !es_run_name_ok(spec->command))
        return es_fail(err, ES_E_ARGUMENT, "run.spec", "name the command",
                       "the run names no command");
    ES_TRY(check_pairs(spec->params, spec->params_count, "parameter", true, err));
    return check_pairs(spec->facts, spec->facts_count, "fact", false, err);
}

/* Returns the identity of a run, a checksum of its command and parameters; all other checksums
 * start from it. */
static uint64_t identity_of(const char *command, const es_run_pair *params, int64_t count)
{
    uint64_t crc = es_crc_text(0, command);
    for (int64_t i = 0; i < count; i++)
        crc = es_crc_text(es_crc_text(crc, params[i].key), params[i].text);
    return es_crc_i64(crc, count);
}

uint64_t es_run_spec_identity(const es_run_spec *spec)
{
    return identity_of(spec->command, spec->params, spec->params_count);
}

/* Returns the checksum of a fact of a session. */
static uint64_t fact_checksum(uint64_t identity, int64_t session, const char *key, const char *text)
{
    return es_crc_text(es_crc_text(es_crc_i64(identity, session), key), text);
}

/* ---- writing ---- */

es_status es_run_spec_write(const es_sql *sql, const es_run_spec *spec, es_error *err)
{
    char now[32];
    es_run_now(now);
    const uint64_t identity = es_run_spec_identity(spec);
    const uint64_t checksum = es_crc_text(es_crc_text(identity, now), now);
    ES_TRY(es_sql_run(sql, err, "INSERT INTO run VALUES(1, ?, ?, ?, ?, ?)", "tttii", spec->command,
                      now, now, (int64_t)identity, (int64_t)checksum));
    for (int64_t i = 0; i < spec->params_count; i++)
        ES_TRY(es_sql_run(sql, err, "INSERT INTO parameter VALUES(?, ?, ?)", "itt", i,
                          spec->params[i].key, spec->params[i].text));
    return ES_OK;
}

/* Inserts a fact. */
static es_status write_fact(const es_sql *sql, int64_t session, const es_run_pair *fact,
                            uint64_t identity, es_error *err)
{
    return es_sql_run(sql, err, "INSERT INTO fact(session, key, text, checksum) VALUES(?, ?, ?, ?)",
                      "itti", session, fact->key, fact->text,
                      (int64_t)fact_checksum(identity, session, fact->key, fact->text));
}

es_status es_run_facts_write(const es_sql *sql, const es_run_spec *spec, uint64_t identity,
                             es_error *err)
{
    int64_t session;
    char now[32];
    es_run_now(now);
    ES_TRY(es_sql_number(sql, "SELECT ifnull(max(session), -1) + 1 FROM fact", &session, err));
    const es_run_pair started = {"started", now};
    ES_TRY(write_fact(sql, session, &started, identity, err));
    for (int64_t i = 0; i < spec->facts_count; i++)
        ES_TRY(write_fact(sql, session, &spec->facts[i], identity, err));
    return ES_OK;
}

/* Inserts a fact into the last session. */
static es_status write_note(es_run *run, const void *fact, es_error *err)
{
    int64_t session;
    ES_TRY(es_sql_number(&run->sql, "SELECT ifnull(max(session), 0) FROM fact", &session, err));
    return write_fact(&run->sql, session, fact, run->identity, err);
}

es_status es_run_note(es_run *run, const char *key, const char *text, es_error *err)
{
    const es_run_pair fact = {key, text};
    const es_run_spec one = {.command = run->command, .facts = &fact, .facts_count = 1};
    ES_TRY(es_run_spec_check(&one, err));
    return es_run_write(run, write_note, &fact, 0, true, err);
}

/* ---- reading ---- */

/* Reads command, times and identity of the run. */
static es_status load_run(es_run *run, es_error *err)
{
    sqlite3_stmt *s;
    bool row;
    ES_TRY(es_sql_prepare(&run->sql, err, &s,
                          "SELECT command, created, updated, identity, checksum FROM run", ""));
    es_status status = es_sql_step(&run->sql, s, &row, err);
    if (status == ES_OK && !row)
        status = es_sql_corrupt(&run->sql, "run.corrupt", err, "it has no command");
    char **const texts[] = {&run->command, &run->created, &run->updated};
    for (int i = 0; i < 3 && status == ES_OK; i++)
        status = es_sql_text(&run->sql, s, i, ES_RUN_NAME, texts[i], err);
    if (status == ES_OK) {
        run->identity = (uint64_t)sqlite3_column_int64(s, 3);
        const uint64_t checksum =
            es_crc_text(es_crc_text(run->identity, run->created), run->updated);
        if (checksum != (uint64_t)sqlite3_column_int64(s, 4))
            status = es_sql_corrupt(&run->sql, "run.checksum", err, "its times are invalid");
    }
    sqlite3_finalize(s);
    return status;
}

/* Reads one parameter. */
static es_status load_param(es_run *run, sqlite3_stmt *s, es_error *err)
{
    char *key, *text;
    ES_TRY(es_sql_text(&run->sql, s, 0, ES_RUN_NAME, &key, err));
    const es_status status = es_sql_text(&run->sql, s, 1, ES_RUN_LINE, &text, err);
    run->params[run->params_count++] = (es_run_pair){key, text};
    return status;
}

/* Reads one fact and compares its checksum. */
static es_status load_fact(es_run *run, sqlite3_stmt *s, es_error *err)
{
    char *key, *text;
    ES_TRY(es_sql_text(&run->sql, s, 0, ES_RUN_NAME, &key, err));
    es_status status = es_sql_text(&run->sql, s, 1, ES_RUN_LINE, &text, err);
    const int64_t session = sqlite3_column_int64(s, 2);
    run->facts[run->facts_count++] = (es_run_fact){session, key, text};
    if (status == ES_OK &&
        fact_checksum(run->identity, session, key, text) != (uint64_t)sqlite3_column_int64(s, 3))
        status = es_sql_corrupt(&run->sql, "run.checksum", err, "fact %s is invalid", key);
    return status;
}

/* Rows of `query` through `load`; there are no more than `capacity`. */
static es_status load_rows(es_run *run, const char *query, int64_t capacity,
                           es_status (*load)(es_run *, sqlite3_stmt *, es_error *), es_error *err)
{
    sqlite3_stmt *s;
    bool row = false;
    ES_TRY(es_sql_prepare(&run->sql, err, &s, query, ""));
    es_status status = es_sql_step(&run->sql, s, &row, err);
    for (int64_t i = 0; status == ES_OK && row; i++) {
        status = i < capacity ? load(run, s, err)
                              : es_sql_corrupt(&run->sql, "run.corrupt", err, "its rows multiply");
        if (status == ES_OK)
            status = es_sql_step(&run->sql, s, &row, err);
    }
    sqlite3_finalize(s);
    return status;
}

es_status es_run_spec_load(es_run *run, es_error *err)
{
    int64_t params, facts; /* counted by walking over them, so memory is bounded by the file */
    ES_TRY(load_run(run, err));
    ES_TRY(es_sql_number(&run->sql, "SELECT count(*) FROM parameter", &params, err));
    ES_TRY(ES_MEM_NEW(NULL, run->params, params, "parameters", err));
    ES_TRY(load_rows(run, "SELECT key, text FROM parameter ORDER BY position", params, load_param,
                     err));
    if (identity_of(run->command, run->params, run->params_count) != run->identity)
        return es_sql_corrupt(&run->sql, "run.checksum", err, "its parameters are invalid");
    ES_TRY(es_sql_number(&run->sql, "SELECT count(*) FROM fact", &facts, err));
    ES_TRY(ES_MEM_NEW(NULL, run->facts, facts, "facts", err));
    return load_rows(run, "SELECT key, text, session, checksum FROM fact ORDER BY position", facts,
                     load_fact, err);
}

void es_run_spec_free(es_run *run)
{
    for (int64_t i = 0; i < run->params_count; i++) {
        es_mem_free(NULL, (void *)(uintptr_t)run->params[i].key);
        es_mem_free(NULL, (void *)(uintptr_t)run->params[i].text);
    }
    for (int64_t i = 0; i < run->facts_count; i++) {
        es_mem_free(NULL, (void *)(uintptr_t)run->facts[i].key);
        es_mem_free(NULL, (void *)(uintptr_t)run->facts[i].text);
    }
    es_mem_free(NULL, run->params);
    es_mem_free(NULL, run->facts);
    es_mem_free(NULL, run->command);
    es_mem_free(NULL, run->created);
    es_mem_free(NULL, run->updated);
}

/* ---- comparing ---- */

/* Returns the text of a key; NULL if the list does not have it. */
static const char *text_of(const es_run_pair *pairs, int64_t count, const char *key)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return pairs[i].text;
    return NULL;
}

/* Text that grows at `out` while there is space; NULL only counts. */
typedef struct lines {
    char *out;
    size_t size, used;
    const char *end; /* after each line */
    const char *now; /* where the other text is: "now", "in part-2.run" */
    int64_t count;
} lines;

/* Appends "key: before, now" to the list of differences; long texts are cut. */
static void add_line(lines *l, const char *key, const char *before, const char *now)
{
    enum { SHOWN = 60 }; /* of a text; a grid may be pages long */
    char was_[SHOWN + 1], now_[SHOWN + 1];
    snprintf(was_, sizeof was_, "%s", before ? before : "absent");
    snprintf(now_, sizeof now_, "%s", now ? now : "absent");
    l->count++;
    if (l->used + 1 >= l->size)
        return;
    const size_t capacity = l->size - l->used;
    const int wrote = snprintf(l->out + l->used, capacity, "%s: %s in the file, %s %s%s", key, was_,
                               now_, l->now, l->end);
    l->used += (size_t)wrote < capacity ? (size_t)wrote : capacity - 1;
}

/* Values of earlier versions that mean what another value means now. `before` NULL: the parameter
 * did not exist. A new parameter whose value says what runs did before belongs here, or runs of
 * earlier versions cannot be resumed. */
static const struct {
    const char *command; /* NULL: all */
    const char *key, *before, *now;
} equivalents[] = {{NULL, "protocol", "house", "default"},
                   {NULL, "preset", "house", "default"},
                   {"probe", "sinks", NULL, "4"},
                   {"probe", "near", NULL, "64"},
                   {"budget", "evict", NULL, "ideal"},
                   {"budget", "policy", "stream,heavy,observe,random,top", ""},
                   {"budget", "granularity", NULL, "head"},
                   {"budget", "round", NULL, "1"}};

/* Returns whether the parameter was not given. A file written before the parameter existed does not
 * have it, and means the same. */
static bool is_unset(const char *text)
{
    return *text == '\0' || strcmp(text, "nan") == 0 || strcmp(text, "no") == 0;
}

/* Returns whether both texts are the same, or both NULL. */
static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* Returns whether two values of a parameter mean the same; NULL: the parameter is absent. */
static bool same_value(const char *command, const char *key, const char *before, const char *now)
{
    if (same_text(before, now) || (!before && is_unset(now)) || (!now && is_unset(before)))
        return true;
    for (size_t i = 0; i < sizeof equivalents / sizeof *equivalents; i++)
        if ((!equivalents[i].command || strcmp(equivalents[i].command, command) == 0) &&
            strcmp(equivalents[i].key, key) == 0 && same_text(equivalents[i].before, before) &&
            same_text(equivalents[i].now, now))
            return true;
    return false;
}

/* Lists the differences between a run and the parameters of its would-be continuation. */
static void diff(const es_run *run, const es_run_spec *spec, lines *l)
{
    if (strcmp(run->command, spec->command) != 0)
        add_line(l, "command", run->command, spec->command);
    for (int64_t i = 0; i < run->params_count; i++) {
        const es_run_pair *p = &run->params[i];
        const char *now = text_of(spec->params, spec->params_count, p->key);
        if (!same_value(run->command, p->key, p->text, now))
            add_line(l, p->key, p->text, now);
    }
    for (int64_t i = 0; i < spec->params_count; i++) {
        const es_run_pair *p = &spec->params[i];
        if (!text_of(run->params, run->params_count, p->key) &&
            !same_value(run->command, p->key, NULL, p->text))
            add_line(l, p->key, NULL, p->text);
    }
}

int64_t es_run_diff(const es_run *run, const es_run_spec *spec, char *out, size_t size)
{
    lines l = {.out = out, .size = out ? size : 0, .end = "\n", .now = "now"};
    if (l.size)
        out[0] = '\0';
    diff(run, spec, &l);
    return l.count;
}

/* The first differences, as many as go into `text`, and how many there are. */
static int64_t first_differences(const es_run *run, const es_run_spec *spec, const char *now,
                                 char *text, size_t size)
{
    lines l = {.out = text, .size = size, .end = "; ", .now = now};
    text[0] = '\0';
    diff(run, spec, &l);
    if (l.used >= 2 && strcmp(text + l.used - 2, "; ") == 0)
        text[l.used - 2] = '\0';
    return l.count;
}

es_status es_run_spec_compare(const es_run *run, const es_run_spec *spec, es_error *err)
{
    char text[256];
    const int64_t count = first_differences(run, spec, "now", text, sizeof text);
    if (count == 0)
        return ES_OK;
    return es_fail_file(err, ES_E_ARGUMENT, run->path, -1,
                        strcmp(run->command, spec->command) ? "run.command" : "run.parameters",
                        "resume with the parameters of the file, or write another file",
                        "the run differs in %lld: %s", (long long)count, text);
}

es_status es_run_spec_join(const es_run *run, const es_run_spec *spec, const char *other,
                           es_error *err)
{
    char text[256], where[96];
    snprintf(where, sizeof where, "in %.80s", other);
    const int64_t count = first_differences(run, spec, where, text, sizeof text);
    if (count == 0)
        return ES_OK;
    return es_fail_file(err, ES_E_ARGUMENT, run->path, -1,
                        strcmp(run->command, spec->command) ? "merge.command" : "merge.parameters",
                        "shards of one run differ only in --shard and --out",
                        "another run: %lld differ%s: %s", (long long)count, count == 1 ? "s" : "",
                        text);
}
