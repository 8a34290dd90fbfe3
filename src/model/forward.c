/* forward.c : blocks of token ids through the layers. A unit of work is a block: one thread runs it
 * from its ids to its last hidden state, so threads share nothing but the weights.
 *
 * Per layer, with x (n, H), in the order that has its norms after the sums:
 *   1  qkv (n, 3H) = x Wqkv' + b                      one product
 *   2  per head: scores and weighted values           the attention engine, nothing (n, n) stored;
 *                                                     or what a policy keeps (sparse_head.c)
 *   3  a (n, H) = norm(x + heads Wo' + bo)
 *   4  m (n, I) = activation(a W1' + b1)
 *   5  x = norm(a + m W2' + b2)
 *
 * Which norm, activation, order and so on is the description's to say: its kinds are looked up in
 * the tables `attentions` and `orders` below and in those of layer_rows.c. */
#include <esscher/model.h>

#include <math.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "model/model_inside.h"
#include "model/sparse_head.h"

/* What one thread works in; sized for the longest block. */
typedef struct scratch {
    char *x;                                    /* (n, H) hidden state */
    char *a;                                    /* (n, H) after attention */
    char *qkv;                                  /* (n, 3H) */
    char *heads;                                /* (n, H) outputs of all heads */
    char *middle;                               /* (n, I) */
    char *logits;                               /* (labels) */
    double *head;                               /* (n, k) output of one head */
    double *entropy, *top_weight, *sum_squares; /* (n) */
    void *memory;
    es_sparse_room sparse; /* of heads with a policy, if there are any */
} scratch;

typedef struct job {
    const es_model *model;
    const es_model_block *blocks;
    const es_arch *arch;
    const es_rows *rows;
    es_activate activate, activate_pooled;
    es_gelu_table gelu;
    es_exec inner; /* of the engine, which runs on our thread */
    scratch *scratch;
} job;

/* ---- memory ---- */

/* One block of memory per thread, taken before any work: a run that does not fit fails at once.
 * The f64 part comes first, where the block is aligned for it. */
static es_status scratch_new(const es_model *m, int64_t n, bool sparse, es_budget *budget,
                             scratch *s, es_error *err)
{
    const int64_t H = m->config.hidden, I = m->config.intermediate, k = H / m->config.heads;
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    const int64_t row = (6 * H + I) * item + (k + 3) * (int64_t)sizeof(double);
    const int64_t logits = m->config.labels * item;
    ES_TRY(
        es_mem_array(budget, n * row + logits, 1, 1, "a block of hidden states", &s->memory, err));
    s->head = s->memory;
    s->entropy = s->head + n * k;
    s->top_weight = s->entropy + n;
    s->sum_squares = s->top_weight + n;
    s->x = (char *)(s->sum_squares + n);
    s->a = s->x + n * H * item;
    s->heads = s->a + n * H * item;
    s->qkv = s->heads + n * H * item;
    s->middle = s->qkv + 3 * n * H * item;
    s->logits = s->middle + n * I * item;
    return sparse ? es_sparse_room_new(n, k, budget, &s->sparse, err) : ES_OK;
}

/* ---- one layer ---- */

/* In the order of the queries, so that the mean has the same bits whoever ran the block. */
static double mean_of(const double *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* Only asked where weights are known to hold NaN or Inf: a pass over the block, which others
 * need not pay for. */
static bool all_finite(const es_view qkv[3])
{
    es_scan scan;
    es_error why;
    for (int i = 0; i < 3; i++)
        if (es_view_scan(&qkv[i], "qkv", &scan, &why) != ES_OK)
            return false;
    return true;
}

/* Attention takes no NaN. Where weights hold some that were allowed, a token that is not finite is
 * so in its query, key and value, and as a key it spoils the output of every other. */
static void spoil(const scratch *s, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n * k; i++)
        s->head[i] = (double)NAN;
    for (int64_t i = 0; i < n; i++)
        s->entropy[i] = s->top_weight[i] = s->sum_squares[i] = (double)NAN;
}

/* Every token sees every token of its block. */
static es_status attend_all(const job *j, const es_view qkv[3], const es_attend_out *out,
                            es_error *err)
{
    const es_attend_opts opts = {.precision = j->model->precision, .exec = &j->inner};
    return es_attend(&qkv[0], &qkv[1], &qkv[2], &opts, out, err);
}

