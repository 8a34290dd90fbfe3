/* esscher regimes : keys on the sphere, and whether attention averages, selects or freezes. */
#include "regimes.h"

#include <math.h>
#include <stdlib.h>

#include "answer.h"
#include "talk.h"

static const regimes_options defaults = {
    .replicates = 1000, .nearest = 2048, .power = 2.0, .alpha = NAN};

const char *const regimes_keys_names[] = {"uniform",   "vmf",     "mixture", "subsphere",
                                          "vanishing", "planted", "file",    NULL};

static const cli_option options[] = {
    {"dim", 'd', CLI_COUNTS, "GRID", "keys lie on the unit sphere of R^D (default: 5)",
     .field = offsetof(regimes_options, dim), .min = 2, .max = 4096, .increasing = true},
    {"n", 'n', CLI_COUNTS, "GRID",
     "keys (default: 1e2,1e4,1e6,1e12; of a file 100 and so on). Up to 1e18; 1e9 where all are "
     "drawn",
     .field = offsetof(regimes_options, n), .min = 1, .max = 1e18, .increasing = true},
    {"b", 'b', CLI_REALS, "GRID",
     "inverse temperatures in units of the critical scale: beta = b n^(1/alpha), alpha = (D-1)/2 "
     "for uniform keys (default: 0.1,1,10)",
     .field = offsetof(regimes_options, b), .min = 1e-9, .max = 1e9, .increasing = true},
    {"beta", 0, CLI_REALS, "GRID", "inverse temperatures themselves, in place of --b",
     .field = offsetof(regimes_options, beta), .min = 1e-9, .max = 1e50, .increasing = true},
    {"keys", 'k', CLI_CHOICE, "WHICH",
     "uniform (default); vmf: concentrated around a direction; mixture of such; subsphere: only on "
     "a sphere S^m through the query; vanishing: density like distance^p near the query; planted: "
     "uniform, but one key is the query; file: chosen among --points",
     .field = offsetof(regimes_options, keys), .choices = regimes_keys_names},
    {"kappa", 0, CLI_REALS, "LIST",
     "concentrations of vmf (default: 10) or of the parts of a mixture (default: 0,20)",
     .field = offsetof(regimes_options, kappa), .min = 0, .max = 1e4},
    {"cosine", 0, CLI_REALS, "LIST",
     "cosines between the parts' directions and the query (default: 1 for each)",
     .field = offsetof(regimes_options, cosine), .min = -1, .max = 1},
    {"weight", 0, CLI_REALS, "LIST", "weights of the parts (default: equal)",
     .field = offsetof(regimes_options, weight), .min = 1e-12, .max = 1e12},
    {"manifold", 'm', CLI_WHOLE, "M", "dimension m of the subsphere, below D (default: 2, or 1)",
     .field = offsetof(regimes_options, manifold), .min = 1, .max = 4095},
    {"power", 'p', CLI_NUMBER, "P", "exponent p of the vanishing density (default: 2)",
     .field = offsetof(regimes_options, power), .min = 0, .max = 1000},
    {"points", 0, CLI_STRING, "FILE",
     "keys to choose from without replacement, .npy (N, d), scaled to norm 1",
     .field = offsetof(regimes_options, points)},
    {"query", 0, CLI_STRING, "FILE",
     "query for --points, .npy (d) (default: in each replicate a point that is not among its keys)",
     .field = offsetof(regimes_options, query)},
    {"alpha", 0, CLI_NUMBER, "ALPHA", "local exponent of --points, which --b needs",
     .field = offsetof(regimes_options, alpha), .min = 0.0625, .max = 4096},
    {"replicates", 'r', CLI_WHOLE, "R", "independent samples (default: 1000)",
     .field = offsetof(regimes_options, replicates), .min = 1, .max = 1e7},
    {"nearest", 0, CLI_WHOLE, "K",
     "keys that are drawn one by one, the nearest first; the sum over the others, if it counts, is "
     "a Gaussian vector with the right moments (default: 2048)",
     .field = offsetof(regimes_options, nearest), .min = 64, .max = 1e6},
    {"brute", 0, CLI_FLAG, NULL, "draw all n keys as vectors: the check, and slow",
     .field = offsetof(regimes_options, brute)},
    CLI_RUN_OPTIONS(regimes_options, run),
    {0}};

