/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `heat`: parameters, help and the density of the keys. A run asks for the
 * drift of attention (drift.c), with --particles also for the motion of particles (particles.c). */
#include "experiments/heat/heat.h"

#include <math.h>

#include "base/error.h"

static const char *const heat_keys[] = {"uniform", "vmf", "mixture", NULL};

#define FIELD(member) .field = offsetof(heat_params, member)
static const es_param params[] = {
    {"key-law", 0, ES_PARAM_CHOICE, "LAW",
     "density of the keys: uniform; vmf around the first axis; mixture of vmf", FIELD(keys),
     .choices = heat_keys, .default_value = "mixture", .renamed_from = "keys"},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimensions; the sphere is S^(D-1), 2 is the circle",
     FIELD(dim), .min = 2, .max = ES_HEAT_MOST_DIM, .default_value = "2", .alias = "d"},
    {"kappa", 0, ES_PARAM_NUMBER, "K", "concentration of each mode", FIELD(kappa), .min = 0.0,
     .max = 1e6, .default_value = "2"},
    {"modes", 0, ES_PARAM_FILE, "FILE",
     "directions of the modes of a mixture, .npy (parts, d), of equal weight", FIELD(modes),
     .default_note = "the first axis with weight 0.6, and 120 degrees from it with 0.4"},
    {"beta", 0, ES_PARAM_REALS, "GRID", "inverse temperatures", FIELD(beta), .min = 1e-3,
     .max = 1e9, .increasing = true, .default_value = "10..1000*5"},
    {"n", 'n', ES_PARAM_WHOLE, "N", "keys of a replicate", FIELD(n), .min = 2, .max = 1e7,
     .default_value = "100000", .unit = "keys"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "uniform queries, the same for all replicates",
     FIELD(queries), .min = 1, .max = 100000, .default_value = "16", .renamed_from = "queries"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R",
     "independent sets of keys; 0: infinitely many keys only", FIELD(replicates), .min = 0,
     .max = 1e6, .default_value = "8"},
    {"particles", 0, ES_PARAM_WHOLE, "N", "also move N tokens of this law by their own attention",
     FIELD(particles), .min = 1, .max = 1e6, .default_note = "none"},
    {"steps", 0, ES_PARAM_WHOLE, "S", "steps of the particles", FIELD(steps), .min = 1, .max = 1e5,
     .default_value = "20"},
    {"step-beta", 0, ES_PARAM_NUMBER, "B", "inverse temperature of the particles", FIELD(step_beta),
     .min = 1e-3, .max = 1e9, .default_value = "40"},
    {"particle-sets", 0, ES_PARAM_WHOLE, "R", "independent sets of particles", FIELD(sets),
     .min = 1, .max = 1e5, .default_value = "8"},
    {"cluster-angle", 0, ES_PARAM_NUMBER, "RAD",
     "particles farther apart than this belong to different clusters", FIELD(cluster_angle),
     .min = 1e-6, .max = 3.141592653589793, .default_note = "1/sqrt(step-beta)"},
    {"bins", 0, ES_PARAM_WHOLE, "N", "bins of the density of the particles", FIELD(bins), .min = 1,
     .max = 10000, .default_value = "24"},
    {0}};

/* ---- the density ---- */

/* Reads the modes of the mixture. By default two modes 120 degrees apart: with unequal weights no
 * symmetry of the density makes the drift vanish. */
static es_status read_modes(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    const int64_t d = p->dim;
    if (p->modes && p->keys != HEAT_MIXTURE)
        return es_refuse(err, "heat.options", "leave --modes or --key-law out",
                         "--modes needs --key-law mixture");
    if (p->modes)
        return es_job_matrix(job, "modes", p->modes, -1, d, &s->modes, err);
    s->modes = (es_matrix){.rows = 2, .cols = d};
    ES_TRY(ES_JOB_NEW_2D(job, s->modes.data, 2, d, err));
    s->modes.data[0] = 1.0;
    s->modes.data[d] = -0.5;
    s->modes.data[d + 1] = 0.8660254037844386;
    return ES_OK;
}

/* Makes the law of the keys from --key-law and the modes; uniform and vmf use the first mode
 * alone. */
