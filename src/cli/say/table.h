/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned tables of text. */
#ifndef ALLOT_CLI_SAY_TABLE_H
#define ALLOT_CLI_SAY_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#define TABLE_COLUMNS 20

struct table;

/*
 * A table with these headings, separated by '|'; a heading that begins with '>' makes its column
 * right-aligned. NULL, which all of these take, when there is no memory.
 */
struct table *table_new(const char *headings);

/*
 * Appends a cell to the current row, made printable, or empty unless `filled`; a full row begins
 * the next one. Failure shows at the end.
 */
void table_cell_if(struct table *t, bool filled, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define table_cell(t, ...) table_cell_if(t, true, __VA_ARGS__)

/* Appends `n` empty cells. */
void table_skip(struct table *t, int n);

/* Makes the current row's cells bold, or nothing special, where the output is a terminal. */
enum table_style { TABLE_PLAIN, TABLE_STRONG, TABLE_ALERT };
void table_style(struct table *t, enum table_style style);

/*
 * Frees the table, and prints `before` and its rows if it has any. Columns whose cells are all
 * empty are left out. 0, or -ENOMEM of it or of a cell.
 */
int table_end(struct table *t, const char *before, FILE *out);

#endif
