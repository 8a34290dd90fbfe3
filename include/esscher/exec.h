/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h : how work is executed: threads, memory, progress, messages.
 *
 * Nothing in here changes a result. An es_exec says how many threads may work, how much memory they
 * may take, and which function receives progress; results have the same bits for all of these
 * settings except `isa`, which chooses the kernels (their agreement is stated in attend.h). */
#ifndef ESSCHER_EXEC_H
#define ESSCHER_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ---- */

/* A ceiling on what the library may have allocated at one time. Shared between threads; zero limit
 * means no ceiling. `used` and `peak` are kept by the library, in bytes, with atomic operations. */
typedef struct es_mem_limit {
    size_t limit;
    size_t used, peak;
} es_mem_limit;

/* ---- progress ---- */

/* Called from time to time with work done and work in all, in the caller's unit, never from two
 * threads at once. Returning true asks the library to stop; it then returns ES_E_INTERRUPTED. */
typedef bool (*es_progress_fn)(void *user, double done, double total);

/* ---- instruction sets ---- */

typedef enum es_isa {
    ES_ISA_AUTO = 0, /* the best this CPU has, or what the environment variable ESSCHER_ISA names */
    ES_ISA_PORTABLE = 1,
    ES_ISA_AVX2 = 2,   /* AVX2 and FMA */
    ES_ISA_AVX512 = 3, /* AVX-512 F and DQ */
    ES_ISA_NEON = 4    /* of 64-bit Arm, all of which have it */
} es_isa;

/*! es_isa_name() : "portable", "avx2", "avx512", "neon"; "auto" for ES_ISA_AUTO. */
ES_API const char *es_isa_name(es_isa isa);

/*! es_isa_parse() : the reverse of es_isa_name(). @return : true if name is known. */
ES_API bool es_isa_parse(const char *name, es_isa *out);

/*! es_isa_available() : returns whether this CPU and operating system run it, and it was built in.
 */
ES_API bool es_isa_available(es_isa isa);

/*! es_isa_resolve() : resolves ES_ISA_AUTO to an instruction set: that of the environment variable
 *  ESSCHER_ISA, if set.
 *  @return : ES_OK; ES_E_ARGUMENT if ESSCHER_ISA has an unknown name; ES_E_UNSUPPORTED if this CPU
 *  does not have the instruction set. Never falls back silently. */
ES_API es_status es_isa_resolve(es_isa wanted, es_isa *out, es_error *err);

/* ---- all of it together ---- */

typedef struct es_executor es_executor; /* executor.h */

typedef struct es_exec {
    int threads;             /* 0: as many as the machine offers */
    es_isa isa;              /* kernels */
    es_mem_limit *budget;    /* NULL: no ceiling */
    es_progress_fn progress; /* NULL: silent */
    void *progress_user;
    const es_executor *executor; /* runs pieces of work; NULL: the threads of this process */
} es_exec;

/*! es_threads_available() : processors this process may run on (affinity and OMP_NUM_THREADS
 * honoured; nonsense in OMP_NUM_THREADS is ignored); at least 1. */
ES_API int es_threads_available(void);

/* ---- talk ---- */

typedef enum es_log_level {
    ES_LOG_ERROR = 0,
    ES_LOG_WARN = 1,
    ES_LOG_INFO = 2,
    ES_LOG_DEBUG = 3
} es_log_level;

typedef void (*es_log_fn)(void *user, es_log_level level, const char *message);

/*! es_log_set() : where the library's remarks go; NULL (the default) drops them. One sink per
 * process; set it before the first call, it is not synchronised with calls under way. */
ES_API void es_log_set(es_log_fn fn, void *user, es_log_level most);

#ifdef __cplusplus
}
#endif
#endif
