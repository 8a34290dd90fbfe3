/* SPDX-License-Identifier: Apache-2.0 */
/* make_runs FOLDER CELLS : the run files that the tests of the report look at, small and hostile
 * ones and large ones.
 *
 * Their numbers are made up from formulas; only their shape is that of a command's. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/npy.h>

#include "store/run.h"

static es_error err;
static const char *folder;

static void must(es_status status, const char *what)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "make_runs: %s: %s\n", what, err.message);
    exit(1);
}

static es_run *create(const char *name, const char *command, const char *line)
{
    char path[512];
    const bool real = strstr(line, "--model") != NULL;
    const es_run_pair params[] = {{"seed", "7"},
                                  {"n", "100,1000,10000"},
                                  {"mean", ""},
                                  {"model", real ? "config.json 799 bytes" : ""}};
    const es_run_pair facts[] = {{"command", line}, {"version", es_version()}, {"cpu", "a CPU"}};
    const es_run_spec spec = {command, params, 4, facts, 3};
    es_run *run;
    snprintf(path, sizeof path, "%s/%s.run", folder, name);
    must(es_run_create(path, &spec, true, &run, &err), name);
    return run;
}

static void put(es_run *run, const char *name, int64_t rows, const es_run_column *columns,
                int64_t cols)
{
    const es_run_table table = {.name = name, .rows = rows, .cols = cols, .columns = columns};
    must(es_run_put_table(run, &table, &err), name);
}

/* "_columns" from rows of {table, key, header, format, error, definition}. */
enum { SAID = 6, MOST_SAID = 32 };

static void describe(es_run *run, const char *title, const char *const (*said)[SAID], int64_t rows)
{
    static const char *const keys[] = {"table", "key", "header", "format", "error", "definition"};
    const char *texts[SAID + 1][MOST_SAID];
    es_run_column columns[SAID + 1];
    for (int j = 0; j < SAID; j++) {
        for (int64_t i = 0; i < rows; i++)
            texts[j][i] = said[i][j];
        columns[j] = (es_run_column){keys[j], ES_RUN_TEXT, NULL, texts[j]};
    }
    for (int64_t i = 0; i < rows; i++)
        texts[SAID][i] = title;
    columns[SAID] = (es_run_column){"title", ES_RUN_TEXT, NULL, texts[SAID]};
    put(run, "_columns", rows, columns, SAID + 1);
}

/* What a study found, in a sentence. */
static void find(es_run *run, const char *sentence)
{
    const es_run_column column = {"sentence", ES_RUN_TEXT, NULL, &sentence};
    put(run, "_findings", 1, &column, 1);
}

static void finish(es_run *run) { must(es_run_close(run, &err), "close"); }

/* ---- claims ---- */

