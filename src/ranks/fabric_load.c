/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_load.c : loads the MPI plugin when it is needed. The program itself must start on
 * machines without any MPI. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ranks/fabric_plugin.h"
#include "ranks/launcher.h"

#ifdef ES_NO_PLUGINS /* a static program: there is nothing that could load a library */
static es_status find_plugin(es_launcher_kind kind, const es_fabric_plugin **out, es_error *err)
{
    (void)kind;
    *out = NULL;
    return es_fail(err, ES_E_UNSUPPORTED, "mpi.plugin",
                   "use a program that was built without ESSCHER_STATIC, or --no-mpi",
                   "this program is static and cannot load an MPI");
}
#else
#define OPENMPI "libesscher-mpi-openmpi.so"
#define MPICH   "libesscher-mpi-mpich.so"
#define PLAIN   "libesscher-mpi.so" /* of the MPI that was the default where it was built */

/* By launcher, in the order in which they are tried. */
static const char *const files[][3] = {
    [ES_LAUNCHER_NONE] = {PLAIN, OPENMPI, MPICH},
    [ES_LAUNCHER_OPENMPI] = {OPENMPI, PLAIN},
    [ES_LAUNCHER_PMI] = {MPICH, PLAIN},
    [ES_LAUNCHER_PMIX] = {OPENMPI, MPICH, PLAIN},
    [ES_LAUNCHER_SLURM] = {PLAIN, OPENMPI, MPICH},
};

/* Where plugins are searched, and the reason of the last failure. */
typedef struct search {
    char folder[1024]; /* directory of this library, with a slash; "": unknown */
    const char *named; /* value of ESSCHER_MPI_PLUGIN; NULL: not set */
    char why[200];     /* the last error other than a missing file */
} search;

/* Finds the directory of this library, where the plugins are installed. */
static void find_folder(search *s)
{
    static const char here = 0;
    Dl_info info;
    s->folder[0] = '\0';
    if (dladdr(&here, &info) == 0 || !info.dli_fname || strlen(info.dli_fname) >= sizeof s->folder)
        return;
    strcpy(s->folder, info.dli_fname);
    char *slash = strrchr(s->folder, '/');
    *(slash ? slash + 1 : s->folder) = '\0';
}

/* Loads a plugin. Its symbols are global, because MPI libraries load modules that need them, and
 * it is never unloaded, because MPI libraries crash then. */
static void *open_file(search *s, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    const char *why = library ? NULL : dlerror();
    /* the error of a plugin without its MPI is more useful than that of a missing plugin */
    const bool absent =
        why && strstr(why, path) && (strstr(why, "No such file") || strstr(why, "Not a directory"));
    if (why && (s->named || !absent))
        snprintf(s->why, sizeof s->why, "%s", why);
    return library;
}

/* Loads a plugin from the directory of this library (build tree), from its subdirectory esscher
 * (installed), or from where the system looks. */
static void *open_plugin(search *s, const char *file)
{
    static const char *const below[] = {"", "esscher/"};
    void *library = NULL;
    for (int i = 0; i < 2 && !library && s->folder[0]; i++) {
        char path[sizeof s->folder + 64];
        snprintf(path, sizeof path, "%s%s%s", s->folder, below[i], file);
        library = open_file(s, path);
    }
    return library ? library : open_file(s, file);
}

/* Loads the plugin that ESSCHER_MPI_PLUGIN names, or the first that fits the launcher. */
static void *open_any(search *s, es_launcher_kind kind)
{
    if (s->named)
        return open_file(s, s->named);
    void *library = NULL;
    for (int i = 0; i < 3 && files[kind][i] && !library; i++)
        library = open_plugin(s, files[kind][i]);
    return library;
}

static es_status find_plugin(es_launcher_kind kind, const es_fabric_plugin **out, es_error *err)
{
    search s = {.named = getenv("ESSCHER_MPI_PLUGIN")};
    s.named = s.named && *s.named ? s.named : NULL;
    find_folder(&s);
    void *library = open_any(&s, kind);
    if (!library)
        return es_fail(
            err, ES_E_UNSUPPORTED, "mpi.plugin",
            s.why[0] ? "install the MPI that it was built with, or build Esscher with one: "
                       "Debian packages libopenmpi-dev, libmpich-dev"
                     : "build Esscher where there is an MPI: Debian packages libopenmpi-dev, "
                       "libmpich-dev",
            "cannot load %s: %.160s%s", s.named ? "the file of ESSCHER_MPI_PLUGIN" : files[kind][0],
            s.why[0] ? s.why : "it is neither where the system looks for libraries nor in ",
            s.why[0] ? "" : s.folder);
    const es_fabric_plugin *plugin = dlsym(library, ES_FABRIC_SYMBOL);
    if (!plugin || plugin->abi != ES_FABRIC_ABI || plugin->fabric_size != sizeof(es_fabric) ||
        plugin->error_size != sizeof(es_error))
        return es_fail(err, ES_E_UNSUPPORTED, "mpi.plugin",
                       "use the plugin that was installed along with this library",
                       "%.200s belongs to another version of Esscher",
                       s.named ? s.named : files[kind][0]);
    *out = plugin;
    return ES_OK;
}
#endif

/* Fails if MPI sees fewer processes than the launcher started: all of them would do the same work
 * and write the same files. */
static es_status check_count(const es_launcher *by, const es_fabric_opts *opts,
                             const es_fabric *fabric, es_error *err)
{
    if (by->ranks != fabric->ranks && by->name)
        return es_fail(err, ES_E_ARGUMENT, "mpi.launcher",
                       "start it with the mpirun of the MPI that is named here, or with srun "
                       "--mpi=pmix; --no-mpi: each process for itself",
                       "%s started %d processes, but the loaded %s sees %d", by->name, by->ranks,
                       fabric->name, fabric->ranks);
    if (opts->expect && opts->expect != fabric->ranks)
        return es_fail(err, ES_E_ARGUMENT, "mpi.ranks",
                       "set the number of processes in the launcher, e.g. mpirun -n",
                       "expected %d ranks, but %s sees %d", opts->expect, fabric->name,
                       fabric->ranks);
    return ES_OK;
}

es_status es_fabric_load(const es_fabric_opts *opts, es_fabric **out, es_error *err)
{
    static const es_fabric_opts usual = {.timeout = ES_FABRIC_TIMEOUT};
    opts = opts ? opts : &usual;
    *out = NULL;
    es_launcher_kind kind;
    const es_launcher by = es_launcher_find(&kind);
    if (kind == ES_LAUNCHER_SLURM && by.ranks > 1) /* MPI would end the process */
        return es_fail(err, ES_E_ARGUMENT, "mpi.launcher",
                       "use srun --mpi=pmix (see srun --mpi=list) or mpirun; "
                       "--no-mpi: each process for itself",
                       "srun started %d processes without a way to connect them", by.ranks);
    const es_fabric_plugin *plugin;
    ES_TRY(find_plugin(kind, &plugin, err));
    es_fabric *fabric;
    ES_TRY(plugin->open(opts, &fabric, err));
    const es_status status = check_count(&by, opts, fabric, err);
    if (status != ES_OK) {
        fabric->close(fabric, false);
        return status;
    }
    *out = fabric;
    return ES_OK;
}
