/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/container/image.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/say/say.h"
#include "cli/tenant/program.h"

/* The loader of programs that a statically linked program starts. */
#if defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
#else
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#endif

/*
 * True if a loader reads /etc/ld.so.preload: its file contains that name. Loaders of other libcs do
 * not, and some systems' builds of glibc use another name.
 */
static bool image_loader_preloads(const char *path)
{
	static const char name[] = "/etc/ld.so.preload";
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool found;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	found = memmem(map, (size_t)st.st_size, name, sizeof(name));
	munmap(map, (size_t)st.st_size);
	return found;
}

static int image_refuse(const char *path, const char *why)
{
	return say_error("%s of the image %s, so its programs would run without a limit; take an "
			 "image with glibc 2.17 or newer, like Debian's or Ubuntu's",
			 path, why);
}

int image_check(const struct container *container)
{
	struct program program = {.kind = PROGRAM_STATIC};
	const char *loader = LOADER;

	/* A working directory that is not there yet the runtime makes later. */
	if (chroot(container->root) < 0 || (chdir(container->cwd) < 0 && chdir("/") < 0) ||
	    setenv("PATH", container->path, 1) < 0)
		return say_error("%s: %s", container->root, say_errno(errno));
	/* The runtime will complain of a program that is not found. */
	program_examine(container->program, &program);
	if (program.kind == PROGRAM_FOREIGN || program.kind == PROGRAM_MACHINE)
		return image_refuse(program.path, program_kind_words(program.kind));
	if (program.interpreter[0])
		loader = program.interpreter;
	return image_loader_preloads(loader)
		       ? 0
		       : image_refuse(loader, "is not there, or reads no /etc/ld.so.preload");
}
