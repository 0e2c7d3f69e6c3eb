/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/spark.h"

#include <string.h>

static char *spark_put(char *at, const char *glyph)
{
	size_t n = strlen(glyph);

	memcpy(at, glyph, n);
	return at + n;
}

static const char *spark_glyph(uint64_t sample, uint64_t full, bool utf8)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	unsigned int level;

	if (sample == SPARK_NONE)
		return " ";
	/* The lowest is for nothing. */
	if (!sample || !full)
		level = 0;
	else if (sample >= full)
		level = 7;
	else
		level = 1 + (unsigned int)((double)sample * 7 / (double)full);
	level = level > 7 ? 7 : level;
	return utf8 ? blocks[level] : ascii[level];
}

void spark_draw(const uint64_t *samples, int n, uint64_t full, int width, bool utf8, char *ret)
{
	char *at = ret;

	for (int i = n - width; i < n; i++)
		at = spark_put(at, spark_glyph(i < 0 ? SPARK_NONE : samples[i], full, utf8));
	*at = 0;
}

void spark_bar(int permille, int width, bool utf8, char *ret)
{
	static const char *const parts[] = {"░", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
	int eighths;
	char *at = ret;

	permille = permille < 0 ? 0 : permille > 1000 ? 1000 : permille;
	eighths = permille * width * 8 / 1000;
	if (permille && !eighths)
		eighths = 1;
	for (int i = 0; i < width; i++, eighths -= 8) {
		int part = eighths < 0 ? 0 : eighths > 8 ? 8 : eighths;

		at = spark_put(at, utf8 ? parts[part] : part == 8 ? "#" : part ? "-" : ".");
	}
	*at = 0;
}
