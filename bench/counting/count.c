/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the calls into the driver that does nothing, in a build of it of its own: the compiler
 * calls this at the beginning of each of its functions.
 */
#include <stdint.h>

#define APART __attribute__((no_instrument_function))

__attribute__((visibility("default"))) APART uint64_t null_calls(void);
/* Hidden: the C library has functions of these names that do nothing. */
APART void __cyg_profile_func_enter(void *function, void *caller);
APART void __cyg_profile_func_exit(void *function, void *caller);

static uint64_t calls;

uint64_t null_calls(void)
{
	return calls;
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	calls++;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
}
