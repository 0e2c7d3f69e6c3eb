/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's memory, by an address that it gave the kernel: there may be nothing there, and the
 * kernel would say EFAULT where a plain access ends the program.
 */
#ifndef ALLOT_PRELOAD_USER_H
#define ALLOT_PRELOAD_USER_H

#include <stddef.h>
#include <stdint.h>

/* 0 or -EFAULT; then some of it may be copied. Keeps errno. */
int user_read(void *to, uint64_t from, size_t len);
int user_write(uint64_t to, const void *from, size_t len);

#endif
