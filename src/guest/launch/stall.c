/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/stall.h"

#include "base/now.h"
#include "base/word.h"
#include "guest/core/trace.h"
#include "guest/launch/bell.h"
#include "guest/meter/capture.h"
#include "guest/meter/meter.h"
#include "ledger/quota.h"
#include "sched/tuning.h"

/* The word of the current context, or none. */
static void stall_word_new(uint32_t **ret_word, CUdeviceptr *ret_at)
{
	void *p = NULL;

	*ret_word = NULL;
	if (!cuda_real_address(CUDA_FN_cuStreamWaitValue32_v2) ||
	    DRIVER(cuMemHostAlloc, (&p, sizeof(**ret_word), CU_MEMHOSTALLOC_DEVICEMAP)))
		return;
	if (DRIVER(cuMemHostGetDevicePointer_v2, (ret_at, p, 0)) || !p) {
		DRIVER(cuMemFreeHost, (p));
		return;
	}
	*ret_word = p;
	word_write(*ret_word, 0);
}

/* True if the tenant uses another device, or is about to: memory there implies work. */
static bool stall_has_others(struct guest *guest, const struct launch_device *device)
{
	int own = device->meter.device->ledger;

	for (int i = 0; ledger_knows(guest->ledger, i); i++)
		if (i != own && quota_used(guest->ledger, i))
			return true;
	return atomic_load(&device->beside);
}

/*
 * Several streams drift apart if each launches ahead; several processes or devices of a tenant
 * pause together; and to other tenants what is queued would come as a surprise. Of a function's
 * first launch nobody would know later whether it waited for its code or in the pause.
 */
bool stall_may(const struct launch_state *state, struct launch_device *device,
	       const struct launch *launch, uint64_t until_ns)
{
	const struct meter *meter = &device->meter;

	if (!launch->known || until_ns <= launch->now_ns + TUNING_STALL_LEAST_NS ||
	    atomic_load(&state->limits.controller) != CONTROLLER_DEFICIT ||
	    !monitor_runs(&state->monitor) || !limits_alone(&state->limits, launch->now_ns) ||
	    state_processes(device, launch->now_ns) > 1 ||
	    cost_mean(&device->window.costs) >= TUNING_STALL_LONG_NS)
		return false;
	for (uint32_t i = 0; i < word_read(&meter->nstreams); i++) {
		const struct stream *stream = &meter->stream[i];

		if (word_read(&stream->launched_ns) + TUNING_STALL_BESIDE_NS > launch->now_ns &&
		    (stream->context != launch->context || stream->key != launch->stream_key))
			return false;
	}
	return !stall_has_others(meter->guest, device);
}

/* The context's word is made when it is first needed; a device has one, of one context. */
static void stall_word_make(struct launch_device *device, CUcontext context)
{
	struct stall *stall = &device->stall;
	struct capture_mode mode;
	uint32_t *word = NULL;
	CUdeviceptr at = 0;
	bool made;

	meter_lock(&device->meter);
	made = stall->context;
	meter_unlock(&device->meter);
	if (made)
		return;
	mode = capture_relax();
	stall_word_new(&word, &at);
	meter_lock(&device->meter);
	if (!stall->context) {
		stall->context = context;
		stall->word = word;
		stall->at = at;
		word = NULL;
	}
	meter_unlock(&device->meter);
	if (word)
		DRIVER(cuMemFreeHost, (word));
	capture_restore(mode);
}

/* With the lock: the stream that waits for the word goes on. */
static void stall_write_word(struct stall *stall)
{
	uint32_t on = atomic_load(&stall->on);

	if (on && stall->word)
		word_release(stall->word, on);
	atomic_store(&stall->on, 0);
	stall->stream = NULL;
}

/* With the lock: the pause that is on, or one that begins. */
static uint32_t stall_pause_now(struct launch_device *device, uint64_t until_ns, bool *ret_begun)
{
	struct stall *stall = &device->stall;
	uint32_t on = atomic_load(&stall->on);

	*ret_begun = !on;
	if (on)
		return on;
	stall->last += stall->last == UINT32_MAX ? 2 : 1; /* 0 is none */
	stall->stream = NULL;
	atomic_store(&stall->before_ns, window_due_ns(&device->window));
	atomic_store(&stall->until_ns, until_ns);
	atomic_store(&stall->on, stall->last);
	return stall->last;
}

/* It counts as if the launch were held. */
static void stall_note(struct device_time *time, uint64_t for_ns)
{
	word_add(&time->throttled_ns, for_ns);
	word_add(&time->throttles, 1);
}

/* The wait behind what was launched before; what comes next begins anew when it is over. */
static bool stall_wait_in_stream(struct launch_device *device, const struct launch *launch,
				 uint32_t pause)
{
	struct capture_mode mode;
	CUresult e;

	meter_close(&device->meter, launch->context, launch->stream, METER_SPLIT);
	mode = capture_relax();
	e = DRIVER(cuStreamWaitValue32_v2,
		   (launch->stream, device->stall.at, pause, CU_STREAM_WAIT_VALUE_GEQ));
	capture_restore(mode);
	meter_lock(&device->meter);
	if (e) { /* not on this device, or not in this kind of stream: others may wait already */
		stall_write_word(&device->stall);
		device->stall.word = NULL;
	} else {
		device->stall.stream = launch->stream;
	}
	meter_unlock(&device->meter);
	return !e;
}

bool stall_begin(struct guest *guest, struct launch_device *device, struct launch *launch,
		 uint64_t until_ns)
{
	struct stall *stall = &device->stall;
	bool begun = false, waits, may;
	uint32_t pause = 0;

	stall_word_make(device, launch->context);
	meter_lock(&device->meter);
	may = stall->context == launch->context && stall->word && !stall->leaving;
	if (may)
		pause = stall_pause_now(device, until_ns, &begun);
	waits = stall->stream == launch->stream;
	meter_unlock(&device->meter);
	if (!may || (!waits && !stall_wait_in_stream(device, launch, pause)))
		return false;
	if (begun) {
		stall_note(device->meter.time, until_ns - launch->now_ns);
		trace(guest, TRACE_STALLED, device->meter.device->ledger, until_ns - launch->now_ns, 0, 0);
		bell_expect(guest, until_ns);
	}
	/* The monitor may have looked for the last time. */
	if (!monitor_runs(&state_get(guest)->monitor))
		stall_end(device);
	return true;
}

void stall_end(struct launch_device *device)
{
	meter_lock(&device->meter);
	stall_write_word(&device->stall);
	meter_unlock(&device->meter);
}

void stall_context_leaves(struct launch_device *device, CUcontext context)
{
	meter_lock(&device->meter);
	if (device->stall.context == context) {
		stall_write_word(&device->stall);
		device->stall.leaving++;
	}
	meter_unlock(&device->meter);
}

void stall_context_left(struct launch_device *device, CUcontext context, bool gone)
{
	struct stall *stall = &device->stall;

	meter_lock(&device->meter);
	if (stall->context == context && stall->leaving) {
		stall->leaving--;
		if (gone) {
			stall->context = NULL;
			stall->word = NULL;
		}
	}
	meter_unlock(&device->meter);
}
