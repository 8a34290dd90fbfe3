/* SPDX-License-Identifier: Apache-2.0 */
/* system.h : what operating systems do each in their own way. All that is written for one of them
 * is in system.c; elsewhere POSIX is enough. Linux is tested, macOS written from its manual. */
#ifndef ES_BASE_SYSTEM_H
#define ES_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*! es_system_processors() : returns how many processors this process may use; 0 if unknown. */
int es_system_processors(void);

/*! es_system_program() : writes the path of the running program to a buffer of `size` bytes; false
 *  if unknown. */
bool es_system_program(char *path, size_t size);

/*! es_system_environment() : NAME=VALUE of the process, as they are now, NULL at the end. */
char **es_system_environment(void);

/*! es_system_cpu() : the processor's own name, or "unknown". */
void es_system_cpu(char *name, size_t size);

/*! es_system_cpu_listed() : the same from a list as Linux has it in /proc/cpuinfo. Arm's have no
 * name there, but the numbers of a maker and a part. False if there is neither. */
bool es_system_cpu_listed(FILE *list, char *name, size_t size);

/*! es_system_mark() : the mark, in hexadecimal digits, that the linker left in the file which holds
 * the address `within`; "" if it left none, or one that does not fit. */
void es_system_mark(const void *within, char *mark, size_t size);

/*! es_system_volume() : returns the kind of file system of the open file `fd`, by its Linux
 *  number; 0 if unknown or not a network file system. */
uint32_t es_system_volume(int fd);

/*! es_system_flush() : waits until the data of `fd` are on the medium, with everything that is
 *  needed to read them again. @return : 0, or -1 and errno. */
int es_system_flush(int fd);

#endif
