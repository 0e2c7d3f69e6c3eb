/* SPDX-License-Identifier: Apache-2.0 */
/* The token of those who switch tenants: which files have one, and which headers. */
#include "daemon/switch/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static char path[] = "/tmp/allot-token-XXXXXX";
static struct token_why why;

static int read_text(const char *text, size_t n, mode_t mode, struct token *ret)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n && fchmod(fd, mode) == 0);
	close(fd);
	return token_read(path, ret, &why);
}

static int read_line(const char *text, struct token *ret)
{
	return read_text(text, strlen(text), 0600, ret);
}

static void check_files(void)
{
	struct token token = {"left alone"};
	char long_line[400];

	memset(long_line, 'x', sizeof(long_line));
	CHECK_EQ(read_line("0123456789abcde\n", &token), -EINVAL); /* 15 */
	CHECK_EQ(read_line("", &token), -EINVAL);
	CHECK_EQ(read_line("0123456789 abcdef\n", &token), -EINVAL);
	CHECK_EQ(read_line("0123456789abcdef\n0123456789abcdef\n", &token), -EINVAL);
	CHECK_EQ(read_text("0123456789abcdef\0ghi", 20, 0600, &token), -EINVAL);
	CHECK_EQ(read_line("0123456789abcde\xc3\xa4", &token), -EINVAL);
	CHECK_EQ(read_text(long_line, 256, 0600, &token), -EINVAL);
	CHECK_EQ(read_text(long_line, sizeof(long_line), 0600, &token), -EINVAL);
	memset(long_line + 16, '\n', sizeof(long_line) - 16);
	CHECK_EQ(read_text(long_line, 300, 0600, &token), 0);
	token = (struct token){"left alone"};
	CHECK_EQ(read_text(long_line, sizeof(long_line), 0600, &token), -EINVAL);
	memset(long_line, 'x', sizeof(long_line));
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(token_read(path, &token, &why), -EINVAL);
	CHECK_EQ(unlink(path), 0);
	close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600));
	for (mode_t bit = 1; bit <= 040; bit <<= 1) {
		CHECK_EQ(read_text("0123456789abcdef", 16, 0600 | bit, &token), -EPERM);
		CHECK(strstr(why.words, path));
	}
	CHECK(!strcmp(token.s, "left alone"));
	CHECK_EQ(read_text(long_line, 255, 0600, &token), 0);
	CHECK_EQ(strlen(token.s), 255);
	CHECK_EQ(read_line("0123456789abcdef \r\n", &token), 0);
	CHECK(!strcmp(token.s, "0123456789abcdef"));
	CHECK_EQ(token_read("/tmp/allot-no-such-token", &token, &why), -ENOENT);
	CHECK(strstr(why.words, "/tmp/allot-no-such-token"));
}

static void check_headers(void)
{
	const struct token token = {"0123456789abcdef"};
	static const char *const wrong[] = {
		"", "Bearer", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcde",
		"Bearer 0123456789abcdefg", "Bearer  0123456789abcdef", "Bearer 0123456789ABCDEF",
		"Bearer 0123456789abcdef ", "Digest 0123456789abcdef", "Basic", "Basic ",
		"Basic 0123456789abcdef",
		"Basic YWxsb3Q6MDEyMzQ1Njc4OWFiY2RlZh==", /* other bits behind the end */
		"Basic cm9vdDowMTIzNDU2Nzg5YWJjZGVm",     /* root's */
	};
	char long_one[8000] = "Bearer ";

	CHECK(!token_is_in(&token, NULL));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(!token_is_in(&token, wrong[i]));
	for (size_t n = strlen(long_one); n < sizeof(long_one) - 17; n += 17)
		memcpy(long_one + n, "0123456789abcdef", 17);
	CHECK(token_is_in(&token, long_one)); /* up to its end */
	memset(long_one + 7, '0', sizeof(long_one) - 8);
	CHECK(!token_is_in(&token, long_one));
	CHECK(token_is_in(&token, "Bearer 0123456789abcdef"));
	CHECK(token_is_in(&token, "bearer 0123456789abcdef"));
	CHECK(token_is_in(&token, "Basic YWxsb3Q6MDEyMzQ1Njc4OWFiY2RlZg=="));
	CHECK(token_is_in(&(struct token){"0123456789abcdefg"},
			  "Basic YWxsb3Q6MDEyMzQ1Njc4OWFiY2RlZmc="));
	CHECK(token_is_in(&(struct token){"0123456789abcdefgh"},
			  "Basic YWxsb3Q6MDEyMzQ1Njc4OWFiY2RlZmdo"));
}

int main(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	check_files();
	check_headers();
	unlink(path);
	return 0;
}
