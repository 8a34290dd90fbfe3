#include "run_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/model.h>

#include "grid.h"
#include "options.h"
#include "run_tables.h"
#include "talk.h"

/* ---- parameters: what determines the numbers ---- */

enum { MOST_PARAMS = 96, TEXT = 8192, FILE_TEXT = 64 };

typedef struct params {
    es_run_pair pair[MOST_PARAMS];
    int64_t count;
} params;

static void add(params *p, const char *key, const char *fmt, ...) ES_PRINTF(3, 4);

static void add(params *p, const char *key, const char *fmt, ...)
{
    char *text = cli_alloc(TEXT);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, TEXT, fmt, args);
    va_end(args);
    if (p->count < MOST_PARAMS)
        p->pair[p->count++] = (es_run_pair){.key = key, .text = text};
    else
        free(text);
}

static void free_params(params *p)
{
    for (int64_t i = 0; i < p->count; i++)
        free((void *)(uintptr_t)p->pair[i].text);
}

static uint64_t fnv1a(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

static const uint64_t fnv1a_start = UINT64_C(0xcbf29ce484222325);

/* A file by its contents: two that differ are told apart, nothing more is asked of the hash. What
 * cannot be read has been, or will be, complained of by whoever needs it. */
static void describe_file(const char *path, char out[FILE_TEXT])
{
    unsigned char bytes[65536];
    uint64_t h = fnv1a_start, size = 0;
    size_t got;
    FILE *f = fopen(path, "rb");
    while (f && ((got = fread(bytes, 1, sizeof bytes, f)) > 0 || (ferror(f) && errno == EINTR))) {
        clearerr(f); /* a signal is no end: half a file would be another one */
        h = fnv1a(h, bytes, got);
        size += got;
    }
    if (f)
        fclose(f);
    snprintf(out, FILE_TEXT, "%llu bytes, %016llx", (unsigned long long)size,
             (unsigned long long)h);
}

/* A list that is too long for a line is known by its hash. */
static void add_list(params *p, const char *key, const char *list, int64_t count, const char *what)
{
    const size_t size = strlen(list);
    if (size < TEXT)
        add(p, key, "%s", list);
    else
        add(p, key, "%lld %s, %016llx", (long long)count, what,
            (unsigned long long)fnv1a(fnv1a_start, list, size));
}

/* Several files, or NAME=FILE if `named`: each by its contents, after its name if it has one. */
static void add_files(params *p, const char *key, const cli_strings *files, bool named)
{
    char text[FILE_TEXT];
    size_t room = 1, used = 0;
    for (int64_t i = 0; i < files->count; i++)
        room += strlen(files->at[i]) + FILE_TEXT + 2;
    char *list = cli_alloc(room);
    list[0] = '\0';
    for (int64_t i = 0; i < files->count; i++) {
        const char *equals = named ? strchr(files->at[i], '=') : NULL;
        describe_file(equals ? equals + 1 : files->at[i], text);
        used += (size_t)snprintf(list + used, room - used, "%s%.*s%s", i ? "; " : "",
                                 equals ? (int)(equals - files->at[i] + 1) : 0, files->at[i], text);
    }
    add_list(p, key, list, files->count, "files");
    free(list);
}

/* What a model's numbers may depend on. */
static int is_model_file(const struct dirent *entry)
{
    static const char *const names[] = {"config.json", "vocab.txt", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors.index.json"};
    const char *dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(entry->d_name, names[i]) == 0)
            return 1;
    return dot && strcmp(dot, ".safetensors") == 0;
}

/* A model by the contents of its folder: settings, tokenizer, weights and all their shards. */
static void add_model(params *p, const char *key, const char *name)
{
    enum { NAME = 256 };
    char folder[4096], path[4096 + NAME + 1], text[FILE_TEXT];
    struct dirent **entries;
    size_t used = 0;
    if (es_model_locate(name, folder, sizeof folder, NULL) != ES_OK)
        folder[0] = '\0'; /* whoever opens it complains */
    const int count = folder[0] ? scandir(folder, &entries, is_model_file, alphasort) : 0;
    const size_t room = (size_t)(count > 0 ? count : 0) * (NAME + FILE_TEXT + 4) + 1;
    char *all = cli_alloc(room);
    all[0] = '\0';
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        describe_file(path, text);
        used += (size_t)snprintf(all + used, room - used, "%s%s %s", i ? "; " : "",
                                 entries[i]->d_name, text);
        free(entries[i]);
    }
    if (count >= 0 && folder[0])
        free(entries);
    add_list(p, key, all, count, "files");
    free(all);
}

