/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPT_DEPTH 5 /* the kernel's own bound on interpreters of interpreters */

static const char *program_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int program_check_executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	return 0;
}

int program_find(const char *command, char ret[static PATH_MAX])
{
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];
	int r, found = -ENOENT;

	if (!*command)
		return -ENOENT;
	if (strchr(command, '/')) {
		if (snprintf(candidate, PATH_MAX, "%s", command) >= PATH_MAX)
			return -ENAMETOOLONG;
		r = program_check_executable(candidate);
		if (!r)
			strcpy(ret, candidate);
		return r;
	}
	if (!path)
		path = "/bin:/usr/bin";
	for (const char *p = path;; p++) {
		size_t len = strcspn(p, ":");

		/* An empty element is the current directory. */
		if (snprintf(candidate, PATH_MAX, "%.*s%s%s", (int)len, p, len ? "/" : "./",
			     command) < PATH_MAX) {
			r = program_check_executable(candidate);
			if (!r) {
				strcpy(ret, candidate);
				return 0;
			}
			if (r == -EACCES)
				found = r;
		}
		p += len;
		if (!*p)
			return found;
	}
}

/*
 * The dynamic linker that PT_INTERP names, "" when there is none. -ENOEXEC when the file is no ELF
 * file that this machine's kernel could run as it is.
 */
static int program_read_interpreter(int fd, const Elf64_Ehdr *eh, char *ret, size_t size)
{
	*ret = 0;
	if (eh->e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;
		ssize_t n = pread(fd, &ph, sizeof(ph), (off_t)(eh->e_phoff + i * sizeof(ph)));

		if (n != (ssize_t)sizeof(ph))
			return -ENOEXEC;
		if (ph.p_type != PT_INTERP)
			continue;
		if (!ph.p_filesz || ph.p_filesz > size)
			return -ENOEXEC;
		n = pread(fd, ret, ph.p_filesz, (off_t)ph.p_offset);
		if (n != (ssize_t)ph.p_filesz)
			return -ENOEXEC;
		ret[ph.p_filesz - 1] = 0;
		return 0;
	}
	return 0;
}

/* The dynamic linker may be the command itself ("ld-linux-x86-64.so.2 ./app"): it preloads. */
static bool program_is_glibc_linker(const char *path)
{
	return !strncmp(program_base_name(path), "ld-linux", 8) ||
	       !strncmp(program_base_name(path), "ld64.so", 7);
}

static bool program_gains_privilege(const char *path, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != getuid())
		return true;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getgid())
		return true;
	return getuid() && getxattr(path, "security.capability", NULL, 0) > 0;
}

static enum program_kind program_elf_kind(int fd, const Elf64_Ehdr *eh, struct program *p)
{
	char real[PATH_MAX];

	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return PROGRAM_MACHINE;
#if defined(__x86_64__)
	if (eh->e_machine != EM_X86_64)
		return PROGRAM_MACHINE;
#elif defined(__aarch64__)
	if (eh->e_machine != EM_AARCH64)
		return PROGRAM_MACHINE;
#endif
	if (program_read_interpreter(fd, eh, p->interpreter, sizeof(p->interpreter)) < 0)
		return PROGRAM_STATIC;
	if (!p->interpreter[0]) {
		bool linker = program_is_glibc_linker(p->path) ||
			      (realpath(p->path, real) && program_is_glibc_linker(real));

		return linker ? PROGRAM_OK : PROGRAM_STATIC;
	}
	return program_is_glibc_linker(p->interpreter) ? PROGRAM_OK : PROGRAM_FOREIGN;
}

/*
 * The program that a script's first line names. For env(1) it is the first word that is neither an
 * option nor an assignment; that is a guess (options may take a word), so *ret_sure is false.
 */
static void program_script_interpreter(char *line, char *ret, size_t size, bool *ret_sure)
{
	char *save = NULL, *word;

	line[strcspn(line, "\n")] = 0;
	word = strtok_r(line + 2, " \t\r", &save);
	*ret_sure = !word || strcmp(program_base_name(word), "env");
	if (!*ret_sure) {
		do
			word = strtok_r(NULL, " \t\r", &save);
		while (word && (word[0] == '-' || strchr(word, '=')));
	}
	snprintf(ret, size, "%s", word ? word : "");
}

static int program_examine_file(const char *command, int depth, struct program *p)
{
	union {
		Elf64_Ehdr eh;
		char text[256];
	} head = {0};
	char next[256];
	struct stat st;
	bool sure;
	int fd, r;

	r = program_find(command, p->path);
	if (r < 0)
		return r;
	if (stat(p->path, &st) < 0)
		return -errno;
	fd = open(p->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno != EACCES)
		return -errno;
	if (fd < 0) { /* executable but not readable: no more to look at */
		if (program_gains_privilege(p->path, &st))
			p->kind = PROGRAM_SETID;
		return 0;
	}
	if (pread(fd, head.text, sizeof(head.text) - 1, 0) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	if (!memcmp(head.text, ELFMAG, SELFMAG)) {
		p->kind = program_elf_kind(fd, &head.eh, p);
		if (p->kind == PROGRAM_OK && program_gains_privilege(p->path, &st))
			p->kind = PROGRAM_SETID;
		close(fd);
		return 0;
	}
	close(fd);
	/* The kernel ignores setuid bits of scripts. No first line: execvp() gives it to sh. */
	if (strncmp(head.text, "#!", 2))
		return program_examine_file("/bin/sh", depth + 1, p);
	program_script_interpreter(head.text, next, sizeof(next), &sure);
	if (depth >= SCRIPT_DEPTH || !*next)
		return sure ? -ENOEXEC : 0;
	r = program_examine_file(next, depth + 1, p);
	return sure ? r : 0;
}

int program_examine(const char *command, struct program *ret)
{
	struct program p = {.kind = PROGRAM_OK};
	int r = program_examine_file(command, 0, &p);

	if (r < 0)
		return r;
	*ret = p;
	return 0;
}

const char *program_kind_words(enum program_kind kind)
{
	switch (kind) {
	case PROGRAM_STATIC:
		return "is statically linked";
	case PROGRAM_SETID:
		return "gains privileges (setuid, setgid or file capabilities)";
	case PROGRAM_FOREIGN:
		return "uses another libc than liballot.so";
	case PROGRAM_MACHINE:
		return "is built for another processor or word size than liballot.so";
	case PROGRAM_OK:
		break;
	}
	return "takes liballot.so";
}