static void make_claims(void)
{
    static const char *const id[] = {"bias", "rate-small-horizon", "exponent-as-prediction",
                                     "coupling"};
    static const char *const source[] = {"THEORY 4.2", "Token Sample Complexity, Thm 2",
                                         "Token Sample Complexity, Fig. 3", "ibid., Cor. 5"};
    static const char *const statement[] = {
        "The mean output of attention over n Gaussian tokens is (1 - P_n) times its limit.",
        "For a small horizon the error falls like one over the square root of n.",
        "The exponent 1/(2(1+H^2)) predicts the slope that is seen at reachable n.",
        "Twice the coupling bounds the squared horizon from below."};
    static const char *const formulas[] = {
        "The mean output of attention over n Gaussian tokens is `(1 - P_n)` times its limit.",
        "The exponent `1/(2(1+H^2))` predicts the slope that is seen at reachable n."};
    static const char *const verdict[] = {"consistent", "contradicted", "does not hold",
                                          "undecided"};
    static const char *const group[] = {"statements of the papers", "statements of the papers",
                                        "common assumptions", "common assumptions"};
    static const char *const relation[] = {"=", "=", "=", ">="};
    static const char *const conclusion[] = {
        "The identity can be used as a test of any implementation.",
        "Below H = 0.7 more context helps like more samples.",
        "It is a bound for n to infinity; use the finite-n prediction instead.",
        "More replicates would tell."};
    static const double prediction[] = {0.98722, 0.5, 0.25, NAN};
    static const double measurement[] = {0.98731, 0.497, 0.345, 1.2};
    static const double se[] = {0.00011, 0.006, 0.011, NAN};
    static const double slack[] = {-0.0001, -0.006, -0.38, NAN};
    static const double slack_se[] = {-0.8, -0.5, -8.6, NAN};
    static const double tries[] = {20000, 200, 48, 16};
    const es_run_column columns[] = {{"id", ES_RUN_TEXT, NULL, id},
                                     {"source", ES_RUN_TEXT, NULL, source},
                                     {"statement", ES_RUN_TEXT, NULL, statement},
                                     {"relation", ES_RUN_TEXT, NULL, relation},
                                     {"predicted", ES_RUN_REAL, prediction, NULL},
                                     {"measured", ES_RUN_REAL, measurement, NULL},
                                     {"measured_se", ES_RUN_REAL, se, NULL},
                                     {"slack", ES_RUN_REAL, slack, NULL},
                                     {"slack_se", ES_RUN_REAL, slack_se, NULL},
                                     {"tries", ES_RUN_REAL, tries, NULL},
                                     {"verdict", ES_RUN_TEXT, NULL, verdict},
                                     {"group", ES_RUN_TEXT, NULL, group},
                                     {"conclusion", ES_RUN_TEXT, NULL, conclusion}};
    const es_run_column evidence[] = {{"id", ES_RUN_TEXT, NULL, id},
                                      {"label", ES_RUN_TEXT, NULL, source},
                                      {"relation", ES_RUN_TEXT, NULL, relation},
                                      {"predicted", ES_RUN_REAL, prediction, NULL},
                                      {"measured", ES_RUN_REAL, measurement, NULL},
                                      {"measured_se", ES_RUN_REAL, se, NULL},
                                      {"verdict", ES_RUN_TEXT, NULL, verdict}};
    static const char *const said[][SAID] = {
        {"claims", "statement", "statement", "text", "", ""},
        {"claims", "source", "source", "text", "", ""},
        {"claims", "predicted", "predicted", "real", "", "from theory alone"},
        {"claims", "measured", "measured", "real", "measured_se", "on this machine"},
        {"claims", "verdict", "verdict", "text", "", ""},
        {"claims", "conclusion", "conclusion", "text", "", ""}};
    static const char *const title = "Token Sample Complexity of Attention",
                             *const arxiv = "2512.10656", *const text = "abstract only";
    const es_run_column papers[] = {{"title", ES_RUN_TEXT, NULL, &title},
                                    {"arxiv", ES_RUN_TEXT, NULL, &arxiv},
                                    {"text", ES_RUN_TEXT, NULL, &text}};
    es_run *run = create("claims", "claims", "esscher claims --effort quick --out claims.run");
    put(run, "claims", 4, columns, 13);
    put(run, "evidence", 4, evidence, 7);
    put(run, "papers", 1, papers, 3);
    put(run, "_formulas", 2, &(es_run_column){"text", ES_RUN_TEXT, NULL, formulas}, 1);
    describe(run, "The papers' statements", said, 6);
    finish(run);
}

/* ---- hardmax, ball, exponent, probe: kinds of figures that would take long to compute ---- */

