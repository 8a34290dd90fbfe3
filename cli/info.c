/* esscher info : what this build and this machine are. */
#include <unistd.h>

#include <esscher/machine.h>

#include "answer.h"
#include "options.h"

static const cli_column columns[] = {{"version", "version", "", .format = CLI_TEXT},
                                     {"compiler", "compiler", "", .format = CLI_TEXT},
                                     {"flags", "build", "", .format = CLI_TEXT},
                                     {"cpu", "CPU", "", .format = CLI_TEXT},
                                     {"kernels_available", "kernels here", "", .format = CLI_TEXT},
                                     {"kernels", "kernels chosen", "", .format = CLI_TEXT},
                                     {"threads", "threads", "", .format = CLI_COUNT},
                                     {"openmp", "OpenMP", "", .format = CLI_TEXT},
                                     {"blas", "BLAS", "", .format = CLI_TEXT},
                                     {"memory_bytes", "memory", "", .format = CLI_BINARY},
                                     {"precision_f32", "f32 kernels", "", .format = CLI_TEXT},
                                     {"precision_f64", "f64 kernels", "", .format = CLI_TEXT},
                                     {0}};

static const cli_table table = {.rows = "info", .title = "esscher", .columns = columns};
static const cli_table *const views[] = {&table, NULL};

static json_t *available_kernels(void)
{
    json_t *text = json_string("");
    for (const char *const *name = cli_isa_choices; *name; name++) {
        es_isa isa;
        if (!es_isa_parse(*name, &isa) || !es_isa_available(isa))
            continue;
        json_t *longer = json_sprintf("%s%s%s", json_string_value(text),
                                      *json_string_value(text) ? " " : "", *name);
        json_decref(text);
        text = longer;
    }
    return text;
}

/* Memory of the machine, or null where the system does not tell. */
static json_t *machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? json_integer((json_int_t)pages * size) : json_null();
}

static es_status run(cli_session *session, void *options, es_error *err)
{
    (void)options;
    (void)err;
    const es_build build = es_build_info();
    json_t *info = json_object();
    json_object_set_new(info, "version", json_string(es_version()));
    json_object_set_new(info, "compiler", json_string(build.compiler));
    json_object_set_new(info, "flags", json_string(build.flags));
    json_object_set_new(info, "cpu", json_string(es_cpu_name()));
    json_object_set_new(info, "kernels_available", available_kernels());
    json_object_set_new(info, "kernels", json_string(es_isa_name(session->exec.isa)));
    json_object_set_new(info, "threads", json_integer(session->exec.threads));
    json_object_set_new(info, "openmp", json_boolean(build.openmp));
    json_object_set_new(info, "blas", json_string(build.blas));
    json_object_set_new(info, "memory_bytes", machine_memory());
    json_object_set_new(info, "precision_f32",
                        json_string("relative error of an output below 1e-6 while scores stay "
                                    "within 10 nats; 2e-6 at 30, 4e-6 at 130"));
    json_object_set_new(info, "precision_f64",
                        json_string("relative error of an output below 1e-12"));
    json_object_set_new(session->answer, "info", info);
    return ES_OK;
}

static const char *const examples[] = {"esscher info", "esscher info --json",
                                       "ESSCHER_ISA=portable esscher info", NULL};

const cli_command cli_info = {
    .name = "info",
    .summary = "version, CPU, kernels, threads and libraries of this build",
    .usage = "[options]",
    .about = "Says how the program was built, what the machine offers and which kernels would be "
             "used, so that a result or a bug report can name them.",
    .examples = examples,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA,
    .views = views,
    .run = run,
};
