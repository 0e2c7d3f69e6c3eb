/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/exposition.h"

#include <inttypes.h>
#include <string.h>

void exposition_head(FILE *out, const char *name, const char *kind, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void exposition_put_escaped(FILE *out, const char *text)
{
	for (;;) {
		size_t n = strcspn(text, "\n\"\\");

		fwrite(text, 1, n, out);
		text += n;
		if (!*text)
			return;
		fprintf(out, "\\%c", *text == '\n' ? 'n' : *text);
		text++;
	}
}

void exposition_begin(FILE *out, const char *name, const char *const *label)
{
	char bracket = '{';

	for (fputs(name, out); *label; label += 2) {
		fprintf(out, "%c%s=\"", bracket, label[0]);
		exposition_put_escaped(out, label[1]);
		fputc('"', out);
		bracket = ',';
	}
	fputs("} ", out);
}

void exposition_put(FILE *out, const char *name, const char *const *label, uint64_t value)
{
	exposition_begin(out, name, label);
	fprintf(out, "%" PRIu64 "\n", value);
}

void exposition_put_parts(FILE *out, uint64_t value, int digits)
{
	uint64_t one = 1;

	for (int i = 0; i < digits; i++)
		one *= 10;
	fprintf(out, "%" PRIu64 ".%0*" PRIu64, value / one, digits, value % one);
}

void exposition_put_ns(FILE *out, uint64_t ns)
{
	exposition_put_parts(out, ns, 9);
}
