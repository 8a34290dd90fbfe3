/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_pool.h : texts of known tokens, and a small model that reads them into pools. */
#ifndef ES_TESTS_TINY_POOL_H
#define ES_TESTS_TINY_POOL_H

#include "tiny_model.h"

#include <esscher/tokenizer.h>

#include "model/pool.h"

static tiny tiny_of_pool;
static es_model *model;
static es_tokenizer *tokenizer;

static inline void open_model_of(const tiny *t)
{
    tiny_write(t);
    tiny_write_vocab(t);
    assert_ok(es_model_open(folder, NULL, &model, &err));
    assert_ok(es_tokenizer_open(folder, NULL, &tokenizer, &err));
}

static inline void close_model(void)
{
    es_tokenizer_free(tokenizer);
    es_model_close(model);
}

static inline int make_model_folder(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    tiny_of_pool = tiny_default();
    tiny_draw(&tiny_of_pool);
    open_model_of(&tiny_of_pool);
    return 0;
}

/* A pool's files and its folder. */
static inline void remove_pool(const char *name)
{
    static const char *const files[] = {"pool.run", "pool.run.lock", "pool.run-journal"};
    char path[512];
    for (int l = 0; l < 8; l++) {
        snprintf(path, sizeof path, "%s/%s/layer-%d.npy", folder, name, l);
        remove(path);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, name, files[i]);
        remove(path);
    }
    assert_int_equal(rmdir(in_folder(name)), 0);
}

static inline int remove_model_folder(void **state)
{
    close_model();
    tiny_free(&tiny_of_pool);
    return remove_folder(state);
}

/* `count` words of the vocabulary, no two texts of different seeds alike; their ids into ids. */
static inline const char *write_words(const char *name, uint64_t seed, int64_t count, int32_t *ids)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ids[i] = TINY_FIRST_WORD +
                 (int32_t)(seed >> 40) % (int32_t)(tiny_of_pool.vocab - TINY_FIRST_WORD);
        fprintf(file, "word%d%c", (int)ids[i], i % 12 == 11 ? '\n' : ' ');
    }
    assert_int_equal(fclose(file), 0);
    return path_of_file;
}

/* A spec of one text, with paths that last until the next one is made. */
static inline es_pool_spec pool_spec_of(const char *text, const char *pool)
{
    static char paths[2][512];
    static const char *texts[1];
    snprintf(paths[0], sizeof paths[0], "%s/%s", folder, text);
    snprintf(paths[1], sizeof paths[1], "%s/%s", folder, pool);
    texts[0] = paths[0];
    return (es_pool_spec){
        .model = model, .tokenizer = tokenizer, .texts = texts, .n_texts = 1, .folder = paths[1]};
}

#endif
