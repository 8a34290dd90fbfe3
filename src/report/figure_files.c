/* SPDX-License-Identifier: Apache-2.0 */
/* figure_files.c : figures of runs as files. Tables go to Node.js, which draws them by the page's
 * own modules; what comes back is checked and written. */
#include <esscher/report.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/assets.h"
#include "report/page_run.h"
#include "report/node.h"
#include "report/page_data.h"
#include "report/sink.h"

/* ---- what goes out ---- */

/* The name of the run file, without folders and ending. */
static void put_name(es_sink *s, const char *path)
{
    char name[256];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot > name)
        *dot = '\0';
    es_sink_json_text(s, name);
}

/* Writes a run as JSON for the program that draws figures. */
static void put_run(es_sink *s, const es_page_run *page_run)
{
    es_sink_put(s, "{\"name\":");
    put_name(s, page_run->path);
    es_sink_put(s, ",");
    es_page_facts(s, page_run);
    es_sink_put(s, ",\n\"tables\":{");
    const char *between = "";
    for (int64_t i = 0; i < page_run->count; i++)
        if (page_run->views[i].first) {
            es_sink_put(s, between);
            es_page_table(s, page_run->views[i].table);
            between = ",\n";
        }
    es_sink_put(s, "}}\n");
}

/* One run's tables are in memory at a time. */
static es_status put_runs(es_sink *s, const char *const *runs, int64_t count, es_mem_limit *budget,
                          es_error *err)
{
    es_sink_put(s, "[");
    for (int64_t i = 0; i < count; i++) {
        es_page_run page_run;
        ES_TRY(es_page_run_open(&page_run, runs[i], budget, err));
        const es_status status = es_page_run_read(&page_run, err);
        if (status == ES_OK) {
            es_sink_put(s, i ? "," : "");
            put_run(s, &page_run);
            es_page_run_forget(&page_run);
        }
        es_page_run_close(&page_run);
        ES_TRY(status);
    }
    es_sink_put(s, "]");
    return es_sink_flush(s);
}

/* Writes all runs into the file that Node.js reads. */
static es_status write_data(int fd, const char *const *runs, int64_t count, es_mem_limit *budget,
                            es_error *err)
{
    es_sink *s;
    ES_TRY(ES_MEM_NEW(budget, s, 1, "a buffer", err));
    es_sink_begin_open(s, fd, "data for node", err);
    const es_status status = put_runs(s, runs, count, budget, err);
    es_mem_free(budget, s);
    return status;
}

/* ---- what comes back ---- */

enum { NAME = 200, KIND = 8, PATH = 4096 };

/* A file that came back; its words lie in the parcel. */
typedef struct parcel_file {
    const char *figure, *kind, *title, *bytes;
    int64_t size, rows, unknown;
} parcel_file;

/* All of them, one after the other: a line about each, then its bytes. */
typedef struct parcel {
    char *bytes;
    size_t size;
    parcel_file *files; /* (count), with memory for `capacity` */
    int64_t count, capacity;
} parcel;

/* Names come from titles, by our own script; still, none may leave the folder, hide in it or look
 * like an option. */
static bool is_plain(const char *name)
{
    const char *c = name;
    for (; *c; c++)
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c) && (*c != '-' || c == name))
            return false;
    return c > name && c - name < NAME;
}

/* Returns true for a kind of file that figures are stored as. */
static bool is_kind(const char *word)
{
    static const char kinds[][KIND] = {"svg", "pdf", "vl.json", "csv"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(word, kinds[i]) == 0)
            return true;
    return false;
}

/* Reads a count; false for anything else, because the text comes from another program. */
static bool is_count(const char *word, int64_t *out)
{
    const size_t digits = strspn(word, "0123456789");
    const bool good = digits > 0 && digits < 19 && word[digits] == '\0';
    *out = good ? strtoll(word, NULL, 10) : 0;
    return good;
}

