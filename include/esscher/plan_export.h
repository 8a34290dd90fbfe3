/* SPDX-License-Identifier: Apache-2.0 */
/* plan_export.h : what another engine can run of a plan of a cache (plan.h), as text for it.
 *
 *     es_plan_export_file(plan, "pebble.plan.json", "llama.cpp", "args.txt", false, &err);
 *
 * No engine can do all of a plan. A head that cannot run as planned keeps more keys, or a finer
 * number type, never less. The text begins with comments: what the engine cannot do, how many bytes
 * that costs, and which part of the predicted risk still holds.
 */
#ifndef ESSCHER_PLAN_EXPORT_H
#define ESSCHER_PLAN_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/plan.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names of all engines, for lists that are made when a program is compiled. */
#define ES_PLAN_ENGINES "kvpress", "transformers", "tensorrt-llm", "vllm", "llama.cpp"

/*! es_plan_export() : the text for an engine; `name` is what the plan is called in it, usually its
 *  file. *text is NUL-ended and has *size bytes; release it with es_plan_export_free().
 * Thread-safe.
 *  @return : ES_OK; ES_E_ARGUMENT (plan.engine: no such engine); ES_E_UNSUPPORTED (plan.mode) for
 *  plans of a mode that the engine does not have; rules of es_plan_load() that the plan breaks;
 *  ES_E_MEMORY.
 *  es_plan_export_file() : writes it to `path`, under a temporary name until it is on disk.
 *  @return : the same; ES_E_EXISTS unless `force`; ES_E_IO. */
ES_API es_status es_plan_export(const es_plan *plan, const char *name, const char *engine,
                                char **text, size_t *size, es_error *err);
ES_API void es_plan_export_free(char *text); /* NULL is fine */
ES_API es_status es_plan_export_file(const es_plan *plan, const char *name, const char *engine,
                                     const char *path, bool force, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