typedef es_status (*attention)(const job *, const es_view *, const es_attend_out *, es_error *);
static const attention attentions[ES_ATTENTIONS] = {[ES_ATTENTION_ALL] = attend_all};

/* Where the draws of a head begin: model.h says which cells are its queries'. */
static es_address address_of(const es_model *m, const es_model_sparse *sparse, int64_t head)
{
    es_address at = sparse->at;
    at.cell += (uint64_t)(head * m->config.positions);
    at.token = 0;
    at.lane = 0;
    return at;
}

/* Head `at` of all, over the keys that its policy keeps, or over all of them. */
static es_status attend_head(const job *j, scratch *s, const es_model_block *b, int64_t at,
                             const es_view qkv[3], const es_attend_out *out, es_error *err)
{
    const es_policy_spec *spec = b->sparse ? &b->sparse->heads[at] : NULL;
    es_sparse_found found = {.kept = (double)b->n};
    if (j->model->nonfinite && !all_finite(qkv)) {
        spoil(s, b->n, qkv[0].cols);
    } else if (spec && spec->policy) {
        const es_address first = address_of(j->model, b->sparse, at);
        ES_TRY(es_sparse_attend(&s->sparse, spec, &first, qkv, out, &found, err));
    } else {
        ES_TRY(attentions[j->arch->attention](j, qkv, out, err));
    }
    if (b->kept)
        b->kept[at] = found.kept;
    if (b->empty)
        b->empty[at] = found.empty;
    return ES_OK;
}

/* Views into the product of step 1, without copying: a head's queries, keys and values are
 * bands of columns. Statistics that nobody asked for are not computed. */
static es_status run_head(const job *j, scratch *s, const es_model_block *b, int64_t layer,
                          int64_t head, es_error *err)
{
    const es_model_config *c = &j->model->config;
    const int64_t H = c->hidden, k = H / c->heads, at = layer * c->heads + head;
    const int64_t item = (int64_t)es_dtype_size(j->model->precision);
    es_view qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = (es_view){.data = s->qkv + (i * H + head * k) * item,
                           .dtype = j->model->precision,
                           .rows = b->n,
                           .cols = k,
                           .row_stride = 3 * H * item,
                           .col_stride = item};
    const es_attend_out out = {.output = s->head,
                               .entropy = b->entropy ? s->entropy : NULL,
                               .top_weight = b->top_weight ? s->top_weight : NULL,
                               .sum_squares = b->sum_squares || b->ess ? s->sum_squares : NULL};
    ES_TRY(attend_head(j, s, b, at, qkv, &out, err));
    j->rows->place(s->head, b->n, k, H, s->heads + head * k * item);
    if (b->entropy)
        b->entropy[at] = mean_of(s->entropy, b->n);
    if (b->top_weight)
        b->top_weight[at] = mean_of(s->top_weight, b->n);
    if (b->sum_squares)
        b->sum_squares[at] = mean_of(s->sum_squares, b->n);
    for (int64_t i = 0; b->ess && i < b->n; i++)
        s->sum_squares[i] = 1.0 / s->sum_squares[i];
    if (b->ess)
        b->ess[at] = mean_of(s->sum_squares, b->n);
    return ES_OK;
}

/* y (n, outputs) = residual + x w' + b. Bias and residual are laid down first and the product is
 * added to them: BLAS's own sum takes them in, and no pass over the result follows. */
static void apply(const job *j, const es_linear *linear, const void *x, const void *residual,
                  int64_t n, int64_t inputs, int64_t outputs, void *y)
{
    j->rows->begin(linear->b, residual, n, outputs, y);
    es_gemm_add(j->model->precision, n, outputs, inputs, x, linear->w, y);
}

/* The one place where rows are looked at number by number anyway, so it is here that an
 * overflow is noticed, at most half a layer after it happened. */
