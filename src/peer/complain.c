/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allot/peer.h"

static _Thread_local char words[COMPLAINT_BYTES];

int complain(int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	return r;
}

const char *complain_words(int r)
{
	const char *known = strerrordesc_np(abs(r));

	return known ? known : "an error without a name";
}

const char *allot_peer_error(void)
{
	return words;
}