static void make_hardmax(void)
{
    static double n[8], mean[8], se[8], exact[8], leading[8], second[8], z[8];
    for (int i = 0; i < 8; i++) {
        n[i] = pow(10.0, i + 1);
        leading[i] = log(2.0) / sqrt(2.0 * log(n[i]));
        exact[i] = leading[i] * (1.0 + 0.3 / log(n[i]));
        second[i] = exact[i] * (1.0 - 0.1 / log(n[i]));
        se[i] = 0.0011;
        z[i] = sin(3.0 * i);
        mean[i] = exact[i] + z[i] * se[i];
    }
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"mean_abs", ES_RUN_REAL, mean, NULL},
                                     {"mean_abs_se", ES_RUN_REAL, se, NULL},
                                     {"exact", ES_RUN_REAL, exact, NULL},
                                     {"asymptotic", ES_RUN_REAL, leading, NULL},
                                     {"second_order", ES_RUN_REAL, second, NULL},
                                     {"z", ES_RUN_REAL, z, NULL}};
    static const char *const said[][SAID] = {
        {"rows", "n", "n", "count", "", ""},
        {"rows", "mean_abs", "mean |G|", "real", "mean_abs_se", "size of the mean output"},
        {"rows", "exact", "exact", "real", "", "by quadrature"},
        {"rows", "asymptotic", "leading", "real", "", "leading term"}};
    es_run *run = create("hardmax", "hardmax", "esscher hardmax --out hardmax.run");
    put(run, "rows", 8, columns, 7);
    describe(run, "Attention at infinite score scale", said, 4);
    finish(run);
}

static void make_selfcheck(void)
{
    static const char *const setting[] = {"converge.4", "converge.8", "mean.4", "tails"},
                             *const figure[] = {"rate_mean", "rate_mean", "rate_mean_p", "heavier"},
                             *const kind[] = {"interval", "interval", "p", "verdict"},
                             *const within[] = {"within", "off", "within", "within"};
    static const double seeds[] = {400, 400, 400, 400}, nominal[] = {0.95, 0.95, 0.05, 0.05},
                        found[] = {0.953, 0.86, 0.04, 0.0}, se[] = {0.011, 0.017, 0.011, 0.011};
    const es_run_column columns[] = {
        {"setting", ES_RUN_TEXT, NULL, setting}, {"figure", ES_RUN_TEXT, NULL, figure},
        {"kind", ES_RUN_TEXT, NULL, kind},       {"seeds", ES_RUN_REAL, seeds, NULL},
        {"nominal", ES_RUN_REAL, nominal, NULL}, {"found", ES_RUN_REAL, found, NULL},
        {"found_se", ES_RUN_REAL, se, NULL},     {"within", ES_RUN_TEXT, NULL, within}};
    static const char *const said[][SAID] = {
        {"checks", "found", "is", "real", "found_se", "how often it was"}};
    es_run *run = create("selfcheck", "selfcheck", "esscher selfcheck --out selfcheck.run");
    put(run, "checks", 4, columns, 8);
    describe(run, "How far the program's own errors can be trusted", said, 1);
    finish(run);
}

static void make_ball(void)
{
    enum { SIZES = 3, RADII = 6, ROWS = SIZES * RADII };
    static double R[ROWS], n[ROWS], sup[ROWS], se[ROWS], scaled[ROWS], scaled_se[ROWS], one[ROWS];
    static const char *flag[ROWS];
    static const double at[SIZES] = {1000, 4000, 16000}, slope[SIZES] = {0.42, 0.45, 0.47},
                        sharp[SIZES] = {0.5, 0.5, 0.5}, bound[SIZES] = {1, 1, 1};
    for (int i = 0; i < ROWS; i++) {
        R[i] = 0.5 * (1 + i % RADII);
        n[i] = at[i / RADII];
        one[i] = exp(0.5 * R[i] * R[i]) * sqrt(1.0 + R[i] * R[i]);
        const double stop = 0.9 * sqrt(n[i]);
        scaled[i] = 1.1 * one[i] / (1.0 + one[i] / stop);
        flag[i] = one[i] > 0.05 * sqrt(n[i]) ? "saturated" : "";
        scaled_se[i] = 0.06 * scaled[i];
        sup[i] = scaled[i] / sqrt(n[i]);
        se[i] = 0.06 * sup[i];
    }
    const es_run_column rows[] = {
        {"radius", ES_RUN_REAL, R, NULL},          {"n", ES_RUN_REAL, n, NULL},
        {"sup_error", ES_RUN_REAL, sup, NULL},     {"sup_error_se", ES_RUN_REAL, se, NULL},
        {"scaled", ES_RUN_REAL, scaled, NULL},     {"scaled_se", ES_RUN_REAL, scaled_se, NULL},
        {"predicted_rms", ES_RUN_REAL, one, NULL}, {"flag", ES_RUN_TEXT, NULL, flag}};
    const es_run_column growth[] = {{"n", ES_RUN_REAL, at, NULL},
                                    {"slope", ES_RUN_REAL, slope, NULL},
                                    {"slope_sharp", ES_RUN_REAL, sharp, NULL},
                                    {"slope_bound", ES_RUN_REAL, bound, NULL}};
    es_run *run = create("ball", "ball", "esscher ball --out ball.run");
    put(run, "rows", ROWS, rows, 8);
    put(run, "growth", SIZES, growth, 4);
    finish(run);
}

