/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/waits.h"

#include "base/now.h"
#include "base/word.h"
#include "guest/launch/admission.h"
#include "guest/launch/attach.h"
#include "guest/launch/demand.h"
#include "guest/launch/latch.h"
#include "guest/launch/stall.h"
#include "guest/meter/collect.h"
#include "guest/meter/leave.h"
#include "guest/meter/recorded.h"

/*
 * The event that this thread recorded last: a wait for it is a wait for its stream's work until
 * then.
 */
static _Thread_local struct {
	CUevent event;
	CUcontext context;
	CUstream stream;
	uint64_t asked_ns;
} waits_recorded __attribute__((tls_model("initial-exec")));

/* The contexts of a device take turns at being the one that is found at once. */
static struct launch_device *waits_find_device(struct guest *guest, CUcontext context)
{
	struct launch_device *device = state_of_context(guest, context);

	for (int i = 0; !device && i < guest->ndevices; i++) {
		device = state_device(guest, i);
		if (device && !meter_knows(&device->meter, context))
			device = NULL;
	}
	return device;
}

/* The metered device of a context, and that context; NULL: nothing was launched there. */
static struct launch_device *waits_device(struct guest *guest, CUcontext *context)
{
	if (!state_get(guest))
		return NULL;
	if (!*context && (DRIVER(cuCtxGetCurrent, (context)) || !*context))
		return NULL;
	return waits_find_device(guest, *context);
}

/* The program waits, perhaps without an event: the arbiter hears of the work all the same. */
static void waits_begin(struct launch_device *device, enum meter_why why)
{
	if (meter_is_asked(why))
		demand_rest(device);
	if (meter_is_told(why) && meter_works(&device->meter))
		demand_publish(device, now_monotonic_ns());
}

/* The metered device that a stream is of, and its context, which need not be the current one. */
static struct launch_device *waits_device_of(struct guest *guest, CUstream stream,
					     CUcontext *context)
{
	struct launch_device *device = waits_device(guest, context);
	CUcontext of = NULL;

	if (launch_is_named(stream) &&
	    !(device && meter_has_stream(&device->meter, *context, stream)) &&
	    !DRIVER(cuStreamGetCtx, (stream, &of)) && of && of != *context) {
		*context = of;
		device = state_get(guest) ? waits_find_device(guest, of) : NULL;
	}
	return device;
}

/* Makes a stream's context current, for calls on that stream. Returns whether it was another. */
static bool waits_enter(CUcontext context)
{
	CUcontext current = NULL;

	DRIVER(cuCtxGetCurrent, (&current));
	return current != context && !DRIVER(cuCtxPushCurrent_v2, (context));
}

static void waits_return(bool entered)
{
	CUcontext context;

	if (entered)
		DRIVER(cuCtxPopCurrent_v2, (&context));
}

static void waits_tell(struct launch_device *device, CUcontext context, CUstream stream,
		       enum meter_why why)
{
	/* A wait for the legacy stream is one for all streams before it. */
	if (stream == CU_STREAM_LEGACY && meter_is_asked(why))
		meter_close_all(&device->meter, context, METER_ASK);
	if (why == METER_PARK) {
		latch_prepare(device, context);
		meter_park(&device->meter, context, stream);
	} else {
		meter_close(&device->meter, context, stream, why);
	}
	waits_begin(device, why);
}

/* Tells the meter of the stream's device. Returns that device and the stream's context, or NULL. */
static struct launch_device *waits_close(struct guest *guest, CUstream stream, enum meter_why why,
					 CUcontext *ret_context)
{
	struct launch_device *device;
	bool entered;

	*ret_context = NULL;
	/* A call on a stream that captures is none, or an error that is not ours to make. */
	if (atomic_load(&guest->captures) && meter_is_captured(stream))
		return NULL;
	device = waits_device_of(guest, stream, ret_context);
	entered = waits_enter(*ret_context);
	/* The first wait for the program may come before all launches. */
	if (!device && why == METER_PARK && admission_is_metered(guest))
		attach_device(guest, ret_context, &device);
	if (device && !meter_is_asked(why))
		meter_ask_park(&device->meter, *ret_context, stream);
	if (device)
		waits_tell(device, *ret_context, stream, why);
	waits_return(entered);
	return device;
}

void waits_stream(struct guest *guest, CUstream stream, bool per_thread, enum meter_why why)
{
	CUcontext context;

	waits_close(guest, launch_stream(stream, per_thread), why, &context);
}

void waits_record(struct guest *guest, CUevent event, CUstream stream, bool per_thread)
{
	struct launch_device *device;
	CUcontext context;

	stream = launch_stream(stream, per_thread);
	device = waits_close(guest, stream, METER_MARK, &context);
	if (device)
		recorded_note(&device->meter, event, context, stream);
	waits_recorded.event = event;
	waits_recorded.stream = stream;
	waits_recorded.asked_ns = meter_asked_ns();
	waits_recorded.context = NULL;
	DRIVER(cuCtxGetCurrent, (&waits_recorded.context));
}

