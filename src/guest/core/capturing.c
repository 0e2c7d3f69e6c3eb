/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/capturing.h"

static void capturing_drop(struct guest *guest, int i)
{
	struct capturing *c = &guest->capturing;

	c->n--;
	c->stream[i] = c->stream[c->n];
	c->context[i] = c->context[c->n];
}

/* More at once than there is room for: one is forgotten, and work waited for in spite of it. */
void capturing_begin(struct guest *guest, CUstream stream)
{
	struct capturing *c = &guest->capturing;
	CUcontext context = NULL;

	if (!guest->swappable)
		return;
	DRIVER(cuCtxGetCurrent, (&context));
	lock_take(&c->lock);
	if (c->n == CAPTURING)
		capturing_drop(guest, 0);
	c->stream[c->n] = stream;
	c->context[c->n++] = context;
	lock_drop(&c->lock);
}

void capturing_end(struct guest *guest, CUstream stream)
{
	struct capturing *c = &guest->capturing;

	if (!guest->swappable)
		return;
	lock_take(&c->lock);
	for (int i = 0; i < c->n; i++)
		if (c->stream[i] == stream) {
			capturing_drop(guest, i);
			break;
		}
	lock_drop(&c->lock);
}

/* A thread's own stream can be asked by that thread alone; its end is seen. */
static bool capturing_is(CUstream stream, CUcontext context)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUcontext current = NULL;
	bool pushed;

	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return true;
	DRIVER(cuCtxGetCurrent, (&current));
	pushed = current != context && !DRIVER(cuCtxPushCurrent_v2, (context));
	if (DRIVER(cuStreamIsCapturing, (stream, &status)))
		status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (pushed)
		DRIVER(cuCtxPopCurrent_v2, (&current));
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capturing_any(struct guest *guest)
{
	struct capturing *c = &guest->capturing;
	CUcontext context;
	CUstream stream;
	int n;

	for (;;) {
		lock_take(&c->lock);
		n = c->n;
		stream = n ? c->stream[n - 1] : NULL;
		context = n ? c->context[n - 1] : NULL;
		lock_drop(&c->lock);
		if (!n)
			return false;
		if (capturing_is(stream, context))
			return true;
		capturing_end(guest, stream);
	}
}

bool capturing_stream(const struct guest *guest, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (guest->swappable && !atomic_load(&guest->captures))
		return false;
	return !DRIVER(cuStreamIsCapturing, (stream, &status)) &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}