/* Keys need a file that no command of the program makes. */
static void make_exponent(void)
{
    static const double k[] = {16, 32, 64}, alpha[] = {1.52, 1.49, 1.5}, se[] = {0.06, 0.04, 0.03};
    static const double hill[] = {1.5, 1.45, 1.4}, hill_se[] = {0.06, 0.04, 0.03};
    static const double n[] = {1e3, 1e3, 1e4, 1e5}, averages[] = {9, 8.5, 40, 190};
    static const double frozen[] = {270, 265, 1260, 5700}, frozen_se[] = {13, 15, 90, 500};
    static const char *const source[] = {"these keys", "law", "law", "law"};
    static const double beta[] = {300};
    const es_run_column scan[] = {{"k", ES_RUN_REAL, k, NULL},
                                  {"hill", ES_RUN_REAL, hill, NULL},
                                  {"hill_se", ES_RUN_REAL, hill_se, NULL},
                                  {"alpha", ES_RUN_REAL, alpha, NULL},
                                  {"alpha_se", ES_RUN_REAL, se, NULL}};
    const es_run_column freezing[] = {{"n", ES_RUN_REAL, n, NULL},
                                      {"source", ES_RUN_TEXT, NULL, source},
                                      {"averages", ES_RUN_REAL, averages, NULL},
                                      {"frozen", ES_RUN_REAL, frozen, NULL},
                                      {"frozen_se", ES_RUN_REAL, frozen_se, NULL}};
    const es_run_column runs[] = {{"beta", ES_RUN_REAL, beta, NULL}};
    es_run *run =
        create("exponent", "exponent", "esscher exponent --keys K.npy --out exponent.run");
    put(run, "freezing", 4, freezing, 5);
    put(run, "runs", 1, runs, 1);
    put(run, "scan", 3, scan, 5);
    finish(run);
}

/* Two domains of text; a head far above the others, one without a rate, some that freeze. */
enum { LAYERS = 6, HEADS = 8, ALL = LAYERS * HEADS, BOTH = 2 * ALL, SIZES = 3 };

