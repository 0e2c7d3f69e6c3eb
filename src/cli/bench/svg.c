/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/svg.h"

#include <math.h>

#define WIDTH	    860.0
#define PANEL	    250.0 /* with its title, above, and its seconds, below */
#define HEAD	    46.0
#define LEFT	    58.0
#define RIGHT	    24.0
#define TOP	    46.0 /* within a panel */
#define BOTTOM	    30.0
#define PLOT_W	    (WIDTH - LEFT - RIGHT)
#define PLOT_H	    (PANEL - TOP - BOTTOM)
#define LEGEND_STEP 7.2 /* a letter */

static const char *svg_colour_of(int colour)
{
	static const char *const colours[] = {"#2f6fb0", "#d9822b", "#3d9a6a", "#a05195"};

	return colour < 0 ? "#8a8f98" : colours[(unsigned int)colour % 4];
}

/* Text from the program alone, but the title may hold a device's name. */
static void svg_put_text(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '<' || *s == '&' || (unsigned char)*s < 0x20)
			putc('?', out);
		else
			putc(*s, out);
	}
}

void svg_begin(struct svg *svg, FILE *out, const char *title, unsigned int panels)
{
	*svg = (struct svg){.out = out};
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"13\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
		"<text x=\"%.0f\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"#22262c\">",
		WIDTH, HEAD + PANEL * panels + 10, WIDTH, HEAD + PANEL * panels + 10, LEFT);
	svg_put_text(out, title);
	fputs("</text>\n", out);
}

/* A number of seconds that gives five to ten marks. */
static double svg_tick_of(double seconds)
{
	static const double ticks[] = {0.5, 1, 2, 5, 10, 20, 60};
	unsigned int i = 0;

	while (i < 6 && seconds / ticks[i] > 12)
		i++;
	return ticks[i];
}

static void svg_draw_axes(FILE *out, double top, double seconds)
{
	double bottom = top + PLOT_H, tick = svg_tick_of(seconds);

	for (int percent = 0; percent <= 100; percent += 25) {
		double y = bottom - PLOT_H * percent / 100;

		fprintf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
			"stroke=\"#e3e6ea\"/>\n"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#5c626b\">%d "
			"%%</text>\n",
			LEFT, y, LEFT + PLOT_W, y, LEFT - 8, y + 4.5, percent);
	}
	for (double s = 0; s <= seconds + tick / 100; s += tick)
		fprintf(out,
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#5c626b\">%g s"
			"</text>\n",
			LEFT + PLOT_W * s / seconds, bottom + 18, s);
}

static void svg_draw_line(FILE *out, double top, double seconds, const struct svg_line *line)
{
	double bottom = top + PLOT_H;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"",
		svg_colour_of(line->colour), line->colour < 0 ? "1.6" : "1.8",
		line->colour < 0 ? " stroke-dasharray=\"6 4\"" : " stroke-linejoin=\"round\"");
	for (unsigned int i = 0; i < line->n; i++) {
		double y = bottom - PLOT_H * fmin(fmax(line->value[i], 0), 1.04);
		double at = i * line->step_s, from = line->as_steps ? at : at + line->step_s / 2;

		fprintf(out, "%.1f,%.1f ", LEFT + PLOT_W * fmin(from, seconds) / seconds, y);
		if (line->as_steps)
			fprintf(out, "%.1f,%.1f ",
				LEFT + PLOT_W * fmin(at + line->step_s, seconds) / seconds, y);
	}
	fputs("\"/>\n", out);
}

/* Right-aligned above the plot, in the order of the lines. */
static void svg_draw_legend(FILE *out, double y, const struct svg_line *lines, unsigned int n)
{
	double x = LEFT + PLOT_W;

	for (unsigned int i = n; i-- > 0;) {
		const char *label = lines[i].label;
		unsigned int letters = 0;

		if (!label)
			continue;
		while (label[letters])
			letters++;
		x -= letters * LEGEND_STEP;
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#22262c\">", x, y);
		svg_put_text(out, label);
		fprintf(out,
			"</text>\n<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
			"stroke=\"%s\" "
			"stroke-width=\"3\"%s/>\n",
			x - 26, y - 4.5, x - 6, y - 4.5, svg_colour_of(lines[i].colour),
			lines[i].colour < 0 ? " stroke-dasharray=\"6 3\"" : "");
		x -= 40;
	}
}

void svg_panel(struct svg *svg, const char *title, double seconds, const struct svg_line *lines,
	       unsigned int n)
{
	double top = HEAD + PANEL * svg->panel++ + TOP;

	fprintf(svg->out, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\" fill=\"#22262c\">",
		LEFT, top - 14);
	svg_put_text(svg->out, title);
	fputs("</text>\n", svg->out);
	svg_draw_legend(svg->out, top - 14, lines, n);
	svg_draw_axes(svg->out, top, seconds);
	for (unsigned int i = 0; i < n; i++)
		svg_draw_line(svg->out, top, seconds, &lines[i]);
}

void svg_end(struct svg *svg)
{
	fputs("</svg>\n", svg->out);
}
