/* SPDX-License-Identifier: Apache-2.0 */
#include "text/text.h"

#include <stdbool.h>
#include <string.h>
#include <wchar.h>

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

bool text_is_control(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;

	if (n == 1)
		return p[0] < 0x20 || p[0] == 0x7f;
	if (n == 2)
		return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c);
	if (n != 3 || p[0] != 0xe2)
		return false;
	return p[1] == 0x80 ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae)
			    : p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

void text_make_printable(char *s)
{
	char *out = s;

	while (*s) {
		size_t n = text_utf8_length(s);

		if (!n || text_is_control(s, n)) {
			*out++ = '?';
			s += n ? n : 1;
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

/* The columns of the well-formed sequence of n bytes. */
static size_t text_columns_of(const char *s, size_t n)
{
	static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	wchar_t c = (unsigned char)s[0] & first[n];
	int columns;

	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	columns = wcwidth(c);
	return columns < 0 ? 1 : (size_t)columns;
}

size_t text_columns(const char *s)
{
	size_t columns = 0, n;

	for (; *s && (n = text_utf8_length(s)); s += n)
		columns += text_columns_of(s, n);
	return columns;
}

/* Bytes of the characters that fit into `columns`. */
static size_t text_offset(const char *s, size_t columns)
{
	size_t used = 0, at = 0, n;

	while (s[at] && (n = text_utf8_length(s + at))) {
		used += text_columns_of(s + at, n);
		if (used > columns)
			break;
		at += n;
	}
	return at;
}

void text_clip(char *s, size_t columns)
{
	s[text_offset(s, columns)] = 0;
}

void text_clip_middle(char *s, size_t columns)
{
	size_t all = text_columns(s), end = (columns - 2) / 2, n, len;
	const char *tail = s;

	/* Two characters of each end are the least that is worth it. */
	if (all <= columns || columns < 6) {
		text_clip(s, columns);
		return;
	}
	while (all > end && (n = text_utf8_length(tail))) {
		all -= text_columns_of(tail, n);
		tail += n;
	}
	len = strlen(tail);
	/* The tail stays behind the cut: at least as many columns as ".." has are left out. */
	s += text_offset(s, columns - 2 - end);
	memcpy(s, "..", 2);
	memmove(s + 2, tail, len + 1);
}

void text_make_ascii(char *s)
{
	char *out = s;

	for (; *s; s++)
		if ((unsigned char)*s < 0x80)
			*out++ = *s;
		else if (((unsigned char)*s & 0xc0) == 0xc0)
			*out++ = '?';
	*out = 0;
}
