/* SPDX-License-Identifier: Apache-2.0 */
/* Who started this process, and which plugin fits: all from the environment, without any MPI. */
#include <esscher/executor.h>

#include "ranks/launcher.h"
#include "testing.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "PMI_SIZE",
                                        "PMI_RANK",
                                        "MPI_LOCALRANKID",
                                        "PMIX_RANK",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "ESSCHER_NO_MPI",
                                        "ESSCHER_MPI_PLUGIN"};

/* An environment of these pairs, and nothing else of the kind. */
static void set(const char *const *pairs)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    for (; pairs && *pairs; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
}
#define SET(...) set((const char *const[]){__VA_ARGS__, NULL})

static es_launcher_kind kind_seen(void)
{
    es_launcher_kind kind;
    es_launcher_find(&kind);
    return kind;
}

static void a_process_alone_is_rank_0_of_1(void **state)
{
    (void)state;
    set(NULL);
    assert_int_equal(es_launcher_seen().ranks, 1);
    assert_int_equal(es_launcher_seen().rank, 0);
    assert_null(es_launcher_seen().name);
    /* a batch script sees how many tasks the job may have, and is one process */
    SET("SLURM_NTASKS", "8", "SLURM_PROCID", "0");
    assert_int_equal(es_launcher_seen().ranks, 1);
    SET("OMPI_COMM_WORLD_SIZE", "1", "OMPI_COMM_WORLD_RANK", "0");
    assert_int_equal(es_launcher_seen().ranks, 1);
}

static void the_nearest_launcher_counts(void **state)
{
    (void)state;
    SET("OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
        "PMIX_RANK", "3", "SLURM_STEP_NUM_TASKS", "2", "SLURM_PROCID", "1");
    assert_int_equal(kind_seen(), ES_LAUNCHER_OPENMPI);
    assert_int_equal(es_launcher_seen().ranks, 4);
    assert_int_equal(es_launcher_seen().rank, 3);
    assert_int_equal(es_launcher_seen().local_rank, 1);
    SET("PMI_SIZE", "2", "PMI_RANK", "1");
    assert_int_equal(kind_seen(), ES_LAUNCHER_PMI);
    assert_int_equal(es_launcher_seen().local_rank, 1); /* not told: none is taken for the first */
    SET("SLURM_STEP_NUM_TASKS", "3", "SLURM_PROCID", "2", "PMIX_RANK", "2");
    assert_int_equal(kind_seen(), ES_LAUNCHER_PMIX);
    assert_int_equal(es_launcher_seen().rank, 2);
    setenv("ESSCHER_NO_MPI", "1", 1);
    assert_int_equal(es_launcher_seen().ranks, 1);
}

static void nonsense_is_nobody(void **state)
{
    (void)state;
    static const char *const sizes[] = {"", "-3", "x", "4x", "99999999999999999999", "0"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        SET("OMPI_COMM_WORLD_SIZE", sizes[i], "OMPI_COMM_WORLD_RANK", "0");
        assert_int_equal(es_launcher_seen().ranks, 1);
    }
    SET("PMI_SIZE", "2", "PMI_RANK", "2"); /* one of two, and not the first or the second */
    assert_int_equal(es_launcher_seen().ranks, 1);
}

/* MPI would end the process, and say something else. */
static void MP02_srun_without_a_way_is_refused(void **state)
{
    (void)state;
    es_fabric *fabric;
    SET("SLURM_STEP_NUM_TASKS", "3", "SLURM_PROCID", "0");
    assert_int_equal(es_fabric_load(NULL, &fabric, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "mpi.launcher");
    assert_non_null(strstr(err.hint, "--mpi=pmix"));
    assert_null(fabric);
}

static void a_plugin_that_is_none_is_named(void **state)
{
    (void)state;
    es_fabric *fabric;
    SET("ESSCHER_MPI_PLUGIN", "/nowhere/plugin.so");
    assert_int_equal(es_fabric_load(NULL, &fabric, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "mpi.plugin");
    assert_non_null(strstr(err.message, "/nowhere/plugin.so"));
    assert_non_null(strstr(err.hint, "libopenmpi-dev"));
    SET("ESSCHER_MPI_PLUGIN", "libm.so.6"); /* a library, but not ours */
    assert_int_equal(es_fabric_load(NULL, &fabric, &err), ES_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "libm.so.6 belongs to another version"));
}

TEST_FILE(launcher)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_alone_is_rank_0_of_1),
        cmocka_unit_test(the_nearest_launcher_counts),
        cmocka_unit_test(nonsense_is_nobody),
        cmocka_unit_test(MP02_srun_without_a_way_is_refused),
        cmocka_unit_test(a_plugin_that_is_none_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
