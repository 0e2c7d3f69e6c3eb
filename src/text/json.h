/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON, indented or on one line, as it comes. Text that is not UTF-8 (command lines are bytes) is shown
 * with U+FFFD, so that the output is always valid JSON.
 */
#ifndef ALLOT_TEXT_JSON_H
#define ALLOT_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	unsigned int depth;
	bool more; /* something precedes at this depth: a comma is due */
	bool flat; /* on one line, for readers of lines */
};

/* `key` is NULL for an array's elements and for the outermost value. */
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, const char *value); /* NULL value: null */
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_number(struct json *j, const char *key, double value); /* six digits */
void json_bool(struct json *j, const char *key, bool value);
void json_none(struct json *j, const char *key);
/* Integers in an array on one line; JSON_NONE of them are null. */
#define JSON_NONE UINT64_MAX
void json_u64_list(struct json *j, const char *key, const uint64_t *value, size_t n);
/* Zero stands for "not known" in many snapshots; JSON has a word for that: null. */
void json_known_u64(struct json *j, const char *key, uint64_t value);
/* The number, or an object's beginning; null unless `known`, which json_open_if returns. */
void json_u64_if(struct json *j, const char *key, bool known, uint64_t value);
bool json_open_if(struct json *j, const char *key, bool known);

#endif