/* ---- what is asked ---- */

static void set_grid(cli_grid *grid, const char *text, bool whole, bool increasing)
{
    char why[64];
    const cli_grid_rule rule = {.min = 0, .max = 1e18, .increasing = increasing};
    if (grid->count == 0)
        cli_grid_parse(text, whole, &rule, grid, why, (int)sizeof why);
}

static es_status refuse(es_error *err, const char *hint, const char *text)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "regimes.options", hint, "%s", text);
}

/* Options that belong to another kind of keys. */
static es_status check_kind(const regimes_options *o, es_error *err)
{
    const bool parts = o->keys == KEYS_VMF || o->keys == KEYS_MIXTURE;
    if (o->b.count && o->beta.count)
        return refuse(err, "leave one of them out", "--b and --beta say the same thing");
    if (!parts && (o->kappa.count || o->cosine.count || o->weight.count))
        return refuse(err, "add --keys vmf or --keys mixture",
                      "--kappa, --cosine and --weight describe the parts of a mixture");
    if (o->manifold && o->keys != KEYS_SUBSPHERE)
        return refuse(err, "add --keys subsphere", "--manifold is the dimension of a subsphere");
    if ((o->points || o->query || !isnan(o->alpha)) && o->keys != KEYS_FILE)
        return refuse(err, "add --keys file", "--points, --query and --alpha are for --keys file");
    if (o->keys != KEYS_FILE)
        return ES_OK;
    if (!o->points)
        return refuse(err, "name a .npy file of shape (N, d)", "--keys file needs --points");
    if (o->dim.count)
        return refuse(err, "leave --dim out", "the dimension is that of --points");
    if (isnan(o->alpha) && !o->beta.count)
        return refuse(err, "give --beta, or --alpha and --b",
                      "for keys of a file the critical scale is not known");
    return ES_OK;
}

static es_status check_parts(regimes_options *o, es_error *err)
{
    const bool mixture = o->keys == KEYS_MIXTURE;
    if (o->keys != KEYS_VMF && !mixture)
        return ES_OK;
    set_grid(&o->kappa, mixture ? "0,20" : "10", false, false);
    if (!mixture && o->kappa.count != 1)
        return refuse(err, "one --kappa, or --keys mixture", "vmf keys have one concentration");
    if ((o->cosine.count && o->cosine.count != o->kappa.count) ||
        (o->weight.count && o->weight.count != o->kappa.count))
        return refuse(err, "one for each --kappa, in the same order",
                      "--kappa, --cosine and --weight have different lengths");
    return ES_OK;
}

static es_status complete(regimes_options *o, const cli_input *points, es_error *err)
{
    es_status status = check_parts(o, err);
    if (status != ES_OK)
        return status;
    if (o->keys == KEYS_FILE)
        o->brute = true;
    else
        set_grid(&o->dim, "5", true, true);
    set_grid(&o->n, o->brute ? "100,1000" : "1e2,1e4,1e6,1e12", true, true);
    if (!o->beta.count)
        set_grid(&o->b, "0.1,1,10", false, true);
    if (o->keys == KEYS_SUBSPHERE && !o->manifold)
        o->manifold = o->dim.counts[0] > 2 ? 2 : 1;
    if (o->keys == KEYS_SUBSPHERE && o->manifold >= o->dim.counts[0])
        return refuse(err, "the sphere of R^D has dimension D - 1",
                      "--manifold must be below every --dim");
    const int64_t largest = o->n.counts[o->n.count - 1];
    if (o->brute && largest > ES_REGIMES_MOST_KEYS)
        return refuse(err, "up to 1e9 keys, or leave --brute out", "all keys are to be drawn");
    if (points->data && largest > points->rows - (o->query ? 0 : 1))
        return cli_fail(err, ES_E_ARGUMENT, o->points, "regimes.points",
                        "ask for fewer keys with --n", "--n %lld: the file has %lld points%s",
                        (long long)largest, (long long)points->rows,
                        o->query ? "" : ", one of which is the query");
    return ES_OK;
}

/* ---- cells ---- */

