/* SPDX-License-Identifier: Apache-2.0 */
/* node.h : a program for Node.js, run as a child process until it has answered. */
#ifndef ES_REPORT_NODE_H
#define ES_REPORT_NODE_H

#include <stddef.h>

#include <esscher/exec.h>
#include <esscher/status.h>

#include "report/assets.h"

/* What it is given and what it says: files without names (store/file.h), whose descriptors are the
 * caller's. The program finds `data` as its descriptor 3. */
typedef struct es_node_files {
    int data, answer;
} es_node_files;

/*! es_node_run() : `node`, as it is found on PATH, runs the script, without a shell and without the
 *  environment variables NODE_... It is waited for, and killed and reaped when `progress` (may
 *  be NULL), asked about every 20 ms, wants to stop: no child is left behind.
 *  @return : ES_OK; ES_E_UNSUPPORTED (report.node) if there is no node, or it failed, with the
 * first line it said about that; ES_E_INTERRUPTED; ES_E_IO. */
es_status es_node_run(const es_asset *script, const es_node_files *files, es_progress_fn progress,
                      void *user, es_error *err);

#endif
