/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h : what the library alone needs beside <esscher/executor.h>. */
#ifndef ES_BASE_EXECUTOR_H
#define ES_BASE_EXECUTOR_H

#include <esscher/executor.h>

/*! es_executor_threads : runs pieces on the threads of this process. */
extern const es_executor es_executor_threads;

/*! es_executor_of() : returns the executor of `exec`, by default the threads of this process. */
const es_executor *es_executor_of(const es_exec *exec);

/*! es_work_share() : share() of the executor that `exec` names. Every rank must call it, in the
 * same order as the other functions of its kind. */
es_status es_work_share(const es_exec *exec, void *bytes, size_t size, es_error *err);

#endif