/* The next word of a line, ended where its space was; "" if no space follows it. */
static const char *take_word(char **at)
{
    char *word = *at, *end = strchr(word, ' ');
    if (!end)
        return "";
    *end = '\0';
    *at = end + 1;
    return word;
}

/* The file that begins at *at, which moves behind it; false if it is something else. */
static bool read_file(parcel *p, size_t *at, parcel_file *out)
{
    char *line = p->bytes + *at, *end = memchr(line, '\n', p->size - *at);
    if (!end)
        return false;
    *end = '\0';
    *at = (size_t)(end + 1 - p->bytes);
    if (!is_count(take_word(&line), &out->size) || !is_count(take_word(&line), &out->rows) ||
        !is_count(take_word(&line), &out->unknown))
        return false;
    out->figure = take_word(&line);
    out->kind = take_word(&line);
    out->title = line;
    out->bytes = end + 1;
    if (!is_plain(out->figure) || !is_kind(out->kind) || (size_t)out->size > p->size - *at)
        return false;
    *at += (size_t)out->size;
    return true;
}

/* Compares two files by figure and kind, for qsort(). */
static int by_name(const void *a, const void *b)
{
    const parcel_file *x = a, *y = b;
    const int order = strcmp(x->figure, y->figure);
    return order ? order : strcmp(x->kind, y->kind);
}

/* Compares two files by their place in the answer, for qsort(). */
static int by_place(const void *a, const void *b)
{
    const parcel_file *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Of two files of one name the second would replace the first. */
static bool has_twice(const parcel *p)
{
    parcel_file *files = p->files;
    bool twice = false;
    if (p->count < 2)
        return false;
    qsort(files, (size_t)p->count, sizeof *files, by_name);
    for (int64_t i = 1; i < p->count; i++)
        twice = twice || by_name(&files[i - 1], &files[i]) == 0;
    qsort(files, (size_t)p->count, sizeof *files, by_place);
    return twice;
}

/* Fails because Node.js answered with something else. */
static es_status fail_answer(es_error *err)
{
    return es_fail(err, ES_E_UNSUPPORTED, "report.node", "install nodejs, 18 or later",
                   "node gave back something else than figures");
}

/* Reads the answer of Node.js into memory. */
static es_status read_answer(int fd, es_mem_limit *budget, parcel *out, es_error *err)
{
    struct stat st;
    char *bytes;
    if (fstat(fd, &st) != 0)
        return es_file_fail(err, "figures", "file.read", "", "read", errno);
    ES_TRY(ES_MEM_BYTES(budget, bytes, (size_t)st.st_size, "figures", err));
    *out = (parcel){.bytes = bytes, .size = (size_t)st.st_size};
    for (size_t have = 0; have < out->size;) {
        const ssize_t got = pread(fd, out->bytes + have, out->size - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return es_file_fail(err, "figures", "file.read", "", "read", got < 0 ? errno : EIO);
        have += (size_t)got;
    }
    return ES_OK;
}

/* Splits the answer into files; names that repeat are an error, because one would overwrite the
 * other. */
static es_status open_parcel(parcel *p, es_mem_limit *budget, es_error *err)
{
    parcel_file file;
    for (size_t at = 0; at < p->size;) {
        if (!read_file(p, &at, &file))
            return fail_answer(err);
        ES_TRY(ES_MEM_GROW(budget, p->files, &p->capacity, p->count + 1, "names of figures", err));
        p->files[p->count++] = file;
    }
    return has_twice(p) ? fail_answer(err) : ES_OK;
}

/* Makes a directory unless it exists. */
static es_status make_folder(const char *folder, es_error *err)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return ES_OK;
    return es_file_fail(err, folder, "file.create", "check that the folder above it is writable",
                        "create", errno);
}

/* check() saw that it fits. */
static void path_of(const parcel_file *file, const char *folder, char path[PATH])
{
    snprintf(path, PATH, "%s/%s.%s", folder, file->figure, file->kind);
}

/* Writes one file by way of a draft, so that it is never half written. */
static es_status save(const parcel_file *file, const char *folder, const es_figures_opts *opts,
                      es_error *err)
{
    char path[PATH];
    es_draft draft;
    path_of(file, folder, path);
    ES_TRY(es_draft_open(path, opts->overwrite, &draft, err));
    draft.hasty = true;
    es_status status = es_draft_write(&draft, file->bytes, (size_t)file->size, err);
    if (status == ES_OK)
        status = es_draft_publish(&draft, err);
    es_draft_discard(&draft);
    if (status == ES_OK && opts->wrote)
        opts->wrote(opts->wrote_user, &(es_report_file){.path = path,
                                                        .figure = file->figure,
                                                        .kind = file->kind,
                                                        .title = file->title,
                                                        .rows = file->rows,
                                                        .bytes = file->size,
                                                        .unknown = file->unknown});
    return status;
}

/* Twice over the files: is every name free, then write. */
static es_status write_files(const parcel *p, const char *folder, const es_figures_opts *opts,
                             es_error *err)
{
    const parcel_file *files = p->files;
    char path[PATH];
    ES_TRY(make_folder(folder, err));
    for (int64_t i = 0; i < p->count; i++) {
        path_of(&files[i], folder, path);
        ES_TRY(es_file_may_create(path, opts->overwrite, err));
    }
    for (int64_t i = 0; i < p->count; i++)
        ES_TRY(save(&files[i], folder, opts, err));
    return ES_OK;
}

/* ---- all of it ---- */

/* Fails for a wrong number of runs or a directory name that is missing or too long. */
static es_status check(int64_t count, const char *folder, es_error *err)
{
    const size_t most = PATH - NAME - KIND - 2;
    if (count < 1 || count > ES_REPORT_RUNS)
        return es_fail(err, ES_E_ARGUMENT, "report.runs", "name one run file or several",
                       "figures are drawn of 1 to %d runs, not %lld", ES_REPORT_RUNS,
                       (long long)count);
    if (!folder || !*folder)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass the name of a folder",
                       "no folder is named");
    if (strlen(folder) > most)
        return es_fail(err, ES_E_LIMIT, "file.path", "choose a folder with a shorter name",
                       "the folder's name has %zu bytes; the most accepted is %zu", strlen(folder),
                       most);
    if (es_asset_stills.size == 0)
        return es_fail(err, ES_E_UNSUPPORTED, "report.figures",
                       "install nodejs and npm and build again with a network",
                       "figures are not built in: %s", es_asset_missing);
    return ES_OK;
}

