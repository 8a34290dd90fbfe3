/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_plugin.h : what a library of messages, libesscher-mpi.so, shows to the one that loads it.
 */
#ifndef ES_RANKS_FABRIC_PLUGIN_H
#define ES_RANKS_FABRIC_PLUGIN_H

#include <esscher/executor.h>

/* Counts up whenever anything below, or es_fabric, changes. */
enum { ES_FABRIC_ABI = 1 };

typedef struct es_fabric_plugin {
    int abi;
    size_t fabric_size, error_size; /* of structs that cross the border */
    es_status (*open)(const es_fabric_opts *opts, es_fabric **out, es_error *err);
} es_fabric_plugin;

/* The one symbol that leaves a plugin: an es_fabric_plugin. */
#define ES_FABRIC_SYMBOL "es_fabric_mpi"

#endif
