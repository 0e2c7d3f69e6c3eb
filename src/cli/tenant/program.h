/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examines a command for preloading: a program that the dynamic linker will not give liballot.so to
 * would run without a quota. Reads files only.
 */
#ifndef ALLOT_CLI_TENANT_PROGRAM_H
#define ALLOT_CLI_TENANT_PROGRAM_H

#include <limits.h>

enum program_kind {
	PROGRAM_OK,	 /* takes LD_PRELOAD */
	PROGRAM_STATIC,	 /* no dynamic linker */
	PROGRAM_SETID,	 /* the dynamic linker ignores LD_PRELOAD (setuid, setgid, capabilities) */
	PROGRAM_FOREIGN, /* another libc's dynamic linker */
	PROGRAM_MACHINE, /* another word size or processor than liballot.so */
};

struct program {
	enum program_kind kind;
	char path[PATH_MAX];   /* the file that decided: the command, or its script's interpreter */
	char interpreter[256]; /* its dynamic linker, "" if none */
};

/*
 * Finds `command` as execvp() would and looks at it; a script is followed to its interpreter, and
 * through env(1). Returns 0; -ENOENT when there is no such command, -EACCES and others when it
 * cannot be executed.
 */
int program_examine(const char *command, struct program *ret);

/*
 * The file of a command as execvp() finds it: a name with a slash is a path; else PATH, where
 * EACCES is remembered. 0, -ENOENT or -EACCES.
 */
int program_find(const char *command, char ret[static PATH_MAX]);

/* "is statically linked", for a kind other than PROGRAM_OK. */
const char *program_kind_words(enum program_kind kind);

#endif
