/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/switch/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/guarded.h"

#define USER_OF_TOKEN "allot:"
#define PLAIN_BYTES   (sizeof(USER_OF_TOKEN) + TOKEN_MOST)
#define CODED_BYTES   ((PLAIN_BYTES + 2) / 3 * 4 + 1)

static int token_refuse(struct token_why *why, int error, const char *path, const char *words)
{
	snprintf(why->words, sizeof(why->words), "%s: %s", path, words);
	return error;
}

/* Without white space at its end. -EINVAL. */
static int token_take(char *text, size_t n, struct token *ret)
{
	while (n && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n < TOKEN_LEAST || n > TOKEN_MOST)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return -EINVAL;
	*ret = (struct token){""};
	memcpy(ret->s, text, n);
	return 0;
}

int token_read(const char *path, struct token *ret, struct token_why *why)
{
	struct guarded_why guarded = {.words = NULL};
	CLEANUP_CLOSE int fd = -EBADF;
	char text[TOKEN_MOST + 64];
	struct stat st;
	ssize_t n;

	/* To open a pipe that nobody writes to would take for ever. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return token_refuse(why, -EINVAL, path, "it is not a regular file");
	fd = guarded_open(path, &guarded);
	if (fd < 0)
		return guarded.words ? token_refuse(why, fd, guarded.path, guarded.words)
				     : token_refuse(why, fd, path, strerror(-fd));
	if (fstat(fd, &st) < 0)
		return token_refuse(why, err_errno(), path, strerror(errno));
	if (st.st_mode & 077)
		return token_refuse(why, -EPERM, path, "others may read it; chmod 600");
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return token_refuse(why, err_errno(), path, strerror(errno));
	/* A full buffer: what follows is not known. */
	if ((size_t)n == sizeof(text) || token_take(text, (size_t)n, ret) < 0)
		return token_refuse(why, -EINVAL, path,
				    "it is to have one line of 16 to 255 letters, digits and signs, "
				    "without a space");
	return 0;
}

static void token_encode(const char *plain, char ret[static CODED_BYTES])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(plain), at = 0;

	for (size_t i = 0; i < n; i += 3) {
		unsigned int left = (unsigned int)(n - i), three = (unsigned char)plain[i] << 16;

		three |= left > 1 ? (unsigned int)(unsigned char)plain[i + 1] << 8 : 0;
		three |= left > 2 ? (unsigned char)plain[i + 2] : 0;
		ret[at++] = digits[three >> 18];
		ret[at++] = digits[three >> 12 & 63];
		ret[at++] = left > 1 ? digits[three >> 6 & 63] : '=';
		ret[at++] = left > 2 ? digits[three & 63] : '=';
	}
	ret[at] = '\0';
}

/* Looks at all of `asked`, wherever the first difference is. */
static bool token_equals(const char *right, const char *asked)
{
	size_t n = strlen(right), bytes = strlen(asked);
	volatile unsigned char differs = n != bytes;

	for (size_t i = 0; i < bytes; i++)
		differs |= (unsigned char)(asked[i] ^ right[i % (n + 1)]);
	return !differs;
}

bool token_is_in(const struct token *token, const char *authorization)
{
	char plain[PLAIN_BYTES], coded[CODED_BYTES];

	if (!authorization)
		return false;
	if (!strncasecmp(authorization, "Bearer ", strlen("Bearer ")))
		return token_equals(token->s, authorization + strlen("Bearer "));
	if (strncasecmp(authorization, "Basic ", strlen("Basic ")) != 0)
		return false;
	snprintf(plain, sizeof(plain), USER_OF_TOKEN "%s", token->s);
	token_encode(plain, coded);
	return token_equals(coded, authorization + strlen("Basic "));
}
