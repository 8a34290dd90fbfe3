/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how often the program's intervals hold the truth, its p-values are small by
 * chance, and its verdicts are wrong. A cell is one setting at one seed. */
#include "experiments/selfcheck/question.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/ask.h"
#include "stats/fit.h"
#include "stats/special.h"
#include "table/table.h"

static const char *const efforts[] = {"quick", "full", NULL};

#define FIELD(member) .field = offsetof(selfcheck_params, member)
static const es_param params[] = {
    {"effort", 0, ES_PARAM_CHOICE, "HOW", "quick: 40 seeds; full: 400", FIELD(effort),
     .choices = efforts, .default_value = "quick"},
    {"trials", 0, ES_PARAM_WHOLE, "N", "number of seeds", FIELD(trials), .min = 4, .max = 1e6,
     .default_note = "40 or 400, by --effort"},
    {"only", 0, ES_PARAM_TEXT, "NAME",
     "run only the problems (column setting) whose name begins with NAME", FIELD(only)},
    ES_POOL_PARAMS(selfcheck_params, pool),
    {0}};

/* ---- one setting at one seed ---- */

static const es_cell_field estimate_fields[] = {
    ES_FIELD(es_estimate, value), ES_FIELD(es_estimate, low), ES_FIELD(es_estimate, high), {0}};
static const es_estimate no_answer = {(double)NAN, (double)NAN, (double)NAN};
enum { ROWS = ES_FIGURES * ES_FIGURE_ROWS };

/* Returns the seed of a trial. */
static uint64_t seed_of(const es_job *job, int64_t trial)
{
    return job->seed * 1000003u + (uint64_t)trial + 1u;
}

/* Returns the factor of a standard error that gives a 95 % interval. */
static double factor_95(const es_figure *f)
{
    return f->freedom > 0.0 ? es_student_quantile(f->freedom, 0.025) : ES_SIGMAS_95;
}

/* Sets a row to its value, counted from the truth in table `from`, and its interval: as printed, or
 * from its standard error. */
static void take_row(const es_table *t, const es_table *from, int64_t row, const es_figure *f,
                     es_estimate *out)
{
    char key[ES_KEY_SIZE];
    const double value = es_table_get(t, row, f->key);
    const double exact = f->exact ? es_table_get(from, row, f->exact) : f->truth;
    out->value = f->kind <= ES_FIGURE_BOUND ? value - exact : value;
    if (f->kind == ES_FIGURE_INTERVAL) {
        out->low = es_table_get(t, row, f->low ? f->low : es_key(key, f->key, "_ci.0")) - value;
        out->high = es_table_get(t, row, f->high ? f->high : es_key(key, f->key, "_ci.1")) - value;
    } else if (f->kind == ES_FIGURE_ERROR || f->kind == ES_FIGURE_BOUND) {
        const double own = es_table_get(t, row, f->se ? f->se : es_key(key, f->key, "_se"));
        const double se = hypot(own, f->exact_se ? es_table_get(from, row, f->exact_se) : 0.0);
        out->high = se * factor_95(f);
        out->low = -out->high;
    } else if (f->kind == ES_FIGURE_VERDICT) {
        const char *text = es_table_get_text(t, row, f->key);
        out->value = text && strcmp(text, f->wrong) == 0;
    }
}

/* Reads the figures of a setting from an answer. */
static es_status take_figures(const es_setting *s, const es_answer *a, es_estimate *out,
                              es_error *err)
{
    for (int f = 0; f < ES_FIGURES && s->figures[f].kind; f++) {
        const es_figure *figure = &s->figures[f];
        const es_table *t, *from;
        ES_TRY(es_ask_table(a, figure->table, figure->key, &t, err));
        from = t;
        if (figure->exact_table)
            ES_TRY(es_ask_table(a, figure->exact_table, figure->exact, &from, err));
        es_estimate *to = out + (int64_t)f * ES_FIGURE_ROWS;
        const bool all = figure->kind == ES_FIGURE_VERDICT;
        for (int64_t row = 0; row < es_table_rows(t); row++) {
            es_estimate found = no_answer;
            if (figure->row && row + 1 != figure->row)
                continue;
            take_row(t, from, row, figure, &found);
            if (all) /* one wrong word among all rows is a wrong answer */
                to->value = fmax(isnan(to->value) ? 0.0 : to->value, found.value);
            else if (row < ES_FIGURE_ROWS)
                to[row] = found;
        }
    }
    return ES_OK;
}

