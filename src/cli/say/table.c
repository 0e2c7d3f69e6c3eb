/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/say/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/text.h"

struct row {
	char *cell[TABLE_COLUMNS];
	enum table_style style;
};

struct table {
	struct row *rows; /* row 0 holds the headings */
	size_t nrows, capacity;
	unsigned int ncolumns, next; /* columns; the cell to be written */
	bool right[TABLE_COLUMNS];
	int error;
};

static struct row *table_add_row(struct table *t)
{
	struct row *rows = t->rows;

	if (t->nrows == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 16;

		rows = reallocarray(t->rows, capacity, sizeof(*rows));
		if (!rows) {
			t->error = -ENOMEM;
			return NULL;
		}
		t->rows = rows;
		t->capacity = capacity;
	}
	memset(&rows[t->nrows], 0, sizeof(*rows));
	return &rows[t->nrows++];
}

struct table *table_new(const char *headings)
{
	struct table *t = calloc(1, sizeof(*t));
	struct row *row = t ? table_add_row(t) : NULL;

	if (!row) {
		free(t);
		return NULL;
	}
	for (const char *p = headings;; p++) {
		size_t len = strcspn(p, "|");

		t->right[t->ncolumns] = *p == '>';
		row->cell[t->ncolumns] = strndup(p + (*p == '>'), len - (*p == '>'));
		if (!row->cell[t->ncolumns++])
			t->error = -ENOMEM;
		p += len;
		if (!*p || t->ncolumns == TABLE_COLUMNS)
			break;
	}
	row->style = TABLE_STRONG;
	t->next = t->ncolumns;
	return t;
}

static void table_free(struct table *t)
{
	for (size_t i = 0; i < t->nrows; i++)
		for (unsigned int c = 0; c < t->ncolumns; c++)
			free(t->rows[i].cell[c]);
	free(t->rows);
	free(t);
}

void table_cell_if(struct table *t, bool filled, const char *fmt, ...)
{
	struct row *row;
	va_list ap;

	if (!t || (t->next == t->ncolumns && !table_add_row(t)))
		return;
	t->next %= t->ncolumns;
	row = &t->rows[t->nrows - 1];
	va_start(ap, fmt);
	if (filled && vasprintf(&row->cell[t->next], fmt, ap) < 0) {
		row->cell[t->next] = NULL;
		t->error = -ENOMEM;
	} else if (filled) {
		text_make_printable(row->cell[t->next]);
	}
	va_end(ap);
	t->next++;
}

void table_skip(struct table *t, int n)
{
	while (n--)
		table_cell_if(t, false, " ");
}

void table_style(struct table *t, enum table_style style)
{
	if (t && t->nrows > 1)
		t->rows[t->nrows - 1].style = style;
}

static const char *table_text(const struct row *row, unsigned int column)
{
	return row->cell[column] ? row->cell[column] : "";
}

/* Column widths in characters; 0 for a column without content. */
static void table_measure(const struct table *t, int widths[static TABLE_COLUMNS])
{
	memset(widths, 0, TABLE_COLUMNS * sizeof(*widths));
	for (unsigned int c = 0; c < t->ncolumns; c++) {
		bool content = false;

		for (size_t i = 0; i < t->nrows; i++) {
			int len = (int)text_width(table_text(&t->rows[i], c));

			content |= i && len;
			if (len > widths[c])
				widths[c] = len;
		}
		if (!content)
			widths[c] = 0;
	}
}

/* No blanks at the end of a line: up to the last cell that holds something. */
static void table_print_row(const struct table *t, const struct row *row, const int *widths,
			    FILE *out)
{
	int last = (int)t->ncolumns - 1;
	const char *gap = "";

	while (last > 0 && !*table_text(row, (unsigned int)last))
		last--;
	for (int c = 0; c <= last; c++) {
		const char *s = table_text(row, (unsigned int)c);
		int pad = widths[c] - (int)text_width(s);

		if (!widths[c])
			continue;
		fprintf(out, "%s%*s%s%*s", gap, t->right[c] ? pad : 0, "", s,
			t->right[c] || c == last ? 0 : pad, "");
		gap = "  ";
	}
}

static void table_print(const struct table *t, FILE *out)
{
	static const char *const on[] = {"", "\033[1m", "\033[1;31m"};
	bool colour = isatty(fileno(out)) && !getenv("NO_COLOR");
	int widths[TABLE_COLUMNS];

	table_measure(t, widths);
	for (size_t i = 0; i < t->nrows; i++) {
		const char *style = colour ? on[t->rows[i].style] : "";

		fputs(style, out);
		table_print_row(t, &t->rows[i], widths, out);
		fprintf(out, "%s\n", *style ? "\033[0m" : "");
	}
}

int table_end(struct table *t, const char *before, FILE *out)
{
	int r = t ? t->error : -ENOMEM;

	if (r == 0 && t->nrows > 1) {
		fputs(before, out);
		table_print(t, out);
	}
	if (t)
		table_free(t);
	return r;
}
