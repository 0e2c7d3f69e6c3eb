/* SPDX-License-Identifier: Apache-2.0 */
/* One of two trees of processes, with a buffer that the other has, and a TCP connection to it. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "holder.h"

#define ECHO_PORT	7777
#define ECHO_PATIENCE_S 20

static const struct sockaddr_in echo_at = {.sin_family = AF_INET,
					   .sin_port = __builtin_bswap16(ECHO_PORT),
					   .sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK)};

/* Gives back what it gets, one connection after the other. */
static void begin_echo(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;
	char byte;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (const void *)&echo_at, sizeof(echo_at)) || listen(listener, 1))
		wrong("no echo");
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while ((fd = accept(listener, NULL, NULL)) >= 0) {
			while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
				;
			close(fd);
		}
		_exit(0);
	}
	close(listener);
}

static void check_echo(int fd)
{
	char byte = 'x';

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = ECHO_PATIENCE_S},
		   sizeof(struct timeval));
	if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		wrong("the connection is cut");
}

/* Makes the buffer that the other tree has, and tells where in /tmp/outside. */
void outside(void)
{
	FILE *tell;
	int fd = node(0);

	begin_echo();
	tell = fopen("/tmp/outside", "w");
	fprintf(tell, "%d %d\n", (int)getpid(), export(fd, create(fd)));
	fclose(tell);
	rest();
}

int from_outside(void)
{
	FILE *told = fopen("/tmp/outside", "r");
	int pid, fd;

	if (!told || fscanf(told, "%d %d", &pid, &fd) != 2)
		wrong("/tmp/outside");
	fclose(told);
	return take(pid, fd);
}

void inside_descriptor(void)
{
	int fd = from_outside();

	dup2(fd, KEPT);
	close(fd);
	rest();
}

void inside_import(void)
{
	int fd = node(1);

	dup2(fd, KEPT);
	close(fd);
	import(KEPT, from_outside());
	rest();
}

void inside_connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (const void *)&echo_at, sizeof(echo_at)))
		wrong("no connection");
	check_echo(fd);
	inside_import();
	check_echo(fd);
}
