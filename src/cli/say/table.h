/* SPDX-License-Identifier: Apache-2.0 */
/* Aligned tables of text. */
#ifndef ALLOT_CLI_SAY_TABLE_H
#define ALLOT_CLI_SAY_TABLE_H

#include <stdio.h>

#define TABLE_COLUMNS 20

struct table;

/*
 * A table with these headings, separated by '|'; a heading that begins with '>' makes its column
 * right-aligned. NULL when there is no memory.
 */
struct table *table_new(const char *headings);
void table_free(struct table *t);

/*
 * Appends a cell to the current row, made printable; a full row begins the next one. Failure
 * shows at print.
 */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes the current row's cells bold, or nothing special, where the output is a terminal. */
enum table_style { TABLE_PLAIN, TABLE_STRONG, TABLE_ALERT };
void table_style(struct table *t, enum table_style style);

/* Columns whose cells are all empty are left out. 0, or -ENOMEM from an earlier cell. */
int table_print(struct table *t, FILE *out);

#endif
