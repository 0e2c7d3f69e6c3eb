/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fake_driver.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "guest/account/figure.h"
#include "guest/launch/attach.h"
#include "tests/unit/tenant_fixture.h"

#define EVENTS 16384

struct CUevent_st {
	bool live, recorded;
	CUcontext context;
	uint64_t done_ns;
};

struct fake fake;
void (*fake_futex_wait)(void);
_Thread_local unsigned int guest_depth;

static struct CUevent_st events[EVENTS];
static struct {
	uint64_t done_ns;
	bool captures;
} streams[FAKE_STREAMS];
static unsigned int capturing, own_streams;

/* --- The clock ----------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ret);
	ret->tv_sec = (time_t)(fake.now_ns / 1000000000);
	ret->tv_nsec = (long)(fake.now_ns % 1000000000);
	return 0;
}

/* Other calls than that have six arguments here, which are words, as the kernel takes them. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	const struct timespec *nap;
	long arg[6];
	va_list args;

	va_start(args, number);
	if (number == SYS_nanosleep) { /* nap_ns */
		nap = va_arg(args, const struct timespec *);
		va_end(args);
		fake.slept++;
		fake_pass((uint64_t)nap->tv_nsec);
		return 0;
	}
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex && fake_futex_wait && (arg[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
		fake_futex_wait();
		return 0;
	}
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

void fake_pass(uint64_t ns)
{
	fake.now_ns += ns;
}

/* --- Streams ------------------------------------------------------------------------------- */

static unsigned int index_of(CUstream stream)
{
	uintptr_t i = (uintptr_t)stream;

	CHECK(i > 0 && i < FAKE_STREAMS);
	return (unsigned int)i;
}

static void note(struct fake_log what)
{
	CHECK(fake.logged < FAKE_LOG);
	fake.log[fake.logged++] = what;
}

uint64_t fake_done_ns(CUstream stream)
{
	uint64_t done = streams[index_of(stream)].done_ns;

	return done > fake.now_ns ? done : fake.now_ns;
}

void fake_launch(CUstream stream, uint64_t ns)
{
	streams[index_of(stream)].done_ns = fake_done_ns(stream) + ns;
	note((struct fake_log){.what = FAKE_LAUNCH, .stream = stream});
}

void fake_capture(CUstream stream, bool captures)
{
	capturing = capturing + captures - streams[index_of(stream)].captures;
	streams[index_of(stream)].captures = captures;
}

unsigned int fake_count(enum fake_what what, CUstream stream, unsigned int since)
{
	unsigned int n = 0;

	for (; since < fake.logged; since++)
		n += fake.log[since].what == what &&
		     (!stream || fake.log[since].stream == stream);
	return n;
}

/* Of calls that may endanger a capture: forbidden while one is under way, unless one says so. */
static bool spoils(void)
{
	if (!capturing || fake.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	fake.spoiled++;
	return true;
}

static CUresult exchange_mode(CUstreamCaptureMode *other)
{
	CUstreamCaptureMode old = fake.mode;

	fake.mode = *other;
	*other = old;
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *ret)
{
	*ret = streams[index_of(stream)].captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE
						  : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *ret, unsigned int flags)
{
	if (fake.stream_error)
		return fake.stream_error;
	*ret = (CUstream)(uintptr_t)(FAKE_STREAMS - 1);
	own_streams++;
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	CHECK(own_streams--);
	return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
	if (streams[index_of(stream)].captures)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return fake_done_ns(stream) > fake.now_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags)
{
	if (fake.wait_error)
		return fake.wait_error;
	CHECK_EQ(flags, CU_STREAM_WAIT_VALUE_GEQ);
	note((struct fake_log){.what = FAKE_WAIT, .stream = stream, .at = at, .value = value});
	streams[index_of(stream)].done_ns = fake_done_ns(stream) + fake.wait_ns;
	return CUDA_SUCCESS;
}

/* --- Events -------------------------------------------------------------------------------- */

static CUresult event_create(CUevent *ret, unsigned int flags)
{
	CHECK_EQ(flags, CU_EVENT_DEFAULT);
	if (fake.create_error)
		return fake.create_error;
	for (CUevent event = events; event < events + EVENTS; event++) {
		if (event->live)
			continue;
		*event = (struct CUevent_st){.live = true, .context = fake.context};
		*ret = event;
		fake.events++;
		return CUDA_SUCCESS;
	}
	CHECK(false);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_destroy(CUevent event)
{
	CHECK(event && event->live);
	event->live = false;
	fake.events--;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	CHECK(event && event->live);
	CHECK(!streams[index_of(stream)].captures);
	fake_pass(fake.record_ns);
	if (fake.record_error)
		return fake.record_error;
	if (event->context != fake.context)
		return CUDA_ERROR_INVALID_HANDLE;
	event->recorded = true;
	event->done_ns = fake_done_ns(stream);
	if (stream == (CUstream)(uintptr_t)(FAKE_STREAMS - 1))
		return CUDA_SUCCESS; /* the guest's own */
	note((struct fake_log){.what = FAKE_RECORD, .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	CHECK(event && event->live && event->recorded);
	CHECK(event->context == fake.context);
	if (spoils())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (fake.query_error)
		return fake.query_error;
	return event->done_ns > fake.now_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult event_synchronize(CUevent event)
{
	CHECK(event && event->live && event->recorded);
	if (spoils())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (event->done_ns > fake.now_ns)
		fake.now_ns = event->done_ns;
	fake_pass(fake.sync_ns[fake.syncs++ % 3]);
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ret_ms, CUevent from, CUevent to)
{
	CHECK(from && to && from->live && to->live && from->recorded && to->recorded);
	CHECK(from->context == fake.context && to->context == fake.context);
	CHECK(from->done_ns <= fake.now_ns && to->done_ns <= fake.now_ns);
	if (fake.elapsed_error)
		return fake.elapsed_error;
	*ret_ms = (float)((double)(int64_t)(to->done_ns - from->done_ns) / 1e6);
	return CUDA_SUCCESS;
}

/* --- Contexts, memory ---------------------------------------------------------------------- */

static CUcontext below; /* one deep */

static CUresult context_current(CUcontext *ret)
{
	*ret = fake.context;
	return CUDA_SUCCESS;
}

static CUresult context_push(CUcontext context)
{
	CHECK(!below);
	below = fake.context;
	fake.context = context;
	return CUDA_SUCCESS;
}

static CUresult context_pop(CUcontext *ret)
{
	*ret = fake.context;
	fake.context = below;
	below = NULL;
	return CUDA_SUCCESS;
}

void fake_context_end(CUcontext context)
{
	for (CUevent event = events; event < events + EVENTS; event++) {
		if (!event->live || event->context != context)
			continue;
		if (event->recorded && event->done_ns > fake.now_ns)
			fake.now_ns = event->done_ns;
		event->live = false;
		fake.events--;
	}
}

/* A word goes with its context, and is not freed then. */
static CUresult host_alloc(void **ret, size_t bytes, unsigned int flags)
{
	static uint32_t words[32768];
	static unsigned int given;

	CHECK_EQ(flags, CU_MEMHOSTALLOC_DEVICEMAP);
	CHECK(given + bytes / sizeof(words[0]) <= 32768);
	if (spoils())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (fake.host_error)
		return fake.host_error;
	*ret = fake.host = &words[given];
	given += (unsigned int)(bytes / sizeof(words[0]));
	fake.hosts++;
	return CUDA_SUCCESS;
}

/* The device sees it elsewhere. */
static CUresult host_pointer(CUdeviceptr *ret, void *p, unsigned int flags)
{
	if (fake.pointer_error)
		return fake.pointer_error;
	*ret = (CUdeviceptr)(uintptr_t)p + 0x1000000000;
	return CUDA_SUCCESS;
}

static CUresult host_free(void *p)
{
	CHECK(p && fake.hosts--);
	return CUDA_SUCCESS;
}

static const struct {
	const char *name;
	void *address;
} exported[] = {
	{"cuCtxGetCurrent", (void *)context_current},
	{"cuCtxPushCurrent_v2", (void *)context_push},
	{"cuCtxPopCurrent_v2", (void *)context_pop},
	{"cuEventCreate", (void *)event_create},
	{"cuEventDestroy_v2", (void *)event_destroy},
	{"cuEventElapsedTime", (void *)event_elapsed},
	{"cuEventQuery", (void *)event_query},
	{"cuEventRecord", (void *)event_record},
	{"cuEventSynchronize", (void *)event_synchronize},
	{"cuMemFreeHost", (void *)host_free},
	{"cuMemHostAlloc", (void *)host_alloc},
	{"cuMemHostGetDevicePointer_v2", (void *)host_pointer},
	{"cuStreamCreate", (void *)stream_create},
	{"cuStreamDestroy_v2", (void *)stream_destroy},
	{"cuStreamIsCapturing", (void *)is_capturing},
	{"cuStreamQuery", (void *)stream_query},
	{"cuStreamWaitValue32_v2", (void *)stream_wait},
	{"cuThreadExchangeStreamCaptureMode", (void *)exchange_mode},
};

static void *symbol(void *without, const char *name)
{
	for (size_t i = 0; i < sizeof(exported) / sizeof(exported[0]); i++)
		if (!strcmp(exported[i].name, name) && (!without || strcmp(without, name)))
			return exported[i].address;
	return NULL;
}

void fake_open(bool stream_waits)
{
	static char waits[] = "cuStreamWaitValue32_v2";

	cuda_driver_bind(stream_waits ? NULL : waits, symbol);
	fake.now_ns = UINT64_C(1000) * 1000000000;
	fake.context = FAKE_CONTEXT(0);
}

/* --- The guest ----------------------------------------------------------------------------- */

struct guest_device *guest_current_device(struct guest *guest)
{
	return fake.context ? &guest->device[0] : NULL;
}

uint64_t guest_generation(const struct guest *guest)
{
	return policy_generation(guest->policy_map) + 1;
}

/* Of modules that a test links with what it tests, and that nothing here calls. */
static struct guest_page page;
_Atomic(struct guest_page *) guest_page = &page;

int figure_utilisation(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	return -1;
}

void fake_guest(struct guest *guest, uint32_t share_permille)
{
	static const uint8_t other[16] = "device-1 (uuid)";
	static const uint32_t gate = POLICY_GATE_METERED;
	struct policy policy = fixture_policy(GIB);
	struct slot *slot;

	policy.compute = POLICY_COMPUTE_CAP;
	policy.device[0].share_permille = share_permille;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "tenant", &policy, guest->dir,
			       sizeof(guest->dir)), 0);
	slot = fixture_join(guest->dir);
	guest->mode = GUEST_LIMITED;
	guest->ledger = slot_ledger(slot);
	CHECK_EQ(ledger_device(guest->ledger, other, 24 * GIB), 1);
	CHECK_EQ(policy_open(guest->dir, &guest->policy_map), 0);
	guest->policy = policy;
	guest->gate = &gate;
	guest->ndevices = 1;
	memcpy(guest->device[0].uuid, fixture_uuid, sizeof(fixture_uuid));
	atomic_store(&guest->slot, slot);
}

struct turn *fake_guest_turn(const struct guest *guest)
{
	static struct turn *turn;

	if (!turn)
		CHECK_EQ(turn_open(guest->dir, &turn), 0);
	return turn;
}

struct launch_device *fake_launch_device(struct guest *guest)
{
	static struct launch_device *device, *fresh;
	CUcontext context;

	if (device) {
		memcpy(device, fresh, sizeof(*device));
		return device;
	}
	CHECK_EQ(attach_device(guest, &context, &device), CUDA_SUCCESS);
	limits_refresh(&state_get(guest)->limits, guest);
	fresh = malloc(sizeof(*fresh));
	CHECK(device && fresh);
	memcpy(fresh, device, sizeof(*fresh));
	return device;
}

void fake_guest_holds(struct guest *guest, int device, bool holds)
{
	struct slot *slot = atomic_load(&guest->slot);

	if (holds)
		CHECK_EQ(quota_reserve(slot, device, MIB, GIB), 0);
	else
		quota_cancel(slot, device, MIB);
}