static void put_curves(es_run *run)
{
    enum { ROWS = BOTH * SIZES };
    static double layer[ROWS], head[ROWS], n[ROWS], map[ROWS], map_se[ROWS], mean[ROWS],
        mean_se[ROWS], cov[ROWS], cov_se[ROWS], predicted[ROWS], sampling[ROWS];
    static const char *domain[ROWS];
    for (int i = 0; i < ROWS; i++) {
        const int h = i / SIZES;
        domain[i] = h < ALL ? "prose" : "code";
        layer[i] = h % ALL / HEADS;
        head[i] = h % HEADS;
        n[i] = 100.0 * pow(10.0, i % SIZES);
        predicted[i] = 2.0 / sqrt(n[i]) * (1.0 + 0.1 * layer[i]);
        map[i] = predicted[i] * (1.0 + 0.1 * sin(i));
        mean[i] = 0.4 * map[i];
        map_se[i] = 0.05 * map[i];
        mean_se[i] = 0.05 * mean[i];
        cov[i] = 0.1 * map[i];
        cov_se[i] = 0.05 * cov[i];
        sampling[i] = map[i];
    }
    const es_run_column columns[] = {{"domain", ES_RUN_TEXT, NULL, domain},
                                     {"layer", ES_RUN_REAL, layer, NULL},
                                     {"head", ES_RUN_REAL, head, NULL},
                                     {"n", ES_RUN_REAL, n, NULL},
                                     {"map_error", ES_RUN_REAL, map, NULL},
                                     {"map_error_se", ES_RUN_REAL, map_se, NULL},
                                     {"mean_error", ES_RUN_REAL, mean, NULL},
                                     {"mean_error_se", ES_RUN_REAL, mean_se, NULL},
                                     {"cov_error", ES_RUN_REAL, cov, NULL},
                                     {"cov_error_se", ES_RUN_REAL, cov_se, NULL},
                                     {"map_error_predicted", ES_RUN_REAL, predicted, NULL},
                                     {"map_error_sampling", ES_RUN_REAL, sampling, NULL}};
    put(run, "rows", ROWS, columns, 12);
}

/* Every other row is of the second domain. */
static void put_differences(es_run *run, const char *const domains[2], const char *first)
{
    static double layer[ALL], head[ALL], ratio[ALL], se[ALL], p[ALL];
    static const char *domain[ALL], *against[ALL], *quantity[ALL], *differs[ALL];
    for (int i = 0; i < ALL; i++) {
        domain[i] = domains[i % 2];
        against[i] = first;
        quantity[i] = "score sd";
        layer[i] = i / HEADS;
        head[i] = i % HEADS;
        ratio[i] = exp(0.3 * sin(i));
        se[i] = 0.08;
        differs[i] = fabs(ratio[i] - 1.0) > 0.24 ? "yes" : "no";
        p[i] = differs[i][0] == 'y' ? 1e-3 : 0.5;
    }
    const es_run_column columns[] = {{"domain", ES_RUN_TEXT, NULL, domain},
                                     {"against", ES_RUN_TEXT, NULL, against},
                                     {"layer", ES_RUN_REAL, layer, NULL},
                                     {"head", ES_RUN_REAL, head, NULL},
                                     {"ratio", ES_RUN_REAL, ratio, NULL},
                                     {"ratio_se", ES_RUN_REAL, se, NULL},
                                     {"p", ES_RUN_REAL, p, NULL},
                                     {"differs", ES_RUN_TEXT, NULL, differs},
                                     {"quantity", ES_RUN_TEXT, NULL, quantity}};
    put(run, "differences", ALL, columns, 9);
}

