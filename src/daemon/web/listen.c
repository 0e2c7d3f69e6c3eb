/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

#define HOST_BYTES 256 /* no name is longer */

/*
 * The kernel's buffer for an answer that is not taken: it is the daemon's memory, too, and by
 * default up to 4 MiB a connection. Progress shows in steps of a third of it.
 */
#define SEND_BYTES (64 << 10)

/* "host:port" or "[host]:port" in two; *ret_port is NULL without a port. */
static int listen_split(const char *text, char ret_host[static HOST_BYTES], const char **ret_port)
{
	bool bracket = text[0] == '[';
	const char *end = bracket ? strchr(text, ']') : text + strcspn(text, ":");
	size_t n;

	if (!end)
		return -EINVAL;
	text += bracket;
	n = (size_t)(end - text);
	end += bracket;
	/* Brackets are for addresses that have colons of their own. */
	if (bracket && !memchr(text, ':', n))
		return -EINVAL;
	/* A second colon outside of brackets: which one is the port's? */
	if (!n || n >= HOST_BYTES || (*end && *end != ':') || (*end && strchr(end + 1, ':')))
		return -EINVAL;
	memcpy(ret_host, text, n);
	ret_host[n] = '\0';
	*ret_port = *end ? end + 1 : NULL;
	return 0;
}

int listen_parse(const char *text, struct listen_address *ret)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct listen_address address = {.bytes = 0};
	struct addrinfo *found;
	char host[HOST_BYTES];
	const char *port;
	uint64_t number;

	if (listen_split(text, host, &port) < 0 || !port ||
	    parse_u64(port, 1, UINT16_MAX, &number) < 0 || getaddrinfo(host, NULL, &hints, &found))
		return -EINVAL;
	address.bytes = found->ai_addrlen;
	memcpy(&address.at, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	/* Both kinds have the port at the same place. */
	_Static_assert(offsetof(struct sockaddr_in, sin_port) ==
			       offsetof(struct sockaddr_in6, sin6_port), "");
	((struct sockaddr_in *)&address.at)->sin_port = htons((uint16_t)number);
	*ret = address;
	return 0;
}

int listen_open(const struct listen_address *address)
{
	CLEANUP_CLOSE int fd = socket(address->at.ss_family,
				      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, bytes = SEND_BYTES;

	if (fd < 0)
		return err_errno();
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)); /* connections inherit it */
	if (bind(fd, (const struct sockaddr *)&address->at, address->bytes) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		return err_errno();
	return TAKE_FD(fd);
}

/* --- Names ------------------------------------------------------------------------------------ */

/* Into IPv6 those of IPv4 are mapped: a socket of IPv6 serves both. */
static struct in6_addr listen_map(const struct in_addr *four)
{
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	memcpy(&mapped.s6_addr[12], four, sizeof(*four));
	return mapped;
}

static bool listen_as_ipv6(const struct sockaddr *address, struct in6_addr *ret)
{
	if (address->sa_family == AF_INET6)
		*ret = ((const struct sockaddr_in6 *)address)->sin6_addr;
	else if (address->sa_family == AF_INET)
		*ret = listen_map(&((const struct sockaddr_in *)address)->sin_addr);
	else
		return false;
	return true;
}

static bool listen_is_loopback(const struct in6_addr *address)
{
	return IN6_IS_ADDR_LOOPBACK(address) ||
	       (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

static bool listen_read_ipv6(const char *text, struct in6_addr *ret)
{
	struct in_addr four;

	if (inet_pton(AF_INET, text, &four) != 1)
		return inet_pton(AF_INET6, text, ret) == 1;
	*ret = listen_map(&four);
	return true;
}

bool listen_answers(const struct listen_address *address, const struct sockaddr *local,
		    const char *host)
{
	struct in6_addr here, told, asked;
	char name[HOST_BYTES];
	const char *port;

	if (!host || !listen_as_ipv6(local, &here) || !listen_is_loopback(&here))
		return true;
	if (listen_split(host, name, &port) < 0)
		return false;
	/* A tunnel has another port at its other end. */
	if (!strcasecmp(name, "localhost"))
		return true;
	if (!listen_read_ipv6(name, &asked))
		return false;
	return listen_is_loopback(&asked) ||
	       (listen_as_ipv6((const struct sockaddr *)&address->at, &told) &&
		IN6_ARE_ADDR_EQUAL(&asked, &told));
}