/* Runs the study of a setting and reads its figures. */
static es_status ask(const es_job *job, const es_setting *s, uint64_t seed, const es_exec *exec,
                     es_estimate *out, es_error *err)
{
    const selfcheck_params *p = job->params;
    const es_exec one = {.threads = 1, .isa = exec->isa};
    const es_ask_spec ask = {.study = s->study,
                             .given = s->given,
                             .model = p->pool.model,
                             .input = s->input,
                             .user = job,
                             .seed = seed,
                             .exec = &one};
    es_answer *answer = NULL;
    es_status status = es_ask_run(&ask, &answer, err);
    if (status == ES_OK)
        status = take_figures(s, answer, out, err);
    es_answer_free(answer);
    return status;
}

/* Runs one setting with one seed. */
static es_status run_trial(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    es_estimate *out = record;
    const selfcheck_state *state = job->state;
    const es_setting *s = &es_settings[state->settings[cell / state->trials]];
    const uint64_t seed = seed_of(job, cell % state->trials);
    for (int64_t i = 0; i < ROWS; i++)
        out[i] = no_answer;
    return s->direct ? s->direct(job, s, cell % state->trials, seed, exec, out, err)
                     : ask(job, s, seed, exec, out, err);
}

/* ---- what is asked ---- */

/* Only rates of heads take a pool of hidden states, and only losses take those of a text. */
static bool wants(const selfcheck_state *s, es_setting_direct direct)
{
    for (int64_t i = 0; i < s->count; i++)
        if (es_settings[s->settings[i]].direct == direct)
            return true;
    return false;
}

/* Finds out whether the model is causal; false without a model. */
static es_status is_decoder(const char *model, bool *out, es_error *err)
{
    char path[4096];
    es_model_config config;
    *out = false;
    if (!model)
        return ES_OK;
    ES_TRY(es_model_locate(model, path, sizeof path, err));
    ES_TRY(es_model_config_load(path, &config, err));
    *out = config.causal;
    return ES_OK;
}

/* Lists the settings that are checked, and opens the pool if one needs it. */
static es_status open_study(es_job *job, es_error *err)
{
    selfcheck_params *p = job->params;
    selfcheck_state *s = job->state;
    s->layer.pools.scratch.fd = -1;
    bool decoder;
    ES_TRY(is_decoder(p->pool.model, &decoder, err));
    s->trials = p->trials ? p->trials : p->effort ? 400 : 40;
    ES_TRY(ES_JOB_NEW(job, s->settings, es_settings_count, err));
    for (int64_t i = 0; i < es_settings_count; i++)
        if ((!p->only || strncmp(es_settings[i].name, p->only, strlen(p->only)) == 0) &&
            (p->pool.model || !es_settings[i].needs_model) &&
            (decoder || !es_settings[i].needs_decoder))
            s->settings[s->count++] = i;
    if (s->count == 0)
        return es_refuse(err, "selfcheck.only", "esscher selfcheck shows all names",
                         "no setting has a name that begins with %s", p->only);
    return wants(s, es_direct_rates) ? es_pools_open(job, &p->pool, &s->layer.pools, err) : ES_OK;
}

/* Prepares layer and text where a setting needs them, and adds the stage of trials. */
static es_status begin(es_job *job, es_error *err)
{
    selfcheck_state *s = job->state;
    if (s->layer.pools.model)
        ES_TRY(es_checked_layer_open(job, &s->layer, err));
    if (wants(s, es_direct_losses))
        ES_TRY(es_checked_text_read(job, &s->text, err));
    return es_job_stage(job,
                        &(es_stage){"trial", .phase = "running trials", .noun = "trials",
                                    .cells = s->count * s->trials, .rows = ROWS,
                                    ES_RECORD(es_estimate, estimate_fields),
                                    .one_thread_per_cell = true,
                                    .flops = 2e9, /* of some hundred milliseconds */
                                    .run = run_trial},
                        err);
}