/* Parts of a mixture out of the three lists. */
static es_keys_part *make_parts(const regimes_options *o)
{
    es_keys_part *parts = cli_alloc_array((size_t)o->kappa.count + 1, sizeof *parts);
    for (int64_t i = 0; i < o->kappa.count; i++)
        parts[i] = (es_keys_part){.weight = o->weight.count ? o->weight.reals[i] : 1.0,
                                  .kappa = o->kappa.reals[i],
                                  .cosine = o->cosine.count ? o->cosine.reals[i] : 1.0};
    return parts;
}

/* Cell i of (dim, n, b or beta), the last running fastest. */
static es_status make_cell(const regimes_options *o, const es_keys_part *parts,
                           const cli_input *points, int64_t i, regimes_cell *cell, es_error *err)
{
    const cli_grid *scale = o->beta.count ? &o->beta : &o->b;
    const int64_t at = i % scale->count, size = i / scale->count;
    const bool file = o->keys == KEYS_FILE;
    *cell = (regimes_cell){.n = o->n.counts[size % o->n.count],
                           .dim = file ? points->cols : o->dim.counts[size / o->n.count],
                           .cap = {.alpha = o->alpha, .log_c = NAN}};
    cell->keys = (es_keys){.dim = o->keys == KEYS_SUBSPHERE ? o->manifold + 1 : cell->dim,
                           .vanish = o->keys == KEYS_VANISHING ? o->power : 0.0,
                           .parts = o->kappa.count ? parts : NULL,
                           .n_parts = o->kappa.count,
                           .planted = o->keys == KEYS_PLANTED};
    const es_status status = file ? ES_OK : es_keys_exponent(&cell->keys, &cell->cap, err);
    if (status != ES_OK)
        return status;
    const double unit = pow((double)cell->n, 1.0 / cell->cap.alpha);
    cell->beta = o->beta.count ? scale->reals[at] : scale->reals[at] * unit;
    cell->b = cell->beta / unit;
    return ES_OK;
}

static es_status measure(cli_session *session, const regimes_options *o, const cli_input *points,
                         const cli_input *query, regimes_cell *cell, es_error *err)
{
    const es_view view = es_view_f64(points->data, points->rows, points->cols);
    const bool file = o->keys == KEYS_FILE;
    const es_regimes_opts opts = {.seed = session->common.seed,
                                  .method = o->brute ? ES_REGIMES_BRUTE : ES_REGIMES_NEAREST,
                                  .keys = &cell->keys,
                                  .points = file ? &view : NULL,
                                  .query = query->data,
                                  .replicates = o->replicates,
                                  .nearest = o->nearest,
                                  .exec = &session->exec};
    return es_regimes_run(&opts, cell->n, cell->beta, &cell->row, err);
}

static es_status run_cells(cli_session *session, const regimes_options *o, const cli_input *points,
                           const cli_input *query, cli_run_file *file, es_error *err)
{
    static const char *const columns[] = {"value", "error"};
    const int64_t dims = o->keys == KEYS_FILE ? 1 : o->dim.count;
    const int64_t total = dims * o->n.count * (o->beta.count ? o->beta.count : o->b.count);
    es_keys_part *parts = make_parts(o);
    json_t *rows = json_array();
    json_object_set_new(session->answer, "rows", rows);
    int64_t stage = 0;
    es_status status = cli_run_stage(file, "cell", (int64_t)(sizeof(es_regimes_row) / 16), 2,
                                     columns, &stage, err);
    for (int64_t i = 0; i < total && status == ES_OK; i++) {
        regimes_cell cell;
        bool done = false;
        if (cli_interrupted()) {
            status = cli_run_interrupted(file, i, total, "cells", err);
            break;
        }
        status = make_cell(o, parts, points, i, &cell, err);
        if (status == ES_OK)
            status = cli_run_find(file, stage, i, (double *)&cell.row, &done, err);
        if (status == ES_OK && !done) {
            status = measure(session, o, points, query, &cell, err);
            if (status == ES_OK)
                status = cli_run_keep(file, stage, i, (const double *)&cell.row, err);
        }
        if (status == ES_OK)
            status = regimes_put_cell(session, o, &cell, rows, err);
    }
    free(parts);
    return status;
}

/* ---- the command ---- */