static es_status make_law(es_job *job, const heat_params *p, heat_state *s, es_error *err)
{
    ES_TRY(read_modes(job, p, s, err));
    const int64_t parts = s->modes.rows;
    ES_TRY(ES_JOB_NEW(job, s->parts, parts, err));
    ES_TRY(ES_JOB_NEW(job, s->weights, parts, err));
    for (int64_t j = 0; j < parts; j++) {
        s->weights[j] = p->modes ? 1.0 : j ? 0.4 : 0.6;
        s->parts[j] = (es_law){p->keys == HEAT_UNIFORM ? ES_LAW_SPHERE : ES_LAW_VMF, .dim = p->dim,
                               .size = 1.0, .concentration = p->kappa,
                               .direction = s->modes.data + j * p->dim};
    }
    s->law = p->keys == HEAT_MIXTURE ? (es_law){ES_LAW_MIXTURE, .dim = p->dim, .parts = s->parts,
                                                .weights = s->weights, .n_parts = parts}
                                     : s->parts[0];
    return es_law_check(&s->law, err);
}

/* ---- which questions a run asks ---- */

/* Completes the parameters and chooses the questions of this run. */
static es_status open_study(es_job *job, es_error *err)
{
    heat_params *p = job->params;
    heat_state *s = job->state;
    if (isnan(p->cluster_angle)) /* run files hold it even if the run has no particles */
        p->cluster_angle = fmin(1.0 / sqrt(p->step_beta), 3.141592653589793);
    ES_TRY(make_law(job, p, s, err));
    es_answer_count(job->answer, "dim", p->dim);
    es_answer_text(job->answer, "keys", heat_keys[p->keys]);
    es_answer_real(job->answer, "kappa", p->kappa);
    es_answer_count(job->answer, "n", p->n);
    es_answer_count(job->answer, "replicates", p->replicates);
    s->questions[s->n_questions++] = &heat_drift;
    if (p->particles)
        s->questions[s->n_questions++] = &heat_particles;
    for (int i = 0; i < s->n_questions; i++)
        ES_TRY(s->questions[i]->open(job, err));
    return ES_OK;
}

/* Adds up the costs of the questions. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const heat_state *s = job->state;
    *out = (es_cost){0};
    for (int i = 0; i < s->n_questions; i++) {
        es_cost one;
        ES_TRY(s->questions[i]->cost(job, &one, err));
        out->flops += one.flops;
        out->output_bytes += one.output_bytes;
        out->work_bytes += one.work_bytes;
        out->thread_bytes = fmax(out->thread_bytes, one.thread_bytes); /* stages follow in turn */
    }
    return ES_OK;
}

/* Prepares each question of the run. */
static es_status begin(es_job *job, es_error *err)
{
    const heat_state *s = job->state;
    for (int i = 0; i < s->n_questions; i++)
        if (s->questions[i]->begin)
            ES_TRY(s->questions[i]->begin(job, err));
    return ES_OK;
}

/* Fills the tables of each question of the run. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const heat_state *s = job->state;
    for (int i = 0; i < s->n_questions; i++)
        ES_TRY(s->questions[i]->summarise(job, answer, err));
    return es_answer_status(answer, err);
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher heat", "esscher heat --dim 3 --key-law vmf --kappa 5 --beta 10..1e4*7",
    "esscher heat --particles 2000 --steps 40 --replicates 0",
    "esscher heat --dim 3 --particles 2000 --step-beta 30 --replicates 0 --out heat.run", NULL};

const es_study es_study_heat = {
    "heat",
    .summary = "whether attention moves tokens along grad log density (backward heat)",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about =
        "Keys have density f on the unit sphere. Attention at inverse temperature beta moves a "
        "query along the sphere by (1/beta) grad log f + O(1/beta^2) [proved]. Measures this "
        "drift with n keys at uniform queries and shows beside it the exact values for n keys on "
        "average and for infinitely many, the gradient of the smoothed density [proved]; and how "
        "fast it approaches backward heat.\n\n"
        "--particles moves tokens by their own attention, all at once. Each step runs the heat "
        "equation backwards for the time 1/beta and sharpens their density, until they are "
        "points; points merge, the later the farther apart [heuristic]. Clusters are counted "
        "after every step. With --csv the table is then the density after every step.",
    .examples = examples,
    .params = params,
    .size = sizeof(heat_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "particles",
    .state = sizeof(heat_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = summarise};
