/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json.h"

#include <inttypes.h>

#include "text/text.h"

/* The number of a character of at most three bytes. */
static unsigned int json_code(const unsigned char *p, size_t n)
{
	unsigned int code = n == 1 ? p[0] : n == 2 ? p[0] & 0x1fu : p[0] & 0xfu;

	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3fu);
	return code;
}

static void json_put_string(FILE *out, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	putc('"', out);
	while (*p) {
		size_t n = text_utf8_length((const char *)p);

		if (!n)
			fputs("\\ufffd", out);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (text_is_control((const char *)p, n))
			fprintf(out, "\\u%04x", json_code(p, n));
		else
			fwrite(p, 1, n, out);
		p += n ? n : 1;
	}
	putc('"', out);
}

static void json_break(struct json *j)
{
	if (!j->flat)
		fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
}

static void json_begin(struct json *j, const char *key)
{
	if (j->more)
		fputs(j->flat ? ", " : ",", j->out);
	if (j->depth)
		json_break(j);
	if (key) {
		json_put_string(j->out, key);
		fputs(": ", j->out);
	}
	j->more = true;
}

void json_open(struct json *j, const char *key, char bracket)
{
	json_begin(j, key);
	putc(bracket, j->out);
	j->depth++;
	j->more = false;
}

void json_close(struct json *j, char bracket)
{
	j->depth--;
	if (j->more)
		json_break(j);
	putc(bracket, j->out);
	j->more = true;
	if (!j->depth)
		putc('\n', j->out);
}

void json_text(struct json *j, const char *key, const char *value)
{
	if (!value) {
		json_none(j, key);
		return;
	}
	json_begin(j, key);
	json_put_string(j->out, value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	json_begin(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void json_number(struct json *j, const char *key, double value)
{
	json_begin(j, key);
	fprintf(j->out, "%.6g", value);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
	json_begin(j, key);
	fprintf(j->out, "%" PRId64, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_begin(j, key);
	fputs(value ? "true" : "false", j->out);
}

void json_none(struct json *j, const char *key)
{
	json_begin(j, key);
	fputs("null", j->out);
}

void json_u64_list(struct json *j, const char *key, const uint64_t *value, size_t n)
{
	json_begin(j, key);
	putc('[', j->out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ", " : "", j->out);
		if (value[i] == JSON_NONE)
			fputs("null", j->out);
		else
			fprintf(j->out, "%" PRIu64, value[i]);
	}
	putc(']', j->out);
}

void json_u64_if(struct json *j, const char *key, bool known, uint64_t value)
{
	if (known)
		json_u64(j, key, value);
	else
		json_none(j, key);
}

void json_known_u64(struct json *j, const char *key, uint64_t value)
{
	json_u64_if(j, key, value, value);
}

bool json_open_if(struct json *j, const char *key, bool known)
{
	if (known)
		json_open(j, key, '{');
	else
		json_none(j, key);
	return known;
}
