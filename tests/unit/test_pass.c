/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each hook of a kind that touches device memory waits while the gate is shut, and no other does: a
 * thread that synchronizes must not keep work from ending.
 */
#include "guest/core/pass.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "guest/core/hooks.h"
#include "guest/core/object.h"
#include "guest/core/rooms.h"
#include "guest/movable/movable.h"
#include "tests/check.h"

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static struct guest guest = {.mode = GUEST_LIMITED, .swappable = true};
static struct guest_page page;
static const uint32_t gate = POLICY_GATE_SWAPPABLE;
static unsigned int waits;

/* Who would sleep at the gate is let in at once, and noted. */
long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_futex && a[0] == (long)&guest.pass.shut &&
	    (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
		CHECK_EQ(a[2], PASS_SHUT);
		waits++;
		atomic_store(&guest.pass.shut, PASS_OPEN);
		return 0;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void *absent(void *handle, const char *name)
{
	return NULL;
}

/* More than any of them has. What is asked of the driver fails. */
typedef CUresult any_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			uintptr_t, uintptr_t);

static void check_row(const char *name, enum cuda_kind kind, void *hook, bool touches)
{
	any_fn *call;

	if (kind == CUDA_KIND_LOOKUP || kind == CUDA_KIND_INIT)
		return;
	memcpy(&call, &hook, sizeof(call));
	waits = 0;
	atomic_store(&guest.pass.shut, PASS_SHUT);
	call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	if (waits != touches) {
		fprintf(stderr, "%s waited %u times\n", name, waits);
		exit(1);
	}
	CHECK_EQ(atomic_load(&guest.pass.inside), 0);
}

static void check_calls(void)
{
	atomic_store(&guest.pass.shut, PASS_OPEN);
	CHECK(pass_enter(&guest) == &guest);
	CHECK(!pass_is_empty(&guest));
	pass_shut(&guest);
	CHECK(pass_try(&guest) == &guest); /* a call within a call */
	pass_end(&guest);
	CHECK(!pass_is_empty(&guest));
	pass_end(&guest);
	CHECK(pass_is_empty(&guest));
	CHECK(!pass_try(&guest));
	CHECK(pass_is_empty(&guest));
	CHECK(pass_confirm(&guest));
	CHECK(pass_confirm(&guest));
	pass_open(&guest);
	CHECK(!pass_confirm(&guest));
	guest.swappable = false;
	CHECK(!pass_enter(&guest));
	guest.swappable = true;
}

int main(void)
{
	static char slot[64];

	guest_rooms.hang(&guest, calloc(1, guest_rooms.bytes));
	CHECK_EQ(object_table_new(&guest.objects), 0);
	guest.gate = &gate;
	movable_choose_allocator(&guest);
	atomic_store(&guest.slot, (struct slot *)slot);
	atomic_store(&page.guest, &guest);
	atomic_store(&guest_page, &page);
	cuda_driver_bind(NULL, absent);
	check_calls();
#define CUDA_HOOK(name, kind, params, args) \
	check_row(#name, CUDA_KIND_##kind, hook_cuda[CUDA_FN_##name], CUDA_TOUCHES_##name);
#include "nvidia/cuda_api.def"
	return 0;
}