static es_status normalise(const job *j, const es_linear *norm, int64_t n, int64_t state, void *x,
                           es_error *err)
{
    const es_model_config *c = &j->model->config;
    if (j->rows->norm[j->arch->norm](norm, c->layer_norm_eps, n, c->hidden, x) ||
        j->model->nonfinite)
        return ES_OK;
    return es_fail(err, ES_E_NONFINITE, "forward.overflow",
                   "run the model in f64; else its weights are broken",
                   "NaN or infinity on the way to hidden state %lld", (long long)state);
}

/* Steps 1 to 5 above. The residual is added before each norm, in both halves of the layer. */
static es_status run_post(const job *j, scratch *s, const es_model_block *b, int64_t layer,
                          es_error *err)
{
    const es_model_config *c = &j->model->config;
    const es_layer *l = &j->model->layers[layer];
    const int64_t H = c->hidden, I = c->intermediate, n = b->n;
    apply(j, &l->qkv, s->x, NULL, n, H, 3 * H, s->qkv);
    for (int64_t head = 0; head < c->heads; head++)
        ES_TRY(run_head(j, s, b, layer, head, err));
    apply(j, &l->out, s->heads, s->x, n, H, H, s->a);
    ES_TRY(normalise(j, &l->norm1, n, layer + 1, s->a, err));
    apply(j, &l->up, s->a, NULL, n, H, I, s->middle);
    j->activate(&j->gelu, s->middle, n * I);
    apply(j, &l->down, s->middle, s->a, n, I, H, s->x);
    return normalise(j, &l->norm2, n, layer + 1, s->x, err);
}

typedef es_status (*order)(const job *, scratch *, const es_model_block *, int64_t, es_error *);
static const order orders[ES_ORDERS] = {[ES_ORDER_POST] = run_post};

/* ---- one block ---- */

/* Results that are few leave in f64, whatever the model computes in. */
static void copy_out(const es_model *m, const void *row, int64_t count, double *out)
{
    const es_view view = {
        (void *)row, m->precision, 1, count, 0, (int64_t)es_dtype_size(m->precision)};
    es_view_read_row(&view, 0, out);
}

/* The pooler looks at the first token, the classifier at the pooler. */
static void classify(const job *j, const scratch *s, const es_model_block *b)
{
    const es_model *m = j->model;
    const int64_t H = m->config.hidden;
    apply(j, &m->pooler, s->x, NULL, 1, H, H, s->a);
    j->activate_pooled(&j->gelu, s->a, H);
    if (b->pooled)
        copy_out(m, s->a, H, b->pooled);
    if (!b->logits)
        return;
    apply(j, &m->classifier, s->a, NULL, 1, H, m->config.labels, s->logits);
    copy_out(m, s->logits, m->config.labels, b->logits);
}

/* The state that the layers begin with: made of the ids, or given. */
static es_status begin_block(const job *j, const scratch *s, const es_model_block *b, size_t state,
                             es_error *err)
{
    if (b->input) {
        memcpy(s->x, b->input, state);
        return ES_OK;
    }
    j->rows->embed[j->arch->positions](j->model, b->ids, b->n, s->x);
    return normalise(j, &j->model->norm0, b->n, 0, s->x, err);
}

/* From ids to the last state. States are copied out as they arise: x is overwritten by the next
 * layer. */
static es_status run_block(void *job_, int64_t unit, int thread, es_error *err)
{
    const job *j = job_;
    const es_model_block *b = &j->blocks[unit];
    scratch *s = &j->scratch[thread];
    const es_model_config *c = &j->model->config;
    const size_t state = (size_t)b->n * (size_t)c->hidden * es_dtype_size(j->model->precision);
    char *hidden = b->hidden;
    ES_TRY(begin_block(j, s, b, state, err));
    const int64_t layers = b->states ? b->states - 1 : c->layers;
    for (int64_t layer = b->start; layer < layers; layer++) {
        if (hidden)
            memcpy(hidden + (size_t)(layer - b->start) * state, s->x, state);
        ES_TRY(orders[j->arch->order](j, s, b, layer, err));
    }
    if (hidden)
        memcpy(hidden + (size_t)(layers - b->start) * state, s->x, state);
    if (b->last)
        memcpy(b->last, s->x, state);
    if (b->pooled || b->logits)
        classify(j, s, b);
    return ES_OK;
}

/* ---- all blocks ---- */