static void make_probe(void)
{
    static double layer[BOTH], head[BOTH], horizon[BOTH], frozen[BOTH], entropy[BOTH], rate[BOTH],
        rate_se[BOTH], expected[BOTH], first[BOTH], last[BOTH], limit[BOTH], tenth[BOTH];
    static const char *domain[BOTH], *sign[BOTH];
    for (int i = 0; i < BOTH; i++) {
        domain[i] = i < ALL ? "prose" : "code";
        layer[i] = i % ALL / HEADS;
        head[i] = i % HEADS;
        horizon[i] = i == 17 ? 12.5 : 0.3 + 0.2 * layer[i] + 0.1 * sin(head[i]);
        frozen[i] = fmax(0.0, 0.1 * sin(i));
        entropy[i] = 5.0 - 0.5 * layer[i];
        expected[i] = 0.5 / (1.0 + 0.3 * horizon[i] * horizon[i]);
        rate[i] = i == 3 ? NAN : expected[i] + 0.03 * sin(5 * i);
        rate_se[i] = 0.03;
        first[i] = 0.02 * (1.0 + layer[i]);
        last[i] = 0.01;
        limit[i] = 0.01;
        sign[i] = i % 8 == 5 ? "any" : i % 3 == 0 ? ">" : "";
        tenth[i] = sign[i][0] == 'a' ? NAN : exp(2.0 + layer[i] + sin(head[i]));
    }
    const es_run_column columns[] = {{"domain", ES_RUN_TEXT, NULL, domain},
                                     {"layer", ES_RUN_REAL, layer, NULL},
                                     {"head", ES_RUN_REAL, head, NULL},
                                     {"horizon", ES_RUN_REAL, horizon, NULL},
                                     {"gaussian_frozen", ES_RUN_REAL, frozen, NULL},
                                     {"entropy", ES_RUN_REAL, entropy, NULL},
                                     {"rate_map", ES_RUN_REAL, rate, NULL},
                                     {"rate_map_se", ES_RUN_REAL, rate_se, NULL},
                                     {"rate_map_predicted", ES_RUN_REAL, expected, NULL},
                                     {"sink_first", ES_RUN_REAL, first, NULL},
                                     {"sink_last", ES_RUN_REAL, last, NULL},
                                     {"tokens_for_tenth_sign", ES_RUN_TEXT, NULL, sign},
                                     {"tokens_for_tenth", ES_RUN_REAL, tenth, NULL},
                                     {"map_error_limit", ES_RUN_REAL, limit, NULL}};
    es_run *run = create("probe", "probe",
                         "esscher probe --model models/bert-a --text prose.txt --out probe.run");
    put(run, "heads", BOTH, columns, 14);
    put_curves(run);
    put_differences(run, (const char *const[]){"code", "code"}, "prose");
    finish(run);
}

/* Texts that are called something that no file can be, and that no font of a PDF has. */
static void make_strange(void)
{
    static char long_name[1100];
    memset(long_name, 'x', sizeof long_name - 1);
    es_run *run = create("strange", "probe", "esscher probe --model models/bert-a");
    put_differences(run, (const char *const[]){"про\nза\x01", long_name}, "код");
    finish(run);
}

static void make_tails(void)
{
    enum { KINDS = 5, EACH = 3, ROWS = LAYERS * KINDS * EACH };
    static const char *const kinds[KINDS] = {"principal", "random", "norm", "key", "score"};
    static double layer[ROWS], index[ROWS], proxy[ROWS], psi2[ROWS], hill[ROWS], one[ROWS],
        psi2_of[ROWS], hill_of[ROWS], sd[ROWS], z[ROWS];
    static const char *kind[ROWS], *verdict[ROWS];
    for (int i = 0; i < ROWS; i++) {
        layer[i] = i / (KINDS * EACH);
        kind[i] = kinds[i / EACH % KINDS];
        index[i] = i % EACH;
        one[i] = 1.02;
        psi2_of[i] = 1.61;
        hill_of[i] = 0.17;
        sd[i] = 0.02;
        z[i] = 10.0 * sin(i);
        proxy[i] = 1.0 + fmax(0.0, sin(i));
        psi2[i] = psi2_of[i] * (1.0 + 0.2 * sin(i));
        hill[i] = hill_of[i] * exp(0.5 * sin(i));
        verdict[i] = "Gaussian-like";
    }
    const es_run_column columns[] = {{"layer", ES_RUN_REAL, layer, NULL},
                                     {"kind", ES_RUN_TEXT, NULL, kind},
                                     {"index", ES_RUN_REAL, index, NULL},
                                     {"proxy", ES_RUN_REAL, proxy, NULL},
                                     {"proxy_control", ES_RUN_REAL, one, NULL},
                                     {"proxy_control_sd", ES_RUN_REAL, sd, NULL},
                                     {"proxy_z", ES_RUN_REAL, z, NULL},
                                     {"psi2", ES_RUN_REAL, psi2, NULL},
                                     {"psi2_control", ES_RUN_REAL, psi2_of, NULL},
                                     {"psi2_control_sd", ES_RUN_REAL, sd, NULL},
                                     {"hill", ES_RUN_REAL, hill, NULL},
                                     {"hill_control", ES_RUN_REAL, hill_of, NULL},
                                     {"hill_control_sd", ES_RUN_REAL, sd, NULL},
                                     {"verdict", ES_RUN_TEXT, NULL, verdict}};
    es_run *run = create("tails", "tails", "esscher tails --out tails.run");
    find(run, "Of 90 directions, 0 have heavier tails than Gaussian tokens.");
    put(run, "rows", ROWS, columns, 14);
    finish(run);
}

