/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a loaded object's dynamic symbol table: what finds the C library's own dlsym when the
 * name "dlsym" is ours. No allocation and no lock, so that it works before any constructor ran.
 */
#ifndef ALLOT_GUEST_PROCESS_LOOKUP_ELF_H
#define ALLOT_GUEST_PROCESS_LOOKUP_ELF_H

#include <link.h>

/*
 * The address of the default version of a function that an object defines, or NULL. `base` is the
 * object's load bias, `dynamic` its loaded dynamic section.
 */
void *lookup_elf_symbol(ElfW(Addr) base, const ElfW(Dyn) *dynamic, const char *name);

/* The name that an object gives itself, whatever that of its file; NULL: none. */
const char *lookup_elf_soname(ElfW(Addr) base, const ElfW(Dyn) *dynamic);

/* The dynamic section of an object that dl_iterate_phdr shows, or NULL. */
const ElfW(Dyn) *lookup_elf_dynamic(const struct dl_phdr_info *info);

#endif