/* The numbers of a grid; one too long for a line by its hash. */
static void add_grid(params *p, const char *key, const cli_grid *grid)
{
    char list[TEXT];
    size_t used = 0;
    list[0] = '\0';
    for (int64_t i = 0; i < grid->count && used < sizeof list - 32; i++)
        used += (size_t)snprintf(list + used, sizeof list - used,
                                 grid->counts ? "%s%.0f" : "%s%.17g", i ? "," : "", grid->reals[i]);
    if (used < sizeof list - 32)
        add(p, key, "%s", list);
    else
        add(p, key, "%lld numbers, %016llx", (long long)grid->count,
            (unsigned long long)fnv1a(fnv1a_start, grid->reals,
                                      (size_t)grid->count * sizeof *grid->reals));
}

static void add_text(params *p, const cli_option *o, const char *text)
{
    char contents[FILE_TEXT];
    if (text && strcmp(o->argument, "MODEL") == 0) {
        add_model(p, o->name, text);
    } else if (text && strncmp(o->argument, "FILE", 4) == 0) { /* FILE.csv, too */
        describe_file(text, contents);
        add(p, o->name, "%s", contents);
    } else {
        add(p, o->name, "%s", text ? text : "");
    }
}

static void add_option(params *p, const cli_option *o, const void *options)
{
    const void *field = (const char *)options + o->field;
    switch ((int)o->kind) {
    case CLI_FLAG:
        add(p, o->name, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case CLI_STRING:
        add_text(p, o, *(const char *const *)field);
        break;
    case CLI_WHOLE:
    case CLI_BYTES:
        add(p, o->name, "%lld", (long long)*(const int64_t *)field);
        break;
    case CLI_NUMBER:
        add(p, o->name, "%.17g", *(const double *)field);
        break;
    case CLI_SEED:
        add(p, o->name, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case CLI_CHOICE:
        add(p, o->name, "%s", *(const int *)field < 0 ? "" : o->choices[*(const int *)field]);
        break;
    case CLI_REALS:
    case CLI_COUNTS:
        add_grid(p, o->name, field);
        break;
    case CLI_STRINGS:
        add_files(p, o->name, field, strcmp(o->argument, "NAME=FILE") == 0);
        break;
    }
}

static void describe(const cli_session *session, const void *options, params *p)
{
    const cli_command *command = session->command;
    if (command->common & CLI_TAKES_SEED)
        add(p, "seed", "%llu", (unsigned long long)session->common.seed);
    for (const cli_option *o = command->options; o && o->name; o++)
        if (!o->aside)
            add_option(p, o, options);
    if (command->operand)
        add_option(p, command->operand, options);
    if (command->common & CLI_TAKES_PRECISION)
        add(p, "precision", "%s", session->common.precision == 1 ? "f64" : "f32");
    if (command->common & CLI_TAKES_ISA)
        add(p, "kernels", "%s", es_isa_name(session->exec.isa));
}

/* ---- facts: who computed it, on what ---- */

/* The command line, so that a shell gives it back. */
static char *command_line(const cli_session *session)
{
    size_t size = 16;
    for (int i = 0; i < session->argc; i++)
        size += 4 * strlen(session->argv[i]) + 3; /* a quote becomes four characters */
    char *line = cli_alloc(size);
    size_t used = (size_t)snprintf(line, size, "esscher");
    for (int i = 0; i < session->argc; i++) {
        const char *word = session->argv[i];
        const bool plain =
            word[0] && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                                    "WXYZ0123456789-_=.,/:+@%") == strlen(word);
        line[used++] = ' ';
        if (!plain)
            line[used++] = '\'';
        for (const char *c = word; *c; c++) {
            if (*c == '\'')
                used += (size_t)snprintf(line + used, size - used, "'\\''");
            else
                line[used++] = *c;
        }
        if (!plain)
            line[used++] = '\'';
    }
    line[used] = '\0';
    return line;
}

/* ---- the file ---- */

/* A process may be killed before it has begun its run file, for probe while it still makes a pool;
 * the same command with --resume then begins it. */
static bool nothing_to_resume(const cli_session *session, const char *path)
{
    char shown[256];
    if (access(path, F_OK) == 0 || errno != ENOENT)
        return false;
    if (!session->common.quiet)
        fprintf(stderr, "esscher %s: there is no %s to resume: it is begun\n",
                session->command->name, cli_escape(path, shown, sizeof shown));
    return true;
}

es_status cli_run_open(cli_session *session, const void *options, const cli_run_options *run,
                       cli_run_file *file, es_error *err)
{
    *file = (cli_run_file){0};
    if (run->resume && !run->out)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "run.options", "name the run file with --out",
                        "--resume without --out");
    if (!run->out)
        return ES_OK;
    const es_build build = es_build_info();
    char *line = command_line(session);
    const es_run_pair facts[] = {{"command", line},
                                 {"version", build.version},
                                 {"compiler", build.compiler},
                                 {"cpu", es_cpu_name()},
                                 {"blas", build.blas}};
    params *p = cli_alloc(sizeof *p);
    p->count = 0;
    describe(session, options, p);
    const es_run_spec spec = {.command = session->command->name,
                              .params = p->pair,
                              .params_count = p->count,
                              .facts = facts,
                              .facts_count = sizeof facts / sizeof facts[0]};
    const bool resume = run->resume && !nothing_to_resume(session, run->out);
    const es_status status = resume ? es_run_resume(run->out, &spec, &file->run, err)
                                    : es_run_create(run->out, &spec, run->force, &file->run, err);
    free_params(p);
    free(p);
    free(line);
    return status;
}

