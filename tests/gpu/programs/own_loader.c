/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_loader PROGRAM [ARGUMENT...]: linked statically, so the kernel starts it without ld.so(8) and
 * nothing is preloaded. It brings ld.so into its own process then, as packed programs do, and has
 * it load PROGRAM, which uses the driver, with an environment that names no library to preload.
 * dlopen would not do: threads cannot be started by the C library that it brings into a static
 * program, and the driver starts some.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 8192 /* of arguments, environment and what the kernel tells */

/* An ELF file's beginning. */
struct file {
	int fd;
	union {
		Elf64_Ehdr head;
		char bytes[4096];
	};
};

static _Noreturn void fail(const char *what, const char *path)
{
	printf("{\"stage\": \"error\", \"what\": \"%s: %s\", \"code\": -1}\n", path, what);
	exit(1);
}

static const Elf64_Phdr *segments(const struct file *file)
{
	return (const Elf64_Phdr *)(file->bytes + file->head.e_phoff);
}

static struct file take(const char *path)
{
	struct file file = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	ssize_t n = file.fd < 0 ? -1 : pread(file.fd, file.bytes, sizeof(file.bytes), 0);

	if (n < (ssize_t)sizeof(file.head))
		fail("cannot be read", path);
	if (memcmp(file.head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.head.e_phoff + file.head.e_phnum * sizeof(Elf64_Phdr) > (size_t)n)
		fail("no ELF program", path);
	return file;
}

static void interpreter(const struct file *file, const char *path, char ret[static 256])
{
	const Elf64_Phdr *s = segments(file);
	ssize_t n = -1;

	for (int i = 0; i < file->head.e_phnum; i++)
		if (s[i].p_type == PT_INTERP && s[i].p_filesz <= 256)
			n = pread(file->fd, ret, s[i].p_filesz, (off_t)s[i].p_offset);
	if (n <= 0 || ret[n - 1])
		fail("names no ld.so", path);
}

static void map_one(const struct file *file, const Elf64_Phdr *s, char *base, const char *path)
{
	int prot = (s->p_flags & PF_R ? PROT_READ : 0) | (s->p_flags & PF_W ? PROT_WRITE : 0) |
		   (s->p_flags & PF_X ? PROT_EXEC : 0);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t before = s->p_vaddr % page, in_file = before + s->p_filesz;
	uint64_t whole = (in_file + page - 1) / page * page;
	char *at = base + s->p_vaddr - before;

	if (mmap(at, in_file, prot, MAP_PRIVATE | MAP_FIXED, file->fd,
		 (off_t)(s->p_offset - before)) == MAP_FAILED)
		fail("cannot be mapped", path);
	if (s->p_memsz == s->p_filesz)
		return;
	memset(at + in_file, 0, whole - in_file);
	if (before + s->p_memsz > whole &&
	    mmap(at + whole, before + s->p_memsz - whole, prot,
		 MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		fail("cannot be mapped", path);
}

static char *map(const struct file *file, const char *path)
{
	const Elf64_Phdr *s = segments(file);
	uint64_t end = 0;
	char *base;

	for (int i = 0; i < file->head.e_phnum; i++)
		if (s[i].p_type == PT_LOAD && s[i].p_vaddr + s[i].p_memsz > end)
			end = s[i].p_vaddr + s[i].p_memsz;
	base = mmap(NULL, end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		fail("no room for it", path);
	for (int i = 0; i < file->head.e_phnum; i++)
		if (s[i].p_type == PT_LOAD)
			map_one(file, &s[i], base, path);
	return base;
}

/* As the kernel would tell it, had it been asked to run ld.so. */
static uint64_t told(const Elf64_auxv_t *aux, const struct file *file, const char *base)
{
	switch (aux->a_type) {
	case AT_PHDR:
		return (uintptr_t)base + file->head.e_phoff;
	case AT_PHENT:
		return file->head.e_phentsize;
	case AT_PHNUM:
		return file->head.e_phnum;
	case AT_ENTRY:
		return (uintptr_t)base + file->head.e_entry;
	case AT_BASE:
		return 0;
	default:
		return aux->a_un.a_val;
	}
}

static _Noreturn void jump(const uint64_t *stack, uint64_t entry)
{
#if defined(__x86_64__)
	__asm__ volatile("mov %0, %%rsp\n\txor %%edx, %%edx\n\tjmp *%1"
			 :
			 : "r"(stack), "r"(entry)
			 : "rdx", "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov sp, %0\n\tmov x0, xzr\n\tbr %1"
			 :
			 : "r"(stack), "r"(entry)
			 : "x0", "memory");
#endif
	__builtin_unreachable();
}

static bool is_preload(const char *variable)
{
	return !strncmp(variable, "LD_PRELOAD=", 11) || !strncmp(variable, "LD_AUDIT=", 9);
}

/* What a program finds on its stack: arguments, environment, and what the kernel tells. */
static void fill(uint64_t words[static WORDS], int argc, char **argv, const struct file *file,
		 const char *base)
{
	char **env = argv + argc + 1;
	const Elf64_auxv_t *aux;
	size_t n = 0, nenv = 0, naux = 0;

	while (env[nenv])
		nenv++;
	aux = (const Elf64_auxv_t *)(env + nenv + 1);
	while (aux[naux++].a_type != AT_NULL)
		;
	if ((size_t)argc + nenv + 2 * naux + 4 > WORDS)
		fail("too large an environment", argv[1]);
	words[n++] = (uint64_t)argc;
	for (int i = 0; i <= argc; i++)
		words[n++] = (uintptr_t)argv[i];
	for (size_t i = 0; i < nenv; i++)
		if (!is_preload(env[i]))
			words[n++] = (uintptr_t)env[i];
	words[n++] = 0;
	for (size_t i = 0; i < naux; i++) {
		words[n++] = aux[i].a_type;
		words[n++] = told(&aux[i], file, base);
	}
}

int main(int argc, char **argv)
{
	/* On the stack, where ld.so looks for it; what is below is free for ld.so. */
	_Alignas(16) uint64_t words[WORDS];
	struct file program, loader;
	char path[256];
	char *base;

	if (argc < 2)
		return 2;
	program = take(argv[1]);
	interpreter(&program, argv[1], path);
	loader = take(path);
	base = map(&loader, path);
	fill(words, argc, argv, &loader, base);
	jump(words, (uintptr_t)base + loader.head.e_entry);
}
