/* SPDX-License-Identifier: Apache-2.0 */
/* branch.c : what a layer's attention adds to the state (THEORY 14). Most models add a = Wo y. Some
 * norm it first, or multiply it by a factor f: they add f s a / r, s the norm's scale, r = (mean
 * a^2
 * + eps)^1/2. To first order, an error e of a becomes
 *
 *     J e,   J = (f/r) diag(s) (I - b b'/H),   b = a/r:
 *
 * what is along a does not count, and an error counts more where a is short. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/budget/inside.h"
#include "model/model.h"

es_status es_branch_new(const es_model *model, es_arena *arena, es_branch *out, es_error *err)
{
    const int64_t H = es_model_config_of(model)->hidden;
    *out = (es_branch){.model = model, .hidden = H};
    ES_TRY(ES_ARENA_NEW(arena, out->along, es_model_config_of(model)->head_dim, "a norm", err));
    return ES_ARENA_NEW_2D(arena, out->scale, 2, H, "a norm", err);
}

void es_branch_at(es_branch *branch, int64_t layer)
{
    branch->has_norm = es_model_branch(branch->model, layer, branch->scale, &branch->factor);
    branch->eps = es_model_config_of(branch->model)->layer_norm_eps;
}

bool es_branch_norms(const es_model *model)
{
    for (int64_t l = 0; l < es_model_config_of(model)->layers; l++)
        if (es_model_branch(model, l, NULL, NULL))
            return true;
    return false;
}

/* Returns 1/r of an output a (H). */
static double per_length(const es_branch *branch, const double *a)
{
    double squares = 0.0;
    for (int64_t j = 0; j < branch->hidden; j++)
        squares += a[j] * a[j];
    return 1.0 / sqrt(squares / (double)branch->hidden + branch->eps);
}

void es_branch_add_bias(const es_branch *branch, const es_view *bias, int64_t n, double *rows)
{
    double *b = branch->scale + branch->hidden;
    if (!branch->has_norm)
        return; /* the same for every token and policy */
    es_view_read_row(bias, 0, b);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < branch->hidden; j++)
            rows[i * branch->hidden + j] += b[j];
}

void es_branch_apply(const es_branch *branch, int64_t n, double *rows)
{
    if (!branch->has_norm && branch->factor == 1.0)
        return;
    for (int64_t i = 0; i < n; i++) {
        double *a = rows + i * branch->hidden;
        const double times = branch->factor * (branch->has_norm ? per_length(branch, a) : 1.0);
        for (int64_t j = 0; j < branch->hidden; j++)
            a[j] *= times * (branch->has_norm ? branch->scale[j] : 1.0);
    }
}

void es_branch_slope(const es_branch *branch, const double *a, const double *wo, int64_t dk,
                     double *out)
{
    const int64_t H = branch->hidden;
    const double per = branch->has_norm ? per_length(branch, a) : 1.0;
    double *along = branch->along; /* Wo' b / H */
    memset(along, 0, (size_t)dk * sizeof *along);
    for (int64_t j = 0; j < H && branch->has_norm; j++)
        for (int64_t d = 0; d < dk; d++)
            along[d] += wo[j * dk + d] * a[j] * per / (double)H;
    for (int64_t j = 0; j < H; j++) {
        const double b = branch->has_norm ? a[j] * per : 0.0;
        const double times = branch->factor * (branch->has_norm ? per * branch->scale[j] : 1.0);
        for (int64_t d = 0; d < dk; d++)
            out[j * dk + d] = times * (wo[j * dk + d] - b * along[d]);
    }
}
