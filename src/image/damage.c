/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/damage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int damage_say(struct damage *ret, int r, const char *file, uint64_t offset, uint32_t object,
	       const char *format, ...)
{
	va_list args;
	size_t n = 0;

	if (!ret)
		return r;
	ret->offset = offset;
	ret->object = object;
	if (file) {
		snprintf(ret->text, sizeof(ret->text), "%.160s", file);
		n = strlen(ret->text);
	}
	if (offset != DAMAGE_NOWHERE)
		n += (size_t)snprintf(ret->text + n, sizeof(ret->text) - n, ", byte %llu",
				      (unsigned long long)offset);
	if (object != DAMAGE_NO_OBJECT)
		n += (size_t)snprintf(ret->text + n, sizeof(ret->text) - n, ", object %u", object);
	if (file)
		n += (size_t)snprintf(ret->text + n, sizeof(ret->text) - n, ": ");
	va_start(args, format);
	vsnprintf(ret->text + n, sizeof(ret->text) - n, format, args);
	va_end(args);
	return r;
}
