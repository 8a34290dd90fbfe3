#include "answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/peak.h>

#include "talk.h"

es_dtype cli_precision(const cli_session *session)
{
    return session->common.precision == 1 ? ES_F64 : ES_F32;
}

/* ---- values ---- */

json_t *cli_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *cli_reals(const double *values, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, cli_real(values[i]));
    return list;
}

json_t *cli_matrix(const double *values, int64_t rows, int64_t cols)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < rows; i++)
        json_array_append_new(list, cli_reals(values + i * cols, cols));
    return list;
}

json_t *cli_counts(const int64_t *values, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

/* Text of the user's: jansson takes valid UTF-8 only, and so does a terminal. */
static json_t *escaped(const char *text)
{
    char *safe = cli_escape_new(text);
    json_t *value = json_string(safe);
    free(safe);
    return value;
}

/* ---- the object ---- */

static json_t *make_provenance(const cli_session *session)
{
    const es_build build = es_build_info();
    json_t *provenance = json_object();
    json_object_set_new(provenance, "library", json_string(es_version()));
    json_object_set_new(provenance, "compiler", json_string(build.compiler));
    json_object_set_new(provenance, "flags", json_string(build.flags));
    json_object_set_new(provenance, "blas", escaped(build.blas));
    json_object_set_new(provenance, "openmp", json_boolean(build.openmp));
    json_object_set_new(provenance, "cpu", escaped(es_cpu_name()));
    json_object_set_new(provenance, "isa", json_string(es_isa_name(session->exec.isa)));
    json_object_set_new(provenance, "threads", json_integer(session->exec.threads));
    if (session->command->common & CLI_TAKES_PRECISION)
        json_object_set_new(provenance, "precision",
                            json_string(es_dtype_name(cli_precision(session))));
    json_t *argv = json_array();
    for (int i = 0; i < session->argc; i++)
        json_array_append_new(argv, escaped(session->argv[i]));
    json_object_set_new(provenance, "argv", argv);
    json_object_set_new(provenance, "inputs", json_array());
    return provenance;
}

json_t *cli_answer_new(const cli_session *session)
{
    json_t *answer = json_object();
    json_object_set_new(answer, "schema", json_string("esscher/1"));
    json_object_set_new(answer, "command", json_string(session->command->name));
    json_object_set_new(answer, "version", json_string(ES_VERSION_STRING));
    json_object_set_new(answer, "seed",
                        session->command->common & CLI_TAKES_SEED
                            ? json_integer((json_int_t)session->common.seed)
                            : json_null());
    json_object_set_new(answer, "provenance", make_provenance(session));
    return answer;
}

void cli_answer_input(cli_session *session, const char *role, const char *path,
                      const es_npy_info *info)
{
    json_t *input = json_object();
    json_object_set_new(input, "role", json_string(role));
    json_object_set_new(input, "path", escaped(path));
    json_object_set_new(input, "shape", cli_counts(info->shape, info->rank));
    json_object_set_new(input, "dtype", json_string(info->descr));
    json_t *provenance = json_object_get(session->answer, "provenance");
    json_array_append_new(json_object_get(provenance, "inputs"), input);
}

void cli_answer_print(const cli_session *session)
{
    const cli_table *const *views = session->views ? session->views : session->command->views;
    if (session->common.json) {
        json_dumpf(session->answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        fputc('\n', stdout);
        return;
    }
    if (session->common.csv) {
        const cli_table *main_table = session->command->csv;
        if (main_table && cli_table_csv(main_table, session->answer, stdout))
            return;
        while (*views && !cli_table_csv(*views, session->answer, stdout))
            views++;
        return;
    }
    const bool colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    for (bool first = true; *views; views++) {
        if (!cli_table_present(*views, session->answer))
            continue;
        fputs(first ? "" : "\n", stdout);
        cli_table_print(*views, session->answer, stdout, colour);
        first = false;
    }
}

/* ---- cost ---- */

static const cli_column cost_columns[] = {
    {"flops", "operations", "flop", .format = CLI_SHORT,
     .definition =
         "2 per multiply-add of attention; other work counts as what attention would do in "
         "its time"},
    {"seconds", "time", "", .format = CLI_DURATION,
     .definition = "estimate for a machine that does nothing else, from short trials, or from the "
                   "operations at 75 % of the best multiply-add peak found now"},
    {"disk_bytes", "disk", "", .format = CLI_BINARY, .definition = "files made along the way"},
    {"input_bytes", "inputs", "", .format = CLI_BINARY},
    {"output_bytes", "results", "", .format = CLI_BINARY},
    {"work_bytes", "working memory", "", .format = CLI_BINARY},
    {"memory_bytes", "memory bound", "", .format = CLI_BINARY,
     .definition = "inputs, results and working memory together"},
    {0}};

const cli_table cli_cost_table = {
    .rows = "cost", .title = "Cost of this run", .columns = cost_columns};

static double memory_of(const cli_cost *cost)
{
    return cost->input_bytes + cost->output_bytes + cost->work_bytes;
}

es_status cli_cost_admit(cli_session *session, const cli_cost *cost, es_error *err)
{
    const double mib = 1048576.0, bound = memory_of(cost);
    const double limit = (double)session->common.max_memory;
    if (!session->common.quiet)
        fprintf(stderr, "esscher %s: memory bound %.1f MiB, %.3g operations\n",
                session->command->name, bound / mib, cost->flops);
    if (limit > 0.0 && bound > limit)
        return cli_fail(err, ES_E_LIMIT, NULL, "memory.limit",
                        "raise --max-memory, or ask for fewer prefixes, scales or outputs",
                        "the run may take %.1f MiB: %.1f of inputs, %.1f of results, %.1f to work "
                        "in; the limit is %.1f MiB",
                        bound / mib, cost->input_bytes / mib, cost->output_bytes / mib,
                        cost->work_bytes / mib, limit / mib);
    if (limit > 0.0) /* results are the program's own; the rest is counted by the library */
        session->budget.limit = (size_t)(limit - cost->output_bytes);
    return ES_OK;
}

/* Others may be using the machine right now. In one of many windows shorter than a time slice they
 * are not. */
static es_status best_peak(const cli_session *session, double *gflops, es_error *err)
{
    enum { WINDOWS = 24 };
    *gflops = 0.0;
    for (int i = 0; i < WINDOWS; i++) {
        double once;
        const es_status status =
            es_peak_measure(&session->exec, cli_precision(session), 0.001, &once, err);
        if (status != ES_OK)
            return status;
        *gflops = fmax(*gflops, once);
    }
    return ES_OK;
}

es_status cli_cost_answer(cli_session *session, const cli_cost *cost, es_error *err)
{
    double gflops;
    const es_status status = best_peak(session, &gflops, err);
    if (status != ES_OK)
        return status;
    const double seconds = cost->seconds > 0.0 ? cost->seconds : cost->flops / (0.75e9 * gflops);
    json_t *object = json_object();
    json_object_set_new(object, "flops", cli_real(cost->flops));
    json_object_set_new(object, "seconds", cli_real(seconds));
    json_object_set_new(object, "peak_gflops", cli_real(gflops));
    if (cost->disk_bytes > 0.0)
        json_object_set_new(object, "disk_bytes", cli_real(cost->disk_bytes));
    json_object_set_new(object, "input_bytes", cli_real(cost->input_bytes));
    json_object_set_new(object, "output_bytes", cli_real(cost->output_bytes));
    json_object_set_new(object, "work_bytes", cli_real(cost->work_bytes));
    json_object_set_new(object, "memory_bytes", cli_real(memory_of(cost)));
    json_object_set_new(session->answer, "cost", object);
    return ES_OK;
}
