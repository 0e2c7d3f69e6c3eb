/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of allotd as they are written, and the names by which it may be asked. */
#include "daemon/web/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "tests/check.h"

static struct listen_address address(const char *text)
{
	struct listen_address a;

	CHECK_EQ(listen_parse(text, &a), 0);
	return a;
}

static void check_ports(void)
{
	static const char *const wrong[] = {
		"127.0.0.1:0",	   "127.0.0.1:65536", "127.0.0.1:65616", "127.0.0.1:80000",
		"127.0.0.1:-1",	   "127.0.0.1:",      "127.0.0.1",	 "[::1]",
		"[::1]:0",	   "[::1]9478",	      "::1:9478",	 "localhost:9478",
		"[127.0.0.1]:80",
		"127.0.0.1:18446744073709551617",     ":9478",		 "",
	};
	struct listen_address a = {.bytes = 7};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_EQ(listen_parse(wrong[i], &a), -EINVAL);
	CHECK_EQ(a.bytes, 7);
	a = address("127.0.0.1:1");
	CHECK_EQ(ntohs(((struct sockaddr_in *)&a.at)->sin_port), 1);
	a = address("[::1]:65535");
	CHECK_EQ(a.at.ss_family, AF_INET6);
	CHECK_EQ(ntohs(((struct sockaddr_in6 *)&a.at)->sin6_port), 65535);
}

/* On a connection to `local` of an allotd that listens on `on`. */
static bool answers(const char *on, const char *local, const char *host)
{
	struct listen_address listened = address(on), at = address(local);

	return listen_answers(&listened, (struct sockaddr *)&at.at, host);
}

static void check_names(void)
{
	static const char *const loopback[] = {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1",
					       "[::ffff:127.0.0.1]:1"};
	static const char *const meant[] = {"localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:9",
					    "[::1]",	 "[::1]:9478", "[::ffff:127.0.0.1]"};
	static const char *const others[] = {"evil",	    "localhost.evil", "evil.localhost",
					     "127.0.0.1.x", "",		      ":9478",
					     "[::1",	    "10.0.0.1",	      "[::2]",
					     "0.0.0.0",	    "localhost:9:9",  "[localhost]",
					     "[127.0.0.1]"};

	for (size_t l = 0; l < sizeof(loopback) / sizeof(loopback[0]); l++) {
		for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++)
			CHECK(answers("[::]:9478", loopback[l], meant[i]));
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			CHECK(!answers("[::]:9478", loopback[l], others[i]));
		/* No browser's. */
		CHECK(answers("[::]:9478", loopback[l], NULL));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK(answers("0.0.0.0:9478", "10.0.0.1:9478", others[i]));
	CHECK(answers("0.0.0.0:9478", "127.0.0.1:1", "0.0.0.0:9478"));
	CHECK(answers("10.0.0.1:9478", "127.0.0.1:1", "10.0.0.1"));
	CHECK(answers("[::]:9478", "[::1]:1", "[::]:9478"));
}

int main(void)
{
	check_ports();
	check_names();
	return 0;
}
