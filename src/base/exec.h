/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h : what the library alone needs beside <esscher/exec.h>. */
#ifndef ES_BASE_EXEC_H
#define ES_BASE_EXEC_H

#include <esscher/exec.h>

/*! es_isa_best() : the fastest of those that are available, whatever ESSCHER_ISA says. */
es_isa es_isa_best(void);

#endif