/* ---- how often it was right ---- */

typedef struct check_row {
    const char *setting, *figure, *kind;
    int64_t seeds, rows;
    double nominal;
    es_measured found;
    double uniform_p;
    const char *within;
} check_row;

static const es_column check_columns[] = {
    ES_COL(check_row, setting, ES_FORMAT_TEXT, "setting", ""),
    ES_COL(check_row, figure, ES_FORMAT_TEXT, "figure", "", "column of the study's answer"),
    ES_COL(check_row, kind, ES_FORMAT_TEXT, "what", "",
           "interval: 95 %, as printed; error: 95 % by Student's t from the standard error; bound: "
           "the same, at least as often; p: of a statement that is true; verdict: one that is "
           "wrong"),
    ES_COL(check_row, seeds, ES_FORMAT_COUNT, "seeds", ""),
    ES_COL(check_row, rows, ES_FORMAT_COUNT, "rows", "",
           "rows of the answer that have this figure"),
    ES_COL(check_row, nominal, ES_FORMAT_SHORT, "should be", "share",
           "how often the interval holds the truth (a bound at least), p is below .05, the verdict "
           "is wrong (at most)"),
    ES_COL(check_row, found, ES_FORMAT_REAL, "is", "share", "how often it was"),
    ES_COL(check_row, uniform_p, ES_FORMAT_SHORT, "p of uniform", "",
           "of p-values over seeds (first row), test of Kolmogorov and Smirnov"),
    ES_COL(check_row, within, ES_FORMAT_TEXT, "verdict", "",
           "off: by more than four standard errors and two points of a hundred; never said: no "
           "answer had it"),
    {0}};
static const es_table_spec check_table = {
    "checks", check_columns,
    ES_VIEW("How far the program's own errors can be trusted",
            "setting figure kind nominal found within rows uniform_p",
            "Errors are binomial, and from the scatter between seeds where an answer has several "
            "rows."),
    ES_ROW(check_row), .keys = "setting figure"};

/* A figure with a standard error, by that error as readers use it. */
typedef struct error_row {
    const char *setting, *figure;
    double one_should, two_should;
    es_measured one, two;
} error_row;

static const es_column error_columns[] = {
    ES_COL(error_row, setting, ES_FORMAT_TEXT, "setting", ""),
    ES_COL(error_row, figure, ES_FORMAT_TEXT, "figure", ""),
    ES_COL(error_row, one_should, ES_FORMAT_REAL, "1 se: should be", "share",
           "how often the truth should be within one standard error of the value, by Student's t"),
    ES_COL(error_row, one, ES_FORMAT_REAL, "1 se: is", "share", "how often it was"),
    ES_COL(error_row, two_should, ES_FORMAT_REAL, "2 se: should be", "share",
           "the same for two standard errors"),
    ES_COL(error_row, two, ES_FORMAT_REAL, "2 se: is", "share"),
    {0}};
static const es_table_spec error_table = {
    "errors", error_columns,
    ES_VIEW("Truth within one and two standard errors", .only_with_full = true), ES_ROW(error_row),
    .keys = "setting figure"};

typedef struct setting_row {
    const char *setting, *study, *about, *given;
} setting_row;

static const es_column setting_columns[] = {
    ES_COL(setting_row, setting, ES_FORMAT_TEXT, "setting", ""),
    ES_COL(setting_row, study, ES_FORMAT_TEXT, "study", ""),
    ES_COL(setting_row, about, ES_FORMAT_TEXT, "what is asked", ""),
    ES_COL(setting_row, given, ES_FORMAT_TEXT, "parameters", "",
           "of the study; @: a folder of inputs made up here"),
    {0}};