static es_status check_start(const es_model_config *c, const es_model_block *b, es_error *err)
{
    const int64_t states = b->states ? b->states : c->layers + 1;
    if (b->start && !b->input)
        return es_fail(err, ES_E_ARGUMENT, "forward.start", "give the state as input",
                       "to begin with hidden state %lld takes that state", (long long)b->start);
    if (b->start < 0 || b->start >= states)
        return es_fail(err, ES_E_RANGE, "forward.states", "states counts from state 0",
                       "from hidden state %lld on none of %lld is left", (long long)b->start,
                       (long long)states);
    return ES_OK;
}

int64_t es_model_sparse_cells(const es_model *model)
{
    const es_model_config *c = &model->config;
    return c->layers * c->heads * c->positions;
}

/* Can every head's policy be asked, and are all of the block's numbers there? */
static es_status check_sparse(const es_model *m, const es_model_sparse *sparse, es_error *err)
{
    if (!sparse)
        return ES_OK;
    if (!sparse->heads)
        return es_fail(err, ES_E_ARGUMENT, "forward.sparse", "one spec for each layer and head",
                       "sparse heads without a policy");
    ES_TRY(es_address_check(&sparse->at, err));
    const int64_t heads = m->config.layers * m->config.heads;
    const es_address last = address_of(m, sparse, heads);
    ES_TRY(es_address_check(&last, err));
    for (int64_t i = 0; i < heads; i++) {
        const es_policy_spec *spec = &sparse->heads[i];
        if (spec->policy)
            ES_TRY(es_policy_spec_check(spec, false, err));
        if (es_policy_needs(spec->policy) & ES_POLICY_MEASURED && spec->keys < 1)
            return es_fail(err, ES_E_RANGE, "policy.keys", "say how many mixtures there are",
                           "%s was not told its number of keys", es_policy_name(spec->policy));
    }
    return ES_OK;
}

/* All blocks are checked before the first is run: what cannot be done is said at once, not
 * after an hour. */
static es_status check_block(const es_model *m, const es_model_block *b, int64_t index,
                             es_error *err)
{
    const es_model_config *c = &m->config;
    if ((!b->ids && !b->input) || b->n <= 0)
        return es_fail_at(err, ES_E_EMPTY, index, -1, "forward.empty", "give it a token",
                          "block %lld has no tokens", (long long)index);
    if (b->n > c->positions)
        return es_fail_at(err, ES_E_RANGE, index, -1, "forward.length", "cut the text into blocks",
                          "block %lld has %lld tokens, the model positions for %lld",
                          (long long)index, (long long)b->n, (long long)c->positions);
    if ((b->logits && !c->labels) || (b->pooled && !c->pooler))
        return es_fail(err, ES_E_ARGUMENT, "forward.logits", "use a model fine-tuned for a task",
                       "the model has no %s", c->pooler ? "classifier" : "pooler");
    if (b->states < 0 || b->states > c->layers + 1)
        return es_fail(err, ES_E_RANGE, "forward.states", "0 for all of them",
                       "%lld hidden states of %lld", (long long)b->states,
                       (long long)c->layers + 1);
    if (b->states && b->states <= c->layers && (b->last || b->pooled || b->logits))
        return es_fail(err, ES_E_ARGUMENT, "forward.states", "0 for all of them",
                       "the last state is wanted, and %lld of %lld are computed",
                       (long long)b->states, (long long)c->layers + 1);
    ES_TRY(check_start(c, b, err));
    ES_TRY(check_sparse(m, b->sparse, err));
    for (int64_t i = 0; !b->input && i < b->n; i++) {
        if (b->ids[i] < 0 || b->ids[i] >= c->vocab)
            return es_fail_at(err, ES_E_RANGE, index, i, "forward.id",
                              "use the tokenizer that came with the model",
                              "token %lld of block %lld has id %ld; ids go from 0 to %lld",
                              (long long)i, (long long)index, (long)b->ids[i],
                              (long long)c->vocab - 1);
    }
    return ES_OK;
}

/* Blocks are what threads are given, and each calls BLAS for itself on one thread: products of
 * a block are too small to be worth sharing, and so nothing depends on how many threads there
 * are. */
