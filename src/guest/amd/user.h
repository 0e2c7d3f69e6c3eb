/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's memory, by an address that it gave the kernel: there may be nothing there, and the
 * kernel would say EFAULT where a plain access ends the program.
 */
#ifndef ALLOT_GUEST_AMD_USER_H
#define ALLOT_GUEST_AMD_USER_H

#include <stddef.h>
#include <stdint.h>

/*
 * For the thread that passes the address. If another thread unmaps the memory at this moment the
 * program may end, as it would if it copied there itself. 0 or -EFAULT; then some of it may be
 * copied. Keeps errno.
 */
int user_read(void *to, uint64_t from, size_t len);
int user_write(uint64_t to, const void *from, size_t len);

/*
 * For threads of ours, beside which the program may free the memory at any time: the kernel reads
 * it for us. 0 or -EFAULT, also where the kernel does not do that for this process. Keeps errno.
 */
int user_peek(void *to, uint64_t from, size_t len);

#endif
