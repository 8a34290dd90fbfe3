#include "model/st_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/json.h"
#include "model/st_file.h"
#include "model/st_header.h"

static const char anew[] = "download the index anew";

/* ---- the text ---- */

/* A string of the index as a C string, where it stands. */
static es_status keep(const es_json *j, unsigned char *bytes, const es_json_text *text,
                      const char **out)
{
    char *at = (char *)bytes + text->at;
    const size_t size = es_json_decode(text, at);
    if (memchr(at, '\0', size))
        return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)text->at, "index.map", anew,
                            "a name holds a NUL character");
    at[size] = '\0';
    *out = at;
    return ES_OK;
}

/* Shards lie beside the index: a name that leads elsewhere is no mistake but an attack. */
static es_status check_shard(const es_json *j, size_t at, const char *shard)
{
    if (*shard && *shard != '.' && !strpbrk(shard, "/\\"))
        return ES_OK;
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, "index.shard", anew,
                        "shard '%.100s' is not a plain file name", shard);
}

/* The members of "weight_map": counted if places is NULL, else kept. */
static es_status take_map(es_json *j, unsigned char *bytes, es_st_place *places, int64_t *count)
{
    es_json_list list;
    es_json_text key, value;
    ES_TRY(es_json_begin(j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        ES_TRY(es_json_string(j, &value));
        if (places) {
            es_st_place *place = &places[*count];
            ES_TRY(keep(j, bytes, &key, &place->tensor));
            ES_TRY(keep(j, bytes, &value, &place->shard));
            ES_TRY(check_shard(j, value.at, place->shard));
        }
        ++*count;
    }
}

static es_status take_index(es_json j, unsigned char *bytes, es_st_place *places, int64_t *count)
{
    es_json_list list;
    es_json_text key;
    bool seen = false;
    *count = 0;
    ES_TRY(es_json_begin(&j, '{', &list));
    for (;;) {
        ES_TRY(es_json_next(&j, &list, &key));
        if (list.done)
            break;
        if (!es_json_same(&key, "weight_map")) {
            ES_TRY(es_json_skip(&j));
            continue;
        }
        if (seen)
            return es_fail_file(j.err, ES_E_FORMAT, j.file, (int64_t)key.at, "index.duplicate",
                                anew, "duplicate key weight_map");
        seen = true;
        ES_TRY(take_map(&j, bytes, places, count));
    }
    ES_TRY(es_json_end(&j));
    if (*count == 0)
        return es_fail_file(j.err, ES_E_FORMAT, j.file, 0, "index.map", anew,
                            "the index has no tensors in \"weight_map\"");
    return ES_OK;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const es_st_place *)a)->tensor, ((const es_st_place *)b)->tensor);
}

static int by_shard(const void *a, const void *b)
{
    const int order = strcmp(((const es_st_place *)a)->shard, ((const es_st_place *)b)->shard);
    return order ? order : by_tensor(a, b);
}

static es_status check_tensors(const es_st_place *places, int64_t count, const char *file,
                               es_error *err)
{
    for (int64_t i = 1; i < count; i++) {
        if (strcmp(places[i - 1].tensor, places[i].tensor) == 0)
            return es_fail_file(err, ES_E_FORMAT, file, -1, "index.duplicate", anew,
                                "duplicate tensor name '%.100s'", places[i].tensor);
    }
    return ES_OK;
}

es_status es_st_index_parse(unsigned char *bytes, size_t size, const char *file, es_budget *budget,
                            es_st_place **places, int64_t *count, es_error *err)
{
    const es_json j = {bytes, 0, size, file, "index", err, 0};
    void *memory;
    *places = NULL;
    ES_TRY(take_index(j, bytes, NULL, count)); /* a place costs eight bytes of text, or more */
    ES_TRY(es_mem_array(budget, *count, 1, sizeof **places, "a shard index", &memory, err));
    es_status status = take_index(j, bytes, memory, count);
    if (status == ES_OK) {
        qsort(memory, (size_t)*count, sizeof **places, by_tensor);
        status = check_tensors(memory, *count, file, err);
    }
    if (status != ES_OK) {
        es_mem_free(budget, memory);
        return status;
    }
    qsort(memory, (size_t)*count, sizeof **places, by_shard);
    *places = memory;
    return ES_OK;
}

/* ---- the shards ---- */

/* The shards of an index while they are opened. */
typedef struct shards {
    const char *index; /* path */
    const es_st_place *places;
    int64_t n_places;
    int count;
    struct {
        es_st_tensor *tensors;
        int64_t count;
    } * one; /* (count) */
} shards;

static int count_shards(const es_st_place *places, int64_t count)
{
    int shards_ = 1;
    for (int64_t i = 1; i < count; i++)
        shards_ += strcmp(places[i - 1].shard, places[i].shard) != 0;
    return shards_;
}

