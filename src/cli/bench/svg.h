/* SPDX-License-Identifier: Apache-2.0 */
/* Charts of shares over time, one below the other, as SVG. */
#ifndef ALLOT_CLI_BENCH_SVG_H
#define ALLOT_CLI_BENCH_SVG_H

#include <stdbool.h>
#include <stdio.h>

struct svg_line {
	const char *label;   /* NULL: not in the legend */
	const double *value; /* parts of the device's time, 0 to 1 */
	unsigned int n;
	double step_s; /* from value to value */
	int colour;    /* 0 to 3, SVG_TARGET */
	bool as_steps; /* level from one value to the next, instead of a line from middle to middle
			*/
};
#define SVG_TARGET (-1) /* dashed grey */

struct svg {
	FILE *out;
	unsigned int panel;
};

void svg_begin(struct svg *svg, FILE *out, const char *title, unsigned int panels);
void svg_panel(struct svg *svg, const char *title, double seconds, const struct svg_line *lines,
	       unsigned int n);
void svg_end(struct svg *svg);

#endif
