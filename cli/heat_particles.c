#include <math.h>
#include <stdlib.h>

#include <esscher/tokens.h>

#include "answer.h"
#include "heat.h"
#include "talk.h"

/* ---- views ---- */

static const cli_column step_columns[] = {
    {"step", "step", "", .format = CLI_COUNT},
    {"time", "time", "", .format = CLI_SHORT, .definition = "of backward heat: step/beta"},
    {"mean_length", "|mean|", "", .format = CLI_REAL,
     .definition = "length of the mean of all particles"},
    {"heat", "heat", "", .format = CLI_REAL,
     .definition = "what backward heat makes of it, exp((d-1) time), while the density is smooth"},
    {"highest", "highest", "", .format = CLI_SHORT,
     .definition = "density of the fullest bin, relative to the uniform law"},
    {0}};
const cli_table heat_steps_table = {.rows = "steps", .title = "Particles", .columns = step_columns};

static const cli_column profile_columns[] = {
    {"low", "from", "", .format = CLI_SHORT,
     .definition = "bin: angle in radians on the circle, cosine with the first axis elsewhere"},
    {"density", "step", "", .format = CLI_SHORT, .each = "shown"},
    {0}};
const cli_table heat_profile_table = {.rows = "profile",
                                      .title =
                                          "Density of the particles, relative to the uniform law",
                                      .columns = profile_columns};

static const cli_column particle_columns[] = {{"step", "step", "", .format = CLI_COUNT},
                                              {"low", "low", "", .format = CLI_REAL},
                                              {"high", "high", "", .format = CLI_REAL},
                                              {"density", "density", "", .format = CLI_REAL},
                                              {0}};
const cli_table heat_particles_table = {
    .rows = "particles", .title = "Density by step", .columns = particle_columns};

/* ---- one step in the answer ---- */

static double edge(const heat_options *o, int64_t bin)
{
    const double at = (double)bin / (double)o->bins;
    return o->dim == 2 ? 3.141592653589793 * (2.0 * at - 1.0) : 2.0 * at - 1.0;
}

static double length_of_mean(const double *x, int64_t n, int64_t d)
{
    double norm2 = 0.0;
    for (int64_t c = 0; c < d; c++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++)
            sum += x[i * d + c];
        norm2 += sum / (double)n * (sum / (double)n);
    }
    return sqrt(norm2);
}

/* Steps whose density people see: the first, the last, and some between. */
static bool is_shown(const heat_options *o, int64_t step)
{
    return step == 0 || step == 1 || step == o->steps || step == o->steps / 4 ||
           step == o->steps / 2;
}

static void put_step(json_t *answer, const heat_options *o, int64_t step, const double *density,
                     double length, double start)
{
    const double time = (double)step / o->step_beta;
    double highest = 0.0;
    for (int64_t b = 0; b < o->bins; b++) {
        json_t *row = json_object();
        highest = fmax(highest, density[b]);
        json_object_set_new(row, "step", json_integer(step));
        json_object_set_new(row, "low", cli_real(edge(o, b)));
        json_object_set_new(row, "high", cli_real(edge(o, b + 1)));
        json_object_set_new(row, "density", cli_real(density[b]));
        json_array_append_new(json_object_get(answer, "particles"), row);
        if (is_shown(o, step))
            json_array_append_new(
                json_object_get(json_array_get(json_object_get(answer, "profile"), (size_t)b),
                                "density"),
                cli_real(density[b]));
    }
    json_t *row = json_object();
    json_object_set_new(row, "step", json_integer(step));
    json_object_set_new(row, "time", cli_real(time));
    json_object_set_new(row, "mean_length", cli_real(length));
    const double heat = start * exp((double)(o->dim - 1) * time);
    json_object_set_new(row, "heat", cli_real(heat <= 1.0 ? heat : (double)NAN));
    json_object_set_new(row, "highest", cli_real(highest));
    json_array_append_new(json_object_get(answer, "steps"), row);
    if (is_shown(o, step))
        json_array_append_new(json_object_get(answer, "shown"), json_integer(step));
}

static void put_frame(json_t *answer, const heat_options *o)
{
    json_t *profile = json_array();
    json_object_set_new(answer, "step_beta", cli_real(o->step_beta));
    json_object_set_new(answer, "steps", json_array());
    json_object_set_new(answer, "shown", json_array());
    json_object_set_new(answer, "particles", json_array());
    json_object_set_new(answer, "profile", profile);
    for (int64_t b = 0; b < o->bins; b++) {
        json_t *row = json_object();
        json_object_set_new(row, "low", cli_real(edge(o, b)));
        json_object_set_new(row, "density", json_array());
        json_array_append_new(profile, row);
    }
}

es_status heat_particles(cli_session *session, const heat_options *o, const es_law *law,
                         es_error *err)
{
    const es_address at = {.seed = session->common.seed, .experiment = HEAT_PARTICLES};
    const int64_t n = o->particles, d = o->dim;
    double *x = cli_alloc_array((size_t)(n * d), sizeof *x), start = 0.0;
    double *density = cli_alloc_array((size_t)o->bins, sizeof *density);
    es_status status = es_tokens_fill(law, &at, n, &session->exec, x, err);
    put_frame(session->answer, o);
    session->progress.parts = (double)o->steps;
    for (int64_t step = 0; step <= o->steps && status == ES_OK; step++) {
        session->progress.part = (double)step;
        if (step > 0)
            status = es_heat_step(x, n, d, o->step_beta, &session->exec, err);
        if (status == ES_OK)
            status = es_heat_histogram(x, n, d, o->bins, density, err);
        const double length = length_of_mean(x, n, d);
        start = step == 0 ? length : start;
        if (status == ES_OK)
            put_step(session->answer, o, step, density, length, start);
    }
    free(x);
    free(density);
    return status;
}
