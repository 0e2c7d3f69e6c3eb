/* SPDX-License-Identifier: Apache-2.0 */
/* One of two trees of processes, with a buffer that the other has. */
#include <stdio.h>
#include <unistd.h>

#include "holder.h"

/* Makes the buffer that the other tree has, and tells where in /tmp/outside. */
void outside(void)
{
	FILE *tell = fopen("/tmp/outside", "w");
	int fd = node(0);

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
