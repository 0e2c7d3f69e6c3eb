/* SPDX-License-Identifier: Apache-2.0 */
/* The Host of a request, and --listen: on loopback no name of a site is answered. */
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "daemon/web/listen.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct listen_address loopback, address = {.bytes = 0};
	char text[512];

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	MUST(listen_parse("127.0.0.1:9478", &loopback) == 0);
	if (listen_parse(text, &address) == 0)
		MUST(((struct sockaddr_in *)&address.at)->sin_port &&
		     strchr("0123456789", text[strlen(text) - 1]));
	else
		MUST(!address.bytes);
	if (listen_answers(&loopback, (struct sockaddr *)&loopback.at, text))
		MUST(!strncasecmp(text, "localhost", 9) ||
		     strspn(text, "0123456789abcdefABCDEF:.[]") >= 3);
	return 0;
}
