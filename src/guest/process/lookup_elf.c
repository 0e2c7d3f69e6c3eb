/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/lookup_elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct tables {
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Half) *versions; /* may be NULL */
	const uint32_t *gnu_hash;   /* one of the two hash tables at least */
	const uint32_t *sysv_hash;
};

#define VERSION_HIDDEN 0x8000 /* not the default version of its name */

/* glibc relocates these in place on most machines; where it does not they are offsets. */
static const void *lookup_elf_at(ElfW(Addr) base, ElfW(Addr) ptr)
{
	return (const void *)(ptr < base ? base + ptr : ptr);
}

static struct tables lookup_elf_read(ElfW(Addr) base, const ElfW(Dyn) * dynamic)
{
	struct tables t = {0};

	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
		const void *p = lookup_elf_at(base, d->d_un.d_ptr);

		switch (d->d_tag) {
		case DT_SYMTAB:
			t.symbols = p;
			break;
		case DT_STRTAB:
			t.strings = p;
			break;
		case DT_VERSYM:
			t.versions = p;
			break;
		case DT_GNU_HASH:
			t.gnu_hash = p;
			break;
		case DT_HASH:
			t.sysv_hash = p;
			break;
		}
	}
	return t;
}

static bool lookup_elf_matches(const struct tables *t, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &t->symbols[i];

	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC)
		return false;
	if (t->versions && (t->versions[i] & VERSION_HIDDEN))
		return false;
	return text_same(t->strings + s->st_name, name);
}

/* The index of a name, or 0, which is never a defined symbol. */
static uint32_t lookup_elf_find_gnu(const struct tables *t, const char *name)
{
	uint32_t n = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2];
	const uint32_t *buckets = t->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + n;
	uint32_t h = 5381;

	for (const char *c = name; *c; c++)
		h = h * 33 + (unsigned char)*c;
	for (uint32_t i = n ? buckets[h % n] : 0; i && i >= first; i++) {
		uint32_t v = chain[i - first];

		/* The lowest bit marks the end of a chain; the rest is the hash. */
		if ((v | 1) == (h | 1) && lookup_elf_matches(t, i, name))
			return i;
		if (v & 1)
			break;
	}
	return 0;
}

static uint32_t lookup_elf_find_sysv(const struct tables *t, const char *name)
{
	uint32_t n = t->sysv_hash[0], h = 0;
	const uint32_t *buckets = t->sysv_hash + 2, *chain = buckets + n;

	for (const char *c = name; *c; c++) {
		h = (h << 4) + (unsigned char)*c;
		h = (h ^ ((h & 0xf0000000) >> 24)) & 0x0fffffff;
	}
	for (uint32_t i = n ? buckets[h % n] : 0; i; i = chain[i])
		if (lookup_elf_matches(t, i, name))
			return i;
	return 0;
}

void *lookup_elf_symbol(ElfW(Addr) base, const ElfW(Dyn) *dynamic, const char *name)
{
	struct tables t = lookup_elf_read(base, dynamic);
	uint32_t i = 0;

	if (!t.symbols || !t.strings)
		return NULL;
	if (t.gnu_hash)
		i = lookup_elf_find_gnu(&t, name);
	else if (t.sysv_hash)
		i = lookup_elf_find_sysv(&t, name);
	return i ? (void *)(base + t.symbols[i].st_value) : NULL;
}

const char *lookup_elf_soname(ElfW(Addr) base, const ElfW(Dyn) *dynamic)
{
	struct tables t = lookup_elf_read(base, dynamic);

	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME && t.strings)
			return t.strings + d->d_un.d_val;
	return NULL;
}

const ElfW(Dyn) *lookup_elf_dynamic(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}
