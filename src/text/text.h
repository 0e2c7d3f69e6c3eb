/* SPDX-License-Identifier: Apache-2.0 */
/* Text that others wrote (command lines), made fit to be shown. */
#ifndef ALLOT_TEXT_TEXT_H
#define ALLOT_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 sequence at s (Unicode, table 3-7), 0 when there is none. */
size_t text_utf8_length(const char *s);

/*
 * True if the character of `n` bytes is a control character. Unicode has more of them than ASCII:
 * U+0080 to U+009F, some of which terminals obey; U+2028 and U+2029, which end lines; and those
 * that turn the direction of the following text, so that a line reads as something else (U+061C,
 * U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
 */
bool text_is_control(const char *s, size_t n);

/* In place: '?' for control characters and for bytes that are not UTF-8. */
void text_make_printable(char *s);

/* Characters of a printable text: its columns, but for wide ones. */
size_t text_width(const char *s);

/* Its columns on a terminal: as the locale has it, one for each character where that does not know. */
size_t text_columns(const char *s);

/* Cuts a printable text in place to at most `columns` columns (wide characters by the locale). */
void text_clip(char *s, size_t columns);

/* Likewise, but the middle goes, and ".." is in its place: names differ at both ends. */
void text_clip_middle(char *s, size_t columns);

/* In place, of a printable text, for terminals that show no UTF-8: '?' for what is not ASCII. */
void text_make_ascii(char *s);

#endif