void waits_for_event(struct guest *guest, CUevent event, CUstream stream, bool per_thread)
{
	enum recorded_state state = RECORDED_NOT;

	for (int i = 0; state == RECORDED_NOT && i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);

		if (device)
			state = recorded_ask(&device->meter, event);
	}
	waits_stream(guest, stream, per_thread, state == RECORDED_FREE ? METER_SPLIT : METER_PARK);
}

void waits_context(struct guest *guest, CUcontext context, enum meter_why why)
{
	struct launch_device *device = waits_device(guest, &context);
	bool entered;

	if (!device)
		return;
	entered = waits_enter(context);
	meter_close_all(&device->meter, context, why);
	waits_return(entered);
	waits_begin(device, why);
}

static void waits_look(struct launch_device *device, uint64_t now_ns)
{
	if (meter_is_pending(&device->meter))
		collect_done(&device->meter);
	demand_publish(device, now_ns);
}

static void waits_done(struct guest *guest, CUcontext context, CUstream stream, bool all,
		       uint64_t asked_ns)
{
	struct launch_device *device = waits_device(guest, &context);
	uint64_t now;

	if (!device)
		return;
	now = now_monotonic_ns();
	meter_waited(&device->meter, context, stream, all, asked_ns, now);
	waits_look(device, now);
	meter_learn_prompt(&device->meter, context, stream, all, asked_ns, now);
}

void waits_over(struct guest *guest, CUstream stream, bool per_thread)
{
	waits_done(guest, NULL, launch_stream(stream, per_thread), false, meter_asked_ns());
}

/*
 * The work before the event is done, unless another thread recorded it elsewhere, or made a new one
 * with the same handle: so the stream is asked.
 */
void waits_event_over(struct guest *guest, CUevent event)
{
	CUcontext context = NULL;
	struct launch_device *device = waits_device(guest, &context);
	CUstream stream = waits_recorded.stream;
	uint64_t asked = waits_recorded.asked_ns;

	if (!device)
		return;
	if (event != waits_recorded.event || context != waits_recorded.context) {
		waits_answered(guest);
		return;
	}
	if (meter_is_open(&device->meter, context, stream, asked) &&
	    ((atomic_load(&guest->captures) && meter_is_captured(stream)) ||
	     DRIVER(cuStreamQuery, (stream))))
		return;
	waits_done(guest, context, stream, false, asked);
}

void waits_copied(struct guest *guest, CUstream stream, bool per_thread)
{
	stream = launch_stream(stream, per_thread);
	if (state_get(guest) && !(atomic_load(&guest->captures) && meter_is_captured(stream)))
		waits_done(guest, NULL, stream, false, meter_asked_ns());
}

void waits_context_over(struct guest *guest, CUcontext context)
{
	waits_done(guest, context, NULL, true, meter_asked_ns());
}

void waits_answered(struct guest *guest)
{
	CUcontext context = NULL;
	struct launch_device *device = waits_device(guest, &context);

	if (device && meter_is_pending(&device->meter))
		waits_look(device, now_monotonic_ns());
}

void waits_host_copy(struct guest *guest, uint64_t bytes)
{
	CUcontext context = NULL;
	struct launch_device *device = waits_device(guest, &context);

	if (device)
		word_add(&device->meter.time->host_copy_bytes, bytes);
}

void waits_stream_leaves(struct guest *guest, CUstream stream)
{
	CUcontext context = NULL;
	struct launch_device *device = waits_device(guest, &context);

	if (device)
		leave_stream_before(&device->meter, context, launch_stream(stream, false));
}

void waits_stream_left(struct guest *guest, CUstream stream, bool gone)
{
	CUcontext context = NULL;
	struct launch_device *device = waits_device(guest, &context);

	if (device)
		leave_stream_after(&device->meter, context, launch_stream(stream, false), gone);
}

void waits_context_leaves(struct guest *guest, CUcontext context)
{
	state_forget_context(guest, context);
	for (int i = 0; context && i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);

		if (!device)
			continue;
		stall_context_leaves(device, context);
		latch_context_leaves(device, context);
		leave_context_before(&device->meter, context);
	}
}

void waits_context_left(struct guest *guest, CUcontext context, bool gone)
{
	state_forget_context(guest, context); /* another thread may have launched in it meanwhile */
	for (int i = 0; context && i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);

		if (!device)
			continue;
		leave_context_after(&device->meter, context, gone);
		stall_context_left(device, context, gone);
		latch_context_left(device, context, gone);
	}
}
