/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program, at addresses that it gave: there may be none. */
#ifndef ALLOT_SIM_KFD_USER_H
#define ALLOT_SIM_KFD_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -EFAULT where there is no memory; part of it may have been copied. */
int user_copy_in(void *to, uint64_t from, size_t len);
int user_copy_out(uint64_t to, const void *from, size_t len);

/* True if all of it is mapped in the program. */
bool user_is_mapped(uint64_t at, uint64_t size);

#endif
