/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.c : finds the instruction sets of this CPU and chooses the kernels: option, then
 * ESSCHER_ISA, then the best. */
#include <esscher/exec.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/exec.h"

static const char *const isa_names[] = {[ES_ISA_AUTO] = "auto",
                                        [ES_ISA_PORTABLE] = "portable",
                                        [ES_ISA_AVX2] = "avx2",
                                        [ES_ISA_AVX512] = "avx512",
                                        [ES_ISA_NEON] = "neon"};

enum { ISA_COUNT = sizeof isa_names / sizeof isa_names[0] };

const char *es_isa_name(es_isa isa) { return (unsigned)isa < ISA_COUNT ? isa_names[isa] : "?"; }

bool es_isa_parse(const char *name, es_isa *out)
{
    for (int i = 0; i < ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) == 0) {
            *out = (es_isa)i;
            return true;
        }
    }
    return false;
}

bool es_isa_available(es_isa isa)
{
    switch (isa) {
    case ES_ISA_AUTO:
    case ES_ISA_PORTABLE:
        return true;
#if defined(__x86_64__)
    case ES_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case ES_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#elif defined(__aarch64__)
    case ES_ISA_NEON:
        return true;
#endif
    default:
        return false;
    }
}

/* Wider ones have larger numbers, and no CPU has those of two families. */
es_isa es_isa_best(void)
{
    es_isa isa = ISA_COUNT - 1;
    while (!es_isa_available(isa))
        isa--;
    return isa;
}

es_status es_isa_resolve(es_isa wanted, es_isa *out, es_error *err)
{
    const char *from = "the caller";
    if (wanted == ES_ISA_AUTO) {
        const char *text = getenv("ESSCHER_ISA");
        if (text && *text) {
            from = "ESSCHER_ISA";
            if (!es_isa_parse(text, &wanted))
                return es_fail(err, ES_E_ARGUMENT, "isa.name",
                               "use auto, portable, avx2, avx512 or neon",
                               "ESSCHER_ISA is \"%.40s\"", text);
        }
    }
    if (wanted == ES_ISA_AUTO)
        wanted = es_isa_best();
    if (!es_isa_available(wanted))
        return es_fail(err, ES_E_UNSUPPORTED, "isa.available",
                       "use ESSCHER_ISA=portable, or leave it unset",
                       "%s asks for %s, which this CPU does not have", from, es_isa_name(wanted));
    *out = wanted;
    return ES_OK;
}
