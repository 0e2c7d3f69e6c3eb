/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of a swappable tenant's process that capture at this moment. Work cannot be waited for
 * while one does: that would end the capture. The end of a capture is not always seen (a stream may
 * be destroyed in it), so a stream that was noted is asked.
 */
#ifndef ALLOT_GUEST_CORE_CAPTURING_H
#define ALLOT_GUEST_CORE_CAPTURING_H

#include "guest/core/guest.h"

/* After it began, before it ends or its stream does. */
void capturing_begin(struct guest *guest, CUstream stream);
void capturing_end(struct guest *guest, CUstream stream);

/* Calls the driver, which no capture minds. */
bool capturing_any(struct guest *guest);

/* True if the stream, which the caller may use, is capturing; in any tenant. */
bool capturing_stream(const struct guest *guest, CUstream stream);

#endif
