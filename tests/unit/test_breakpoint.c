/* SPDX-License-Identifier: Apache-2.0 */
/* A breakpoint that is set and never fires, and one that cannot be set. */
#include "cli/checkpoint/breakpoint.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/check.h"

static enum { AS_IS, NEVER_FIRES, CANNOT_BE_SET } machine;

long __real_ptrace(int request, ...);
long __wrap_ptrace(int request, ...);
long __wrap_ptrace(int request, ...)
{
	uintptr_t arg[3];
	va_list args;

	va_start(args, request);
	for (int i = 0; i < 3; i++)
		arg[i] = va_arg(args, uintptr_t);
	va_end(args);
	if (request == PTRACE_POKEUSER && machine == CANNOT_BE_SET)
		return -1;
	if (request == PTRACE_POKEUSER && machine != AS_IS)
		return 0;
	return __real_ptrace(request, arg[0], arg[1], arg[2]);
}

int main(void)
{
	breakpoint_fires(); /* whatever this machine is, it ends */
	machine = CANNOT_BE_SET;
	CHECK(breakpoint_fires());
	machine = NEVER_FIRES;
	CHECK(!breakpoint_fires());
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
	return 0;
}
