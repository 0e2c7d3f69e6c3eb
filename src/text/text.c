/* SPDX-License-Identifier: Apache-2.0 */
#include "text/text.h"

size_t text_utf8_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void text_make_printable(char *s)
{
	char *out = s;

	while (*s) {
		size_t n = text_utf8_length(s);

		if (n == 1 && ((unsigned char)*s < 0x20 || *s == 0x7f))
			n = 0;
		if (!n) {
			*out++ = '?';
			s++;
			continue;
		}
		while (n--)
			*out++ = *s++;
	}
	*out = 0;
}

size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}