/* "FOLDER/shard", where FOLDER is that of the index. */
static es_status shard_path(const shards *s, const char *shard, char *out, size_t size,
                            es_error *err)
{
    const char *slash = strrchr(s->index, '/');
    const int folder = slash ? (int)(slash - s->index) + 1 : 0;
    if ((size_t)snprintf(out, size, "%.*s%s", folder, s->index, shard) >= size)
        return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.shard", anew,
                            "the path of shard '%.100s' is too long", shard);
    return ES_OK;
}

static es_status load_shards(shards *s, es_st *st, const es_st_opts *opts, es_error *err)
{
    int shard = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        char path[4096];
        if (i > 0 && strcmp(s->places[i - 1].shard, s->places[i].shard) == 0)
            continue;
        ES_TRY(shard_path(s, s->places[i].shard, path, sizeof path, err));
        if (access(path, F_OK) != 0 && errno == ENOENT)
            return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.file",
                                "download that file, too", "shard '%.100s' is not there",
                                s->places[i].shard);
        ES_TRY(es_st_file_load(st, shard, path, opts, &s->one[shard].tensors, &s->one[shard].count,
                               err));
        shard++;
    }
    return ES_OK;
}

/* All tensors in one list; a name in two shards is refused. */
static es_status join_shards(const shards *s, es_st *st, es_error *err)
{
    int64_t total = 0;
    void *memory;
    for (int i = 0; i < s->count; i++)
        total += s->one[i].count;
    ES_TRY(es_mem_array(st->budget, total, 1, sizeof *st->tensors, "the list of tensors", &memory,
                        err));
    st->tensors = memory;
    for (int i = 0; i < s->count; i++) {
        memcpy(st->tensors + st->count, s->one[i].tensors,
               (size_t)s->one[i].count * sizeof *st->tensors);
        st->count += s->one[i].count;
    }
    qsort(st->tensors, (size_t)st->count, sizeof *st->tensors, es_st_by_name);
    for (int64_t i = 1; i < st->count; i++) {
        const es_st_tensor *a = &st->tensors[i - 1], *b = &st->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return es_fail_file(err, ES_E_FORMAT, es_st_file(st, b), (int64_t)b->offset,
                                "index.twice", anew, "tensor '%.100s' is in another shard, too",
                                a->name);
    }
    return ES_OK;
}

static es_status check_places(const shards *s, const es_st *st, es_error *err)
{
    int shard = 0;
    for (int64_t i = 0; i < s->n_places; i++) {
        const es_st_place *place = &s->places[i];
        shard += i > 0 && strcmp(s->places[i - 1].shard, place->shard) != 0;
        const es_st_tensor *t = es_st_find(st, place->tensor);
        if (!t || t->file != shard)
            return es_fail_file(err, ES_E_FORMAT, s->index, -1, "index.missing", anew,
                                "tensor '%.100s' is not in shard '%.100s'", place->tensor,
                                place->shard);
    }
    if (st->count > s->n_places)
        es_log(ES_LOG_WARN, "%s: the shards hold %lld tensors that it does not list", s->index,
               (long long)(st->count - s->n_places));
    return ES_OK;
}

static es_status open_shards(shards *s, const es_st_opts *opts, es_st **out, es_error *err)
{
    void *memory;
    es_st *st;
    ES_TRY(es_mem_array(opts->budget, s->count, 1, sizeof *s->one, "shards", &memory, err));
    s->one = memory;
    es_status status = es_st_files_new(s->count, opts->budget, &st, err);
    if (status == ES_OK)
        status = load_shards(s, st, opts, err);
    if (status == ES_OK)
        status = join_shards(s, st, err);
    if (status == ES_OK)
        status = check_places(s, st, err);
    for (int i = 0; i < s->count; i++)
        es_mem_free(opts->budget, s->one[i].tensors);
    es_mem_free(opts->budget, memory);
    if (status != ES_OK)
        es_st_close(st);
    else
        *out = st;
    return status;
}

es_status es_st_open_index(const char *path, const es_st_opts *opts, es_st **out, es_error *err)
{
    static const es_st_opts strict = {0};
    const es_st_opts *o = opts ? opts : &strict;
    void *text;
    size_t size;
    es_st_place *places;
    shards s = {.index = path};
    *out = NULL;
    ES_TRY(es_file_load(path, o->header_most ? o->header_most : 100000000, o->budget, &text, &size,
                        err));
    es_status status = es_st_index_parse(text, size, path, o->budget, &places, &s.n_places, err);
    if (status == ES_OK) {
        s.places = places;
        s.count = count_shards(places, s.n_places);
        status = open_shards(&s, o, out, err);
    }
    es_mem_free(o->budget, places);
    es_mem_free(o->budget, text);
    return status;
}
