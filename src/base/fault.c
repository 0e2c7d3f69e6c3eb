/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/parse.h"

static const char *const names[] = {
#define X(name) #name,
	FAULT_POINTS(X)
#undef X
};

const char *fault_name(enum fault_point point)
{
	return (unsigned int)point < FAULT_POINT_N ? names[point] : "?";
}

#ifdef ALLOT_FAULT_POINTS

_Atomic int fault_state = -1;
static _Atomic uint64_t passages_left;
static _Atomic int fault_signal;

int fault_arm(const char *spec)
{
	static const char stop[] = "/STOP";
	uint64_t count = 1;
	char point[64];
	char *colon;
	size_t len;
	bool stops;

	if (!spec || !*spec) {
		atomic_store_explicit(&fault_state, 0, memory_order_release);
		return 0;
	}
	len = strlen(spec);
	stops = len >= strlen(stop) && !strcmp(spec + len - strlen(stop), stop);
	len -= stops ? strlen(stop) : 0;
	if (len >= sizeof(point))
		return -EINVAL;
	memcpy(point, spec, len);
	point[len] = '\0';
	colon = strchr(point, ':');
	if (colon && parse_u64(colon + 1, 1, UINT32_MAX, &count) < 0)
		return -EINVAL;
	if (colon)
		*colon = '\0';
	for (int i = 0; i < FAULT_POINT_N; i++) {
		if (strcmp(names[i], point))
			continue;
		atomic_store_explicit(&fault_signal, stops ? SIGSTOP : SIGKILL,
				      memory_order_relaxed);
		atomic_store_explicit(&passages_left, count, memory_order_relaxed);
		/* Pairs with the acquire in fault_pass, which then sees the action, too. */
		atomic_store_explicit(&fault_state, i + 1, memory_order_release);
		return 0;
	}
	return -EINVAL;
}

void fault_pass(enum fault_point point)
{
	int state = atomic_load_explicit(&fault_state, memory_order_acquire);

	if (state < 0) {
		/* A name this build does not know is another part's business: nothing is armed. */
		if (fault_arm(getenv("ALLOT_FAULT")) < 0)
			fault_arm(NULL);
		state = atomic_load_explicit(&fault_state, memory_order_acquire);
	}
	if (state != (int)point + 1)
		return;
	if (atomic_fetch_sub_explicit(&passages_left, 1, memory_order_relaxed) == 1)
		/* This thread stops here, and the others soon. */
		raise(atomic_load_explicit(&fault_signal, memory_order_relaxed));
}

#else

int fault_arm(const char *spec)
{
	return spec && *spec ? -ENOSYS : 0;
}

#endif
