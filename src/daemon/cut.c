/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/cut.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t page_bytes;

/*
 * Only pages after the end of a file are replaced, once for each page: mmap is a bare system call.
 */
static void cut_replace(int sig, siginfo_t *info, void *context)
{
	void *page = (void *)((uintptr_t)info->si_addr & ~(page_bytes - 1));

	(void)context;
	if (info->si_code == BUS_ADRERR &&
	    mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == page)
		return;
	signal(sig, SIG_DFL);
}

int cut_survive(void)
{
	struct sigaction action = {.sa_sigaction = cut_replace, .sa_flags = SA_SIGINFO};

	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}