es_status cli_run_stage(cli_run_file *file, const char *name, int64_t rows, int64_t cols,
                        const char *const *columns, int64_t *stage, es_error *err)
{
    *stage = 0;
    return file->run ? es_run_add_stage(file->run, name, rows, cols, columns, stage, err) : ES_OK;
}

es_status cli_run_find(const cli_run_file *file, int64_t stage, int64_t cell, double *out,
                       bool *done, es_error *err)
{
    *done = false;
    if (!file->run)
        return ES_OK;
    const es_status status = es_run_has_cell(file->run, stage, cell, done, err);
    return status == ES_OK && *done ? es_run_get_cell(file->run, stage, cell, out, err) : status;
}

es_status cli_run_keep(const cli_run_file *file, int64_t stage, int64_t cell, const double *values,
                       es_error *err)
{
    return file->run ? es_run_put_cell(file->run, stage, cell, values, err) : ES_OK;
}

es_status cli_run_interrupted(const cli_run_file *file, int64_t done, int64_t total,
                              const char *what, es_error *err)
{
    return cli_fail(err, ES_E_INTERRUPTED, NULL, "run.interrupted",
                    file->run ? "go on with --resume" : "with --out RUN it could go on later",
                    "interrupted after %lld of %lld %s", (long long)done, (long long)total, what);
}

es_status cli_run_close(cli_run_file *file, const cli_session *session, es_status status,
                        es_error *err)
{
    if (!file->run)
        return status;
    if (status == ES_OK)
        status = cli_run_tables(file->run, session, err);
    if (status == ES_E_INTERRUPTED && strcmp(err->rule, "run.interrupted") != 0)
        cli_fail(err, status, NULL, "run.interrupted", "go on with --resume",
                 "interrupted; what was finished is kept");
    es_error closing;
    const es_status closed = es_run_close(file->run, &closing);
    file->run = NULL;
    if (status == ES_OK && closed != ES_OK) {
        *err = closing;
        status = closed;
    }
    return status;
}