/* A key in order costs some 200 operations, one drawn as a vector some 20 per coordinate, the laws
 * of a row 3e8. */
static cli_cost estimate(const cli_session *session, const regimes_options *o, double dim)
{
    const double scales = (double)(o->beta.count ? o->beta.count : o->b.count);
    const double rows = scales * (double)o->n.count * fmax(1.0, (double)o->dim.count);
    double keys = 0.0;
    for (int64_t i = 0; i < o->n.count; i++)
        keys += o->brute ? 20.0 * dim * o->n.reals[i]
                         : 200.0 * fmin(o->n.reals[i], 2.0 * (double)o->nearest);
    return (cli_cost){.flops = rows * 3e8 + scales * (double)o->replicates * keys,
                      .output_bytes = 4096.0 * rows,
                      .work_bytes = (double)o->replicates * 32.0 * 16.0 + 6e7 +
                                    (double)session->exec.threads * 8.0 * 140.0 * dim};
}

static void put_question(cli_session *session, const regimes_options *o)
{
    json_object_set_new(session->answer, "keys", json_string(regimes_keys_names[o->keys]));
    json_object_set_new(session->answer, "method", json_string(o->brute ? "brute" : "nearest"));
    json_object_set_new(session->answer, "replicates", json_integer(o->replicates));
}

static es_status work(cli_session *session, regimes_options *o, const cli_input *points,
                      const cli_input *query, es_error *err)
{
    cli_run_file file = {0};
    es_status status = complete(o, points, err);
    if (status != ES_OK)
        return status;
    const double dim = points->data ? (double)points->cols : o->dim.reals[o->dim.count - 1];
    cli_cost cost = estimate(session, o, dim);
    cost.input_bytes = 8.0 * (double)(points->rows * points->cols);
    status = cli_cost_admit(session, &cost, err);
    if (status == ES_OK)
        status = cli_run_open(session, o, &o->run, &file, err);
    if (status != ES_OK)
        return status;
    put_question(session, o);
    status = run_cells(session, o, points, query, &file, err);
    return cli_run_close(&file, session, status, err);
}

static es_status run(cli_session *session, void *given, es_error *err)
{
    regimes_options *o = given;
    cli_input points = {0}, query = {0};
    es_status status = check_kind(o, err);
    if (status == ES_OK && o->points)
        status = cli_input_read(session, "points", o->points, -1, -1, &points, err);
    if (status == ES_OK && o->query)
        status = cli_input_read(session, "query", o->query, 1, points.cols, &query, err);
    if (status == ES_OK)
        status = work(session, o, &points, &query, err);
    cli_input_free(&points);
    cli_input_free(&query);
    return status;
}

static const char *const examples[] = {
    "esscher regimes",
    "esscher regimes --dim 2,3,5,10,50 --n 1e4 --b 1",
    "esscher regimes --dim 3 --n 1e3..1e15*5 --b 0.5",
    "esscher regimes --dim 50 --n 1e6 --beta 5,20,80",
    "esscher regimes --keys vanishing --power 3 --n 1e6",
    "esscher regimes --keys file --points K.npy --n 1000 --beta 8 --json",
    NULL};

const cli_command cli_regimes = {
    .name = "regimes",
    .summary = "keys on the sphere: does attention average, select or freeze?",
    .usage = "[options]",
    .about =
        "A query and n keys on the unit sphere, weights softmax(beta <q, k>). As n grows, beta "
        "decides: far below the critical scale n^(2/(D-1)) many keys share the weight and the "
        "output is an average; at that scale a few keys share it, at random for ever; far above, "
        "the nearest key takes all. For each n and beta this simulates the weights and sets beside "
        "them what the theory says: the exact expectation for n keys, the limit law for infinitely "
        "many, and asymptotic forms; it tests the ordered weights against the limit law, and says "
        "which regime it is and why.\n\n"
        "Keys are drawn in order, the nearest first, and only as many as count, so that n = 1e12 "
        "costs what n = 1e4 does. --brute draws all of them as vectors, as a check.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_SEED | CLI_TAKES_MEMORY |
              CLI_TAKES_PROGRESS,
    .defaults = &defaults,
    .size = sizeof(regimes_options),
    .views = regimes_views,
    .run = run,
};