es_status es_model_forward(const es_model *model, const es_model_block *blocks, int64_t count,
                           const es_exec *exec, es_error *err)
{
    es_budget *budget = exec ? exec->budget : NULL;
    const int threads = es_parallel_threads(exec, count);
    int64_t longest = 0;
    bool sparse = false;
    void *memory;
    ES_TRY(es_blas_room_for(threads, err));
    for (int64_t i = 0; i < count; i++) {
        ES_TRY(check_block(model, &blocks[i], i, err));
        longest = blocks[i].n > longest ? blocks[i].n : longest;
        sparse = sparse || blocks[i].sparse;
    }
    const es_arch *arch = model->arch;
    const bool narrow = model->precision == ES_F32;
    job j = {.model = model,
             .blocks = blocks,
             .arch = arch,
             .rows = narrow ? &es_rows_f32 : &es_rows_f64,
             .activate = narrow ? arch->activation->f32 : arch->activation->f64,
             .activate_pooled = narrow ? arch->pooled->f32 : arch->pooled->f64,
             .inner = {.threads = 1, .isa = exec ? exec->isa : ES_ISA_AUTO, .budget = budget}};
    es_gelu_prepare(&j.gelu);
    ES_TRY(es_mem_array(budget, threads, 1, sizeof *j.scratch, "threads", &memory, err));
    j.scratch = memory;
    es_status status = ES_OK;
    for (int t = 0; t < threads && status == ES_OK; t++)
        status = scratch_new(model, longest, sparse, budget, &j.scratch[t], err);
    if (status == ES_OK) {
        es_blas_enter();
        status = es_parallel_run(exec, count, run_block, &j, err);
        es_blas_leave();
    }
    for (int t = 0; t < threads; t++) {
        es_sparse_room_free(&j.scratch[t].sparse);
        es_mem_free(budget, j.scratch[t].memory);
    }
    es_mem_free(budget, memory);
    return status;
}

/* ---- its matrix products alone, as a measure of its speed ---- */

typedef struct product_job {
    const es_model *model;
    int64_t n;
    char *memory; /* per thread: (n, widest) in and (n, widest) out */
    size_t each;
} product_job;

/* The same shapes in the same order as above, on zeros: time does not depend on the numbers. */
static es_status multiply_block(void *job_, int64_t unit, int thread, es_error *err)
{
    const product_job *j = job_;
    const es_model *m = j->model;
    char *x = j->memory + (size_t)thread * 2 * j->each, *y = x + j->each;
    (void)unit;
    (void)err;
    for (int64_t layer = 0; layer < m->config.layers; layer++) {
        for (es_stack s = {0}; es_stack_next(m->arch, &m->config, true, &s);) {
            const es_linear *part = es_model_place(m, s.part, layer);
            if (s.part->kind != ES_PART_NORM)
                es_gemm_add(m->precision, j->n, s.rows, s.cols, x, part->w, y);
        }
    }
    return ES_OK;
}

es_status es_model_products(const es_model *model, int64_t n, int64_t count, const es_exec *exec,
                            es_error *err)
{
    int64_t widest = model->config.hidden;
    const int threads = es_parallel_threads(exec, count);
    es_budget *budget = exec ? exec->budget : NULL;
    void *memory;
    if (n < 1 || n > model->config.positions)
        return es_fail(err, ES_E_RANGE, "forward.length", "a block has 1 to `positions` tokens",
                       "a block of %lld tokens; the model has %lld positions", (long long)n,
                       (long long)model->config.positions);
    for (es_stack s = {0}; es_stack_next(model->arch, &model->config, true, &s);) {
        widest = s.rows > widest ? s.rows : widest;
        widest = s.cols > widest ? s.cols : widest;
    }
    product_job j = {
        .model = model, .n = n, .each = (size_t)(n * widest) * es_dtype_size(model->precision)};
    ES_TRY(es_mem_array(budget, 2 * threads, (int64_t)j.each, 1, "products", &memory, err));
    j.memory = memory; /* zeros: products of finite numbers, whatever is added */
    es_blas_enter();
    const es_status status = es_parallel_run(exec, count, multiply_block, &j, err);
    es_blas_leave();
    es_mem_free(budget, memory);
    return status;
}
