/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_plugin.h : the interface between libesscher and the plugin libesscher-mpi.so. */
#ifndef ES_RANKS_FABRIC_PLUGIN_H
#define ES_RANKS_FABRIC_PLUGIN_H

#include <esscher/executor.h>

/* Increase it whenever es_fabric or anything below changes. */
enum { ES_FABRIC_ABI = 1 };

typedef struct es_fabric_plugin {
    int abi;
    size_t fabric_size, error_size; /* of the structs that both libraries use */
    es_status (*open)(const es_fabric_opts *opts, es_fabric **out, es_error *err);
} es_fabric_plugin;

/* The only symbol that a plugin exports: an es_fabric_plugin. */
#define ES_FABRIC_SYMBOL "es_fabric_mpi"

#endif