/* ---- converge, and what can be wrong with it ---- */

/* RP02, RP05: a NaN, a zero and a negative error, and an interval that reaches zero. */
static void make_odd(void)
{
    static const double scale[] = {1, 1, 1, 1, 1, 1}, n[] = {100, 200, 400, 800, 1600, 3200};
    static const double error[] = {0.1, NAN, 0.05, 0.0, -0.01, 0.02};
    static const double se[] = {0.01, 0.01, 0.005, 0.001, 0.001, 0.03};
    static const double infinite[] = {1, INFINITY, -INFINITY, 2, 3, 4};
    const es_run_column columns[] = {{"scale", ES_RUN_REAL, scale, NULL},
                                     {"n", ES_RUN_REAL, n, NULL},
                                     {"mean_error", ES_RUN_REAL, error, NULL},
                                     {"mean_error_se", ES_RUN_REAL, se, NULL},
                                     {"other", ES_RUN_REAL, infinite, NULL}};
    es_run *run = create("odd", "converge", "esscher converge --out odd.run");
    put(run, "rows", 6, columns, 5);
    finish(run);
}

/* RP03: a table without rows, a run without tables, and one row. */
static void make_few(void)
{
    static const double none[1], scale[] = {1}, n[] = {1000}, error[] = {0.1}, se[] = {0.01};
    const es_run_column empty[] = {{"scale", ES_RUN_REAL, none, NULL},
                                   {"n", ES_RUN_REAL, none, NULL},
                                   {"mean_error", ES_RUN_REAL, none, NULL}};
    const es_run_column one[] = {{"scale", ES_RUN_REAL, scale, NULL},
                                 {"n", ES_RUN_REAL, n, NULL},
                                 {"mean_error", ES_RUN_REAL, error, NULL},
                                 {"mean_error_se", ES_RUN_REAL, se, NULL}};
    es_run *run = create("empty", "converge", "esscher converge --out empty.run");
    put(run, "rows", 0, empty, 3);
    finish(run);
    run = create("one", "converge", "esscher converge --out one.run");
    put(run, "rows", 1, one, 4);
    finish(run);
    finish(create("unfinished", "converge", "esscher converge --out unfinished.run"));
}