static const es_table_spec setting_table = {"settings", setting_columns,
                                            ES_VIEW("Settings", .only_with_full = true),
                                            ES_ROW(setting_row), .keys = "setting"};

/* One figure of one setting over all seeds. */
typedef struct tally {
    const es_setting *setting;
    const es_figure *figure;
    int64_t seeds, rows;
    double nominal, uniform_p;
    es_measured found, one, two;
    bool off;
} tally;

/* Returns the rows of a figure in one trial. */
static const es_estimate *rows_of(const es_job *job, int64_t which, int figure, int64_t trial)
{
    const selfcheck_state *s = job->state;
    const es_estimate *cell = es_job_cell(job, 0, which * s->trials + trial);
    return cell + (int64_t)figure * ES_FIGURE_ROWS;
}

/* Returns the mean over trials of a figure in one row. */
static double mean_value(const es_job *job, int64_t which, int figure, int64_t row)
{
    const selfcheck_state *s = job->state;
    double sum = 0.0, count = 0.0;
    for (int64_t t = 0; t < s->trials; t++) {
        const double x = rows_of(job, which, figure, t)[row].value;
        sum += isnan(x) ? 0.0 : x;
        count += !isnan(x);
    }
    return sum / count;
}

/* The setting that a figure takes its truth from: itself, if that is not among those asked. */
static int64_t truth_from(const es_job *job, int64_t which, const es_figure *f)
{
    const selfcheck_state *s = job->state;
    for (int64_t i = 0; i < s->count; i++)
        if (strcmp(es_settings[s->settings[i]].name, f->like) == 0)
            return i;
    return which;
}

double es_figure_outcome(const es_figure *figure, const es_estimate *answer, double truth)
{
    const double value = answer->value;
    if (isnan(value))
        return (double)NAN;
    if (figure->kind == ES_FIGURE_P)
        return value < 0.05;
    if (figure->kind == ES_FIGURE_VERDICT)
        return value;
    return value + answer->low <= truth && truth <= value + answer->high;
}

double es_figure_within(const es_figure *figure, const es_estimate *answer, double truth,
                        double errors)
{
    if (figure->kind != ES_FIGURE_ERROR || isnan(answer->value))
        return (double)NAN;
    return fabs(answer->value - truth) <= errors * answer->high / factor_95(figure);
}

double es_figure_should(const es_figure *figure, double errors)
{
    if (figure->kind != ES_FIGURE_ERROR)
        return (double)NAN;
    return figure->freedom > 0.0 ? 1.0 - 2.0 * es_student_tail(figure->freedom, errors)
                                 : erf(errors / sqrt(2.0));
}

bool es_figure_off(es_figure_kind kind, double nominal, double found, double se)
{
    const double apart = kind == ES_FIGURE_VERDICT ? found - nominal
                         : kind == ES_FIGURE_BOUND ? nominal - found
                                                   : fabs(found - nominal);
    return isnan(found) || (apart > 4.0 * se && apart > 0.02);
}

/* Returns the p-value that the p-values of a figure are uniform; NaN for fewer than 20. */
static double uniformity(const es_job *job, int64_t which, int figure, double *scratch)
{
    const selfcheck_state *s = job->state;
    int64_t count = 0;
    for (int64_t t = 0; t < s->trials; t++) {
        const double p = rows_of(job, which, figure, t)->value;
        if (p > 0.0 && p < 1.0) /* as a normal deviate, which is what the test is of */
            scratch[count++] =
                (p < 0.5 ? 1.0 : -1.0) * es_normal_tail_quantile(log(fmin(p, 1.0 - p)));
    }
    return count >= 20 ? es_ks_normal(scratch, count).p : (double)NAN;
}

/* Returns the share of answers that hold the truth (rows of the figure), over all trials: within
 * `errors` standard errors, or as printed (0). Sets the numbers of trials and rows that said
 * something. */
