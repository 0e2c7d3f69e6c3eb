/* SPDX-License-Identifier: Apache-2.0 */
/* Which columns of a table fit on a screen, and how wide each is. Pure. */
#ifndef ALLOT_CLI_TOP_COLUMNS_H
#define ALLOT_CLI_TOP_COLUMNS_H

#define COLUMNS_MOST 20
#define COLUMNS_GAP  1

/* Columns of this rank and above are left out before a column that yields is narrowed. */
#define COLUMNS_SPARE 6
/* A column that yields is narrowed to this, where both ends of most names still tell them apart. */
#define COLUMNS_YIELDED 12

/*
 * On a narrow screen the column of the highest rank is left out first, of equal ranks the last one;
 * rank 0 always stays. A column is as wide as its content, at least `least` and at most `most`; a
 * column that `grows` takes the remaining width, up to `most`; a column that `yields` is narrowed
 * to COLUMNS_YIELDED rather than push another one off the screen.
 */
struct column {
	const char *heading;
	int least, most;
	int rank;
	enum { COLUMN_LEFT, COLUMN_RIGHT } align;
	enum { COLUMN_FITS, COLUMN_GROWS, COLUMN_YIELDS } how;
};

/*
 * need[i] is the width of the content of column i; a column of 0 is left out. ret[i] gets the
 * width, 0 for a column that is not shown. A table that is still too wide is cut at the right.
 */
void columns_fit(const struct column *columns, int n, const int *need, int width, int *ret);

/*
 * The first of n lines to show on a screen for `room` of them, so that line `at` is among them;
 * `first` is where it was before, which stays where it can.
 */
int columns_scroll(int n, int at, int room, int first);

#endif