/* RP01: whatever a name can do to a page. */
static void make_hostile(void)
{
    static const char *const texts[] = {"</script><script>window.owned=1</script>",
                                        "<img src=x onerror=window.owned=1>",
                                        "javascript:window.owned=1",
                                        "\"'><svg onload=window.owned=1>",
                                        "line\xe2\x80\xa8separator\xe2\x80\xa9paragraph",
                                        "right\xe2\x80\xaeot tfel",
                                        "\xff\xfe not UTF-8 \x01\x1b[31m",
                                        "]]>--><!--</style></title>"};
    enum { ROWS = sizeof texts / sizeof texts[0] };
    static const double scale[ROWS] = {1, 1, 1, 1, 1, 1, 1, 1};
    double n[ROWS], error[ROWS], se[ROWS];
    for (int i = 0; i < ROWS; i++) {
        n[i] = 100.0 * (i + 1);
        error[i] = 1.0 / sqrt(n[i]);
        se[i] = 0.1 * error[i];
    }
    const es_run_column columns[] = {
        {"scale", ES_RUN_REAL, scale, NULL},           {"n", ES_RUN_REAL, n, NULL},
        {"mean_error", ES_RUN_REAL, error, NULL},      {"mean_error_se", ES_RUN_REAL, se, NULL},
        {"mean_error_flag", ES_RUN_TEXT, NULL, texts}, {texts[0], ES_RUN_TEXT, NULL, texts},
        {"__proto__", ES_RUN_TEXT, NULL, texts}};
    es_run *run = create("hostile", "converge", texts[0]);
    put(run, "rows", ROWS, columns, 7);
    put(run, "</script><b>", ROWS, columns, 7);
    static const char *const said[][SAID] = {
        {"rows", "n", "<b onclick=window.owned=1>n</b>", "count", "",
         "<script>window.owned=1</script>"},
        {"rows", "mean_error", "error\" onfocus=\"window.owned=1", "real", "mean_error_se", "x"},
        {"rows", "mean_error_flag", "<i>flag</i>", "text", "", "x"}};
    describe(run, "<script>window.owned=1</script>", said, 3);
    finish(run);
    run =
        create("constructor", "constructor", "x"); /* a command named like what every object has */
    put(run, "rows", ROWS, columns, 4);
    finish(run);
}

/* RP03: a million rows of a table, and CELLS cells of a stage. */
static void make_large(int64_t cells)
{
    enum { ROWS = 1000000, COLS = 6 };
    static const char *const names[COLS] = {"scale",         "n",         "mean_error",
                                            "mean_error_se", "cov_error", "map_error"};
    static const char *const cell[] = {"error"};
    double *values = malloc(sizeof(double) * COLS * ROWS);
    es_run_column columns[COLS];
    if (!values)
        exit(1);
    for (int j = 0; j < COLS; j++) {
        double *v = values + (size_t)j * ROWS;
        for (int i = 0; i < ROWS; i++)
            v[i] = j == 0 ? 1.0
                   : j == 1
                       ? 10.0 + i
                       : (1.0 + 0.2 * sin(0.7 * i + j)) / sqrt(10.0 + i) * (j == 3 ? 0.02 : 1.0);
        columns[j] = (es_run_column){names[j], ES_RUN_REAL, v, NULL};
    }
    es_run *run = create("large", "converge", "esscher converge --out large.run");
    int64_t stage;
    must(es_run_add_stage(run, "replicate", 1, 1, cell, &stage, &err), "stage");
    for (int64_t i = 0; i < cells; i++)
        must(es_run_put_cell(run, stage, i, (double[]){1.0}, &err), "cell");
    put(run, "rows", ROWS, columns, COLS);
    finish(run);
    free(values);
}

/* Queries, keys and values for measure, as a model dumps them: (1, heads, rows, 8). A head's scores
 * grow with its number, so that heads are averaging, selective and single-key. */
static void make_dump(const char *name, int64_t heads, int64_t rows, double phase)
{
    enum { DIM = 8 };
    char path[512];
    const int64_t shape[] = {1, heads, rows, DIM};
    double *x = malloc((size_t)(heads * rows * DIM) * sizeof *x);
    if (!x)
        exit(1);
    for (int64_t i = 0; i < heads * rows * DIM; i++)
        x[i] =
            (0.5 + (double)(i / (rows * DIM))) * sin(phase * (double)i + 0.01 * (double)(i % 97));
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    must(es_npy_save(path, ES_F64, 4, shape, x, true, &err), "dump");
    free(x);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    folder = argv[1];
    make_claims();
    make_hardmax();
    make_selfcheck();
    make_ball();
    make_exponent();
    make_probe();
    make_strange();
    make_tails();
    make_odd();
    make_few();
    make_hostile();
    make_dump("q", 4, 40, 1.7);
    make_dump("k", 2, 400, 2.3);
    make_dump("v", 2, 400, 0.9);
    make_large(strtoll(argv[2], NULL, 10));
    return 0;
}