static es_measured share_right(const es_job *job, int64_t which, int figure, const double *truths,
                               double errors, tally *c)
{
    const selfcheck_state *s = job->state;
    const double p = errors > 0.0 ? es_figure_should(c->figure, errors) : c->nominal;
    double sum = 0.0, squares = 0.0, seeds = 0.0;
    c->rows = 0;
    for (int64_t t = 0; t < s->trials; t++) {
        const es_estimate *n = rows_of(job, which, figure, t);
        double right = 0.0, rows = 0.0;
        for (int64_t r = 0; r < ES_FIGURE_ROWS; r++) {
            const double one = errors > 0.0 ? es_figure_within(c->figure, n + r, truths[r], errors)
                                            : es_figure_outcome(c->figure, n + r, truths[r]);
            right += isnan(one) ? 0.0 : one;
            rows += !isnan(one);
        }
        if (rows == 0.0)
            continue;
        seeds++;
        c->rows = (int64_t)fmax((double)c->rows, rows);
        sum += right / rows;
        squares += right / rows * (right / rows);
    }
    c->seeds = (int64_t)seeds;
    const double found = sum / seeds;
    return (es_measured){found, sqrt(fmax((squares / seeds - found * found) / (seeds - 1.0),
                                          p * (1.0 - p) / (seeds * (double)c->rows)))};
}

/* Counts over all trials how often a figure was right. */
static void count(const es_job *job, int64_t which, int figure, double *scratch, tally *out)
{
    const es_figure *f = out->figure;
    double truths[ES_FIGURE_ROWS] = {0};
    for (int64_t r = 0; f->like && r < ES_FIGURE_ROWS; r++)
        truths[r] = mean_value(job, truth_from(job, which, f), figure, r);
    if (f->kind == ES_FIGURE_ERROR) {
        out->one = share_right(job, which, figure, truths, 1.0, out);
        out->two = share_right(job, which, figure, truths, 2.0, out);
    }
    out->found = share_right(job, which, figure, truths, 0.0, out);
    out->uniform_p = f->kind == ES_FIGURE_P ? uniformity(job, which, figure, scratch) : (double)NAN;
    out->off = es_figure_off(f->kind, out->nominal, out->found.value, out->found.se);
}

/* Names of settings and figures are constants of the registry, so rows may point to them. */
static es_status add_check(es_table *t, const tally *c, es_answer *answer, es_error *err)
{
    static const char *const kinds[] = {"", "interval", "error", "bound", "p", "verdict"};
    check_row *r = es_rows_add(t, check_row);
    if (!r)
        return es_answer_status(answer, err);
    *r = (check_row){.setting = c->setting->name,
                     .figure = c->figure->name ? c->figure->name : c->figure->key,
                     .kind = kinds[c->figure->kind],
                     .seeds = c->seeds,
                     .rows = c->rows,
                     .nominal = c->nominal,
                     .found = c->found,
                     .uniform_p = c->uniform_p,
                     .within = !c->seeds ? "never said"
                               : c->off  ? "off"
                                         : "within"};
    return ES_OK;
}

/* Adds the row of a figure that has a standard error. */
static es_status add_error(es_table *t, const tally *c, es_answer *answer, es_error *err)
{
    error_row *r = es_rows_add(t, error_row);
    if (!r)
        return es_answer_status(answer, err);
    *r = (error_row){.setting = c->setting->name,
                     .figure = c->figure->name ? c->figure->name : c->figure->key,
                     .one_should = es_figure_should(c->figure, 1.0),
                     .two_should = es_figure_should(c->figure, 2.0),
                     .one = c->one,
                     .two = c->two};
    return ES_OK;
}

/* Names every check that is off: readers do not read a long table to its end. */
static void report_off(const es_table *t, es_answer *answer)
{
    const check_row *rows = es_rows(t, check_row);
    char found[ES_SAY_SIZE];
    for (int64_t i = 0; i < es_table_rows(t); i++)
        if (strcmp(rows[i].within, "off") == 0)
            es_answer_add_finding(
                answer, "Off: %s of %s, whose %s has a share of %s instead of %.2f.",
                rows[i].figure, rows[i].setting, rows[i].kind,
                es_say_number(rows[i].found.value, rows[i].found.se, found), rows[i].nominal);
}

