/* SPDX-License-Identifier: Apache-2.0 */
/* Where the machine is that this process is to see, and whose answers its driver gives. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/kfd/emu.h"
#include "sim/kfd/kernel.h"

const char *emu_root(void)
{
	static char root[PATH_MAX];
	const char *dir;

	/* Written once with the same bytes, whoever is first; the last store shows it. */
	if (!root[0] && (dir = getenv("ALLOT_SIM_DIR")) && *dir == '/') {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/amd", dir);

		if (n < PATH_MAX && !syscall(SYS_faccessat, AT_FDCWD, path, X_OK)) {
			memcpy(root + 1, path + 1, (size_t)n);
			__atomic_store_n(&root[0], '/', __ATOMIC_RELEASE);
		}
	}
	return __atomic_load_n(&root[0], __ATOMIC_ACQUIRE) ? root : "";
}

/* A tree that does not say it is of tests, which write their own. */
static uint32_t root_read_kernel(void)
{
	char path[PATH_MAX], text[16] = "";
	uint32_t kernel;
	ssize_t n = -1;
	int fd;

	if (snprintf(path, sizeof(path), "%s" KERNEL_FILE, emu_root()) >= (int)sizeof(path))
		return KERNEL_NEWEST;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		syscall(SYS_close, fd);
	}
	text[strcspn(text, "\n")] = '\0';
	return n > 0 && kernel_parse(text, &kernel) == 0 ? kernel : KERNEL_NEWEST;
}

uint32_t emu_kernel(void)
{
	static uint32_t kernel; /* written once with the same value, whoever is first */
	uint32_t found = __atomic_load_n(&kernel, __ATOMIC_RELAXED);

	if (!found) {
		found = root_read_kernel();
		__atomic_store_n(&kernel, found, __ATOMIC_RELAXED);
	}
	return found;
}

bool emu_answers(enum kernel_change change)
{
	return kernel_answers(emu_kernel(), change);
}
