/* SPDX-License-Identifier: Apache-2.0 */
/* esscher info : what this build and this machine are. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <esscher/attend.h>
#include <esscher/machine.h>

#include "options.h"

/* A number that a header defines, as it is written there. */
#define WRITTEN(number) #number
#define BELOW(number)   "below " WRITTEN(number)
#define F32_ACCURACY                                                                               \
    "relative error of an output " BELOW(                                                          \
        ES_ATTEND_F32_ERROR) " while scores stay within 10 "                                       \
                             "nats, " BELOW(ES_ATTEND_F32_ERROR_130) " within 130 nats"
#define F64_ACCURACY "relative error of an output " BELOW(ES_ATTEND_F64_ERROR)

static const es_column columns[] = {{"version", "version", "", ES_FORMAT_TEXT},
                                    {"compiler", "compiler", "", ES_FORMAT_TEXT},
                                    {"flags", "build", "", ES_FORMAT_TEXT},
                                    {"cpu", "CPU", "", ES_FORMAT_TEXT},
                                    {"kernels_available", "kernels here", "", ES_FORMAT_TEXT},
                                    {"kernels", "kernels chosen", "", ES_FORMAT_TEXT},
                                    {"threads", "threads", "", ES_FORMAT_COUNT},
                                    {"openmp", "OpenMP", "", ES_FORMAT_FLAG},
                                    {"blas", "BLAS", "", ES_FORMAT_TEXT},
                                    {"memory_bytes", "memory", "", ES_FORMAT_BYTES},
                                    {"precision_f32", "f32 kernels", "", ES_FORMAT_TEXT},
                                    {"precision_f64", "f64 kernels", "", ES_FORMAT_TEXT},
                                    {0}};
static const es_table_view views[] = {{"esscher"}, {0}};
static const es_table_spec table = {"info", columns, views, .record = true};

/* Lists the instruction sets that this CPU can run. */
static const char *available_kernels(char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *const *name = cli_isa_choices; *name; name++) {
        es_isa isa;
        if (es_isa_parse(*name, &isa) && es_isa_available(isa))
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", *name);
    }
    return out;
}

/* OpenBLAS of a distribution may be older than the CPU, and then takes it for one of 2004: matrix
 * products, and so models, are several times slower than they could be. */
static void report_blas(es_answer *answer, const char *blas)
{
    if (strstr(blas, "Prescott") && es_isa_available(ES_ISA_AVX2))
        es_answer_add_finding(
            answer,
            "Caution: OpenBLAS does not know this CPU and multiplies matrices as on one "
            "of 2004; set OPENBLAS_CORETYPE=%s before calling esscher.",
            es_isa_available(ES_ISA_AVX512) ? "SkylakeX" : "Haswell");
}

/* Fills the table of facts about build and machine. */
static es_status run(cli_session *session, void *options, es_error *err)
{
    (void)options;
    const es_build build = es_build_info();
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    char kernels[128];
    es_table *t = es_answer_table(cli_result(session), &table);
    es_table_row(t);
    es_table_text(t, 0, "version", es_version());
    es_table_text(t, 0, "compiler", build.compiler);
    es_table_text(t, 0, "flags", build.flags);
    es_table_text(t, 0, "cpu", es_cpu_name());
    es_table_text(t, 0, "kernels_available", available_kernels(kernels, sizeof kernels));
    es_table_text(t, 0, "kernels", es_isa_name(session->exec.isa));
    es_table_count(t, 0, "threads", session->exec.threads);
    es_table_real(t, 0, "openmp", build.openmp);
    es_table_text(t, 0, "blas", build.blas);
    report_blas(cli_result(session), build.blas);
    if (pages > 0 && size > 0) /* where the system provides it */
        es_table_real(t, 0, "memory_bytes", (double)pages * (double)size);
    es_table_text(t, 0, "precision_f32", F32_ACCURACY);
    es_table_text(t, 0, "precision_f64", F64_ACCURACY);
    return es_answer_status(session->result, err);
}

static const char *const examples[] = {"esscher info", "esscher info --json",
                                       "ESSCHER_ISA=portable esscher info", NULL};

const cli_command cli_info = {
    .name = "info",
    .summary = "version, CPU, kernels, threads and libraries of this build",
    .usage = "[options]",
    .about = "Prints how the program was built, what the machine offers and which kernels it uses. "
             "Quote it in a bug report or next to a result.",
    .examples = examples,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_ISA,
    .run = run,
};