/* Adds the table of settings. */
static es_status add_settings(const selfcheck_state *s, es_answer *answer, es_error *err)
{
    es_table *t = es_answer_table(answer, &setting_table);
    for (int64_t i = 0; i < s->count; i++) {
        const es_setting *setting = &es_settings[s->settings[i]];
        setting_row *r = es_rows_add(t, setting_row);
        if (!r)
            return es_answer_status(answer, err);
        *r = (setting_row){setting->name, setting->study, setting->about,
                           setting->given ? setting->given : ""};
    }
    return ES_OK;
}

/* Counts every figure of every setting and fills the tables. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const selfcheck_state *s = job->state;
    es_table *t = es_answer_table(answer, &check_table);
    es_table *errors = es_answer_table(answer, &error_table);
    long long all = 0, off = 0;
    double *scratch, least = 1.0, most = 0.0;
    ES_TRY(ES_JOB_NEW(job, scratch, s->trials, err));
    for (int64_t i = 0; i < s->count; i++) {
        const es_setting *setting = &es_settings[s->settings[i]];
        for (int f = 0; f < ES_FIGURES && setting->figures[f].kind; f++) {
            const es_figure *figure = &setting->figures[f];
            const bool holds = figure->kind <= ES_FIGURE_BOUND;
            tally c = {setting, figure, .nominal = holds ? 0.95 : 0.05};
            count(job, i, f, scratch, &c);
            ES_TRY(add_check(t, &c, answer, err));
            if (figure->kind == ES_FIGURE_ERROR)
                ES_TRY(add_error(errors, &c, answer, err));
            all++;
            off += c.off;
            least = holds ? fmin(least, c.found.value) : least;
            most = holds ? fmax(most, c.found.value) : most;
        }
    }
    ES_TRY(add_settings(s, answer, err));
    es_answer_count(answer, "seeds", s->trials);
    es_answer_count(answer, "off", off);
    if (off)
        es_answer_fail_check(answer);
    es_answer_add_finding(
        answer,
        "%lld of %lld kinds of intervals, p-values and verdicts %s off by more than four standard "
        "errors and two percentage points (%lld seeds each). 95 %% intervals held the true value "
        "%.1f to %.1f %% of the time.",
        off, all, off == 1 ? "is" : "are", (long long)s->trials, 100.0 * least, 100.0 * most);
    report_off(t, answer);
    return ES_OK;
}

/* Closes layer and pool. */
static void close_study(es_job *job)
{
    selfcheck_state *s = job->state;
    es_checked_layer_close(&s->layer);
}

static const char *const examples[] = {"esscher selfcheck",
                                       "esscher selfcheck --effort full --out selfcheck.run",
                                       "esscher selfcheck --only converge", NULL};

const es_study es_study_selfcheck = {
    "selfcheck",
    .summary = "how often this program's own intervals, p-values and verdicts are right",
    .main_options = "effort trials only model text domain pool block",
    .usage = "[options]",
    .about =
        "Runs other commands with many seeds on problems whose answer is known, and counts how "
        "often a 95 % interval holds the true value, how often a p-value is below .05 although its "
        "hypothesis is true, and how often a verdict is wrong. Exit code 1 if one of these is off "
        "by more than four standard errors and also by more than two percentage points.\n\n"
        "With --model and --text it also checks commands on a model. For probe on the heads of one "
        "layer, the true value is the mean over all seeds. For the predictions of budget, it is "
        "measured on other parts of the text. For the loss of a decoder from 8 and 16 blocks, it "
        "is "
        "the loss of all blocks. For forecasts of probe in a decoder, it is measured in longer "
        "blocks. "
        "docs/data/CALIBRATION.md has a run at full effort.",
    .examples = examples,
    .params = params,
    .size = sizeof(selfcheck_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "checks",
    .state = sizeof(selfcheck_state),
    .open = open_study,
    .begin = begin,
    .close = close_study,
    .summarise = summarise};