/* Draws all figures: sends the data to Node.js and stores the files that come back. */
static es_status draw(const es_node_files *files, const char *const *runs, int64_t count,
                      const char *folder, const es_figures_opts *opts, es_error *err)
{
    parcel answer = {0};
    ES_TRY(write_data(files->data, runs, count, opts->budget, err));
    ES_TRY(es_node_run(&es_asset_stills, files, opts->progress, opts->progress_user, err));
    es_status status = read_answer(files->answer, opts->budget, &answer, err);
    if (status == ES_OK)
        status = open_parcel(&answer, opts->budget, err);
    if (status == ES_OK)
        status = write_files(&answer, folder, opts, err);
    es_mem_free(opts->budget, answer.files);
    es_mem_free(opts->budget, answer.bytes);
    return status;
}

es_status es_report_figures(const char *const *runs, int64_t count, const char *folder,
                            const es_figures_opts *opts, es_error *err)
{
    es_node_files files = {.data = -1, .answer = -1};
    ES_TRY(check(count, folder, err));
    es_status status = es_file_nameless(&files.data, err);
    if (status == ES_OK)
        status = es_file_nameless(&files.answer, err);
    if (status == ES_OK)
        status = draw(&files, runs, count, folder, opts, err);
    if (files.data >= 0)
        close(files.data);
    if (files.answer >= 0)
        close(files.answer);
    return status;
}
