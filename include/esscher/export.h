/* SPDX-License-Identifier: Apache-2.0 */
/* export.h : which symbols leave the shared library, and its version. */
#ifndef ESSCHER_EXPORT_H
#define ESSCHER_EXPORT_H

#define ES_VERSION_MAJOR  0
#define ES_VERSION_MINOR  3
#define ES_VERSION_PATCH  0
#define ES_VERSION_STRING "0.3.0"

#if defined(__GNUC__)
#define ES_API               __attribute__((visibility("default")))
#define ES_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ES_API
#define ES_PRINTF(fmt, args)
#endif

#endif
