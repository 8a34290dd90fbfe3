/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf.c : any bytes at all, read as a GGUF file: its header, the numbers of its tensors, its
 * tokenizer, the model it is. What is accepted must hold together. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/gguf_model.h"
#include "text/gguf_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Every refusal says which rule was broken. */
static void check_refusal(es_status status, const es_error *err)
{
    require(status == err->code && err->rule[0] && err->message[0] && err->hint[0]);
}

static void check_tensors(const es_gguf_header *h, const uint8_t *data, size_t size)
{
    for (int64_t i = 0; i < h->count; i++) {
        const es_st_tensor *t = &h->tensors[i];
        const es_gguf_type *type = es_gguf_type_of(t->dtype);
        es_st_seen seen = {.first = -1};
        require(type && t->rank >= 1 && t->rank <= 4);
        require(i == 0 || strcmp(h->tensors[i - 1].name, t->name) < 0);
        require(t->offset >= h->end && t->offset + t->bytes <= size);
        require((uint64_t)t->count / (uint64_t)type->numbers * (uint64_t)type->bytes == t->bytes);
        if (!type->decode)
            continue;
        double *numbers = malloc((size_t)t->count * sizeof *numbers);
        float *singles = malloc((size_t)t->count * sizeof *singles);
        require(numbers && singles);
        es_gguf_decode(type, data + t->offset, 0, t->count, ES_F64, numbers, &seen);
        type->decode(data + t->offset, t->count / type->numbers, singles);
        require((seen.first >= 0) == (seen.nans + seen.infinities > 0));
        int64_t odd = 0;
        for (int64_t k = 0; k < t->count; k++) {
            const double x = (double)singles[k];
            odd += !isfinite(x);
            require(isfinite(x) ? x == numbers[k] : !isfinite(numbers[k]));
        }
        require(odd == seen.nans + seen.infinities);
        free(singles);
        free(numbers);
    }
}

/* What a file says about its place in a split model is possible, or is refused by a rule. */
static void check_split(const es_gguf_header *h)
{
    es_gguf_split split;
    es_error err = {0};
    char path[64];
    es_status status = es_gguf_split_of(h, &split, &err);
    if (status == ES_OK) {
        require(split.number >= 0 && split.number < split.count && split.count <= 65535);
        status = es_gguf_split_path("m-00001-of-00002.gguf", &split, split.count - 1, path,
                                    sizeof path, &err);
    }
    if (status != ES_OK)
        check_refusal(status, &err);
}

/* Every array is walked to its end, which is where the header said. */
static void check_values(const es_gguf_header *h)
{
    for (int64_t i = 0; i < h->values_count; i++) {
        const es_gguf_value *v = &h->values[i];
        size_t at = v->at;
        require(v->key.size > 0 && v->at <= h->end);
        for (int64_t k = 0; k < v->count; k++)
            if (v->item == ES_GGUF_STRING)
                es_gguf_next(h, &at);
            else if (v->type == ES_GGUF_ARRAY)
                es_gguf_number(h, v, k);
        require(at <= h->end);
    }
}

/* Text becomes tokens that the vocabulary has, at places that the text has. */
static void check_tokenizer(const es_gguf_header *h)
{
    static const char text[] = " ab\xc3\xa9  12 c\xe2\x96\x81\n<s>x";
    es_mem_limit budget = {.limit = (size_t)1 << 26};
    const es_encode_opts opts = {.budget = &budget};
    es_token_list list = {0};
    es_tokenizer *t = NULL;
    es_error err = {0};
    const es_status status = es_gguf_tokenizer(h, &budget, &t, &err);
    if (status != ES_OK) {
        require(!t && budget.used == 0);
        check_refusal(status, &err);
        return;
    }
    require(es_tokenizer_encode(t, text, sizeof text - 1, &opts, &list, &err) == ES_OK);
    for (int64_t i = 0; i < list.count; i++) {
        const es_token *token = &list.tokens[i];
        require(es_tokenizer_token(t, token->id) != NULL);
        require(token->begin >= 0 && token->begin <= token->end &&
                token->end <= (int64_t)sizeof text - 1);
    }
    es_token_list_free(&list);
    es_tokenizer_free(t);
    require(budget.used == 0);
}

/* The header becomes a model's: every tensor has a name that it did not have before, and heads
 * divide its rows. There is no file, so that frequencies cannot be read. */
static void check_model(es_gguf_header *h, size_t size)
{
    static char path[] = "fuzz";
    es_gguf_part file = {.file = {.fd = -1, .path = path}, .path = path};
    es_gguf g = {.parts = &file, .n_parts = 1, .path = path, .header = *h};
    es_model_config c;
    es_error err = {0};
    es_status status = es_gguf_config(&g, &c, &err);
    if (status == ES_OK) {
        require(c.heads % c.kv_heads == 0 && c.head_dim > 0 && c.vocab > 0);
        status = es_gguf_adopt(&g, &c, &err);
    }
    if (status != ES_OK && status != ES_E_IO)
        check_refusal(status, &err);
    for (int64_t i = 0; status == ES_OK && i < g.header.count; i++) {
        const es_st_tensor *t = &g.header.tensors[i];
        require(i == 0 || strcmp(t[-1].name, t->name) < 0);
        const es_gguf_layout *l = &g.layouts[i];
        require(l->heads == 0 || t->shape[0] == l->heads * c.head_dim);
        require(!l->in_turn || t->count == 2 * l->other.count);
        require(l->row == 1 || t->count % l->row == 0);
        require(t->offset + t->bytes <= size);
    }
    es_mem_free(NULL, g.layouts);
    *h = g.header;
}

/* A beginning of the file either wants more of it or gives what the whole gives. */
static void check_part(const uint8_t *data, size_t size, es_status whole, const es_error *known)
{
    const es_st_opts opts = {0};
    es_error err = {0};
    es_gguf_header header;
    uint64_t want;
    const size_t have = size / 2;
    const es_status status = es_gguf_parse(data, have, size, "fuzz", &opts, &header, &want, &err);
    require(want ? want > have && want <= size
                 : status == whole && strcmp(err.rule, known->rule) == 0);
    es_gguf_header_free(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const es_st_opts opts = {.allow_trailing = size % 2 == 0};
    es_error err = {0};
    es_gguf_header header;
    uint64_t want;
    const es_status status = es_gguf_parse(data, size, size, "fuzz", &opts, &header, &want, &err);
    require(want == 0);
    if (status == ES_OK) {
        check_tensors(&header, data, size);
        check_values(&header);
        check_split(&header);
        check_tokenizer(&header);
        check_model(&header, size);
    } else {
        check_refusal(status, &err);
        require(err.offset >= 0 && err.offset <= (int64_t)size);
    }
    es_gguf_header_free(&header);
    if (!opts.allow_trailing)
        check_part(data, size, status, &err);
    return 0;
}
