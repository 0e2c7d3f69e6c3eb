/* SPDX-License-Identifier: Apache-2.0 */
/* What others wrote is fit to be shown: no byte of it moves a cursor, or turns a line around. */
#include "text/text.h"

#include <locale.h>
#include <string.h>

#include "tests/check.h"

static void check(const char *written, const char *expected)
{
	char text[64];

	strcpy(text, written);
	text_make_printable(text);
	if (strcmp(text, expected))
		fprintf(stderr, "\"%s\", not \"%s\"\n", text, expected);
	CHECK(!strcmp(text, expected));
}

static void check_printable(void)
{
	check("python3 train.py", "python3 train.py");
	check("M\xc3\xbc \xe2\x82\xac \xf0\x9f\x90\xa7", "M\xc3\xbc \xe2\x82\xac \xf0\x9f\x90\xa7");
	check("a\033[2Jb\x7f\n", "a?[2Jb??");
	/* Not UTF-8: as one byte each. */
	check("\xff\xc3", "??");
	/* U+0080 to U+009F are control characters, too: U+009B is what ESC [ is. */
	check("a\xc2\x9b" "2Jb", "a?2Jb");
	check("\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0");
	/* Those that turn the direction, for what stands behind them on the line, too. */
	check("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c",
	      "???????");
	/* Line and paragraph separators. */
	check("\xe2\x80\xa8\xe2\x80\xa9", "??");
	check("\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
	      "\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa");
}

static void clip(const char *written, size_t columns, const char *expected)
{
	char text[64];

	strcpy(text, written);
	text_clip(text, columns);
	CHECK(!strcmp(text, expected));
	CHECK(text_columns(text) <= columns);
}

/* By columns, between characters. */
static void check_clip(void)
{
	char text[] = "a\xe2\x96\x88z\xf0\x9f\x90\xa7";

	clip("abcdef", 3, "abc");
	clip("abc", 3, "abc");
	clip("abc", 0, "");
	clip("\xe2\x96\x88\xe2\x96\x88", 1, "\xe2\x96\x88");
	if (setlocale(LC_CTYPE, "C.UTF-8")) {
		CHECK_EQ(text_columns("\xe6\x97\xa5\xe6\x9c\xac"), 4);
		clip("\xe6\x97\xa5\xe6\x9c\xac", 3, "\xe6\x97\xa5");
		/* One that stands above the one before. */
		clip("e\xcc\x81x", 1, "e\xcc\x81");
	}
	text_make_ascii(text);
	CHECK(!strcmp(text, "a?z?"));
}

static void clip_middle(const char *written, size_t columns, const char *expected)
{
	char text[64];

	strcpy(text, written);
	text_clip_middle(text, columns);
	CHECK(!strcmp(text, expected));
	CHECK(text_columns(text) <= columns);
}

static void check_clip_middle(void)
{
	clip_middle("research/train-7/main", 12, "resea../main");
	clip_middle("research/train-7/main", 11, "resea..main");
	clip_middle("abcdefg", 6, "ab..fg");
	clip_middle("abcdef", 6, "abcdef");
	clip_middle("abcdef", 5, "abcde");
	clip_middle("abcdef", 0, "");
	clip_middle("\xe2\x96\x88\xe2\x96\x88zzz\xe2\x96\x88\xe2\x96\x88", 6,
		    "\xe2\x96\x88\xe2\x96\x88..\xe2\x96\x88\xe2\x96\x88");
	if (setlocale(LC_CTYPE, "C.UTF-8"))
		clip_middle("a\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac", 8,
			    "a\xe6\x97\xa5..\xe6\x9c\xac");
}

int main(void)
{
	check_printable();
	check_clip();
	check_clip_middle();
	return 0;
}
