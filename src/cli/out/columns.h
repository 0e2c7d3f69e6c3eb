/* SPDX-License-Identifier: Apache-2.0 */
/* Which columns of a table fit on a screen, and how wide each is. Pure. */
#ifndef ALLOT_CLI_OUT_COLUMNS_H
#define ALLOT_CLI_OUT_COLUMNS_H

#define COLUMNS_MOST 20
#define COLUMNS_GAP  1

/*
 * What is left out first is the highest rank, of columns of one rank the last; rank 0 stays. A
 * column is as wide as what is in it, at least `least` and at most `most`; one that `grows` takes
 * what is left, up to `most`.
 */
struct column {
	const char *heading;
	int least, most;
	int rank;
	enum { COLUMN_LEFT, COLUMN_RIGHT } align;
	enum { COLUMN_FITS, COLUMN_GROWS } how;
};

/*
 * need[i] is the width of what is in column i, 0 for nothing: the column is left out. Into ret[i]
 * the width, 0 for a column that is not shown. What still does not fit is cut at the right.
 */
void columns_fit(const struct column *columns, int n, const int *need, int width, int *ret);

/*
 * The first of n lines to show on a screen for `room` of them, so that line `at` is among them;
 * `first` is where it was before, which stays where it can.
 */
int columns_scroll(int n, int at, int room, int first);

#endif
