/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec and posix_spawn: a program that a tenant's process starts is of the tenant, also with an
 * environment that somebody cleaned. All else is the C library's: what is missing goes into a copy of
 * the environment's list, on the caller's stack.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "guest/process/inherit.h"
#include "guest/process/next.h"

#define EXPORT __attribute__((visibility("default")))

/* The copy lives until the calling function returns. */
#define EXEC_ENVIRONMENT(envp)                                                    \
	({                                                                        \
		char *const *envp_ = (envp);                                      \
		struct inherit inherit_;                                          \
		size_t room_ = inherit_look(envp_, &inherit_);                    \
		room_ ? inherit_fill(&inherit_, envp_, __builtin_alloca(room_)) : envp_; \
	})

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return next_libc()->execve(path, argv, EXEC_ENVIRONMENT(envp));
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return next_libc()->execvpe(file, argv, EXEC_ENVIRONMENT(envp));
}

EXPORT int execv(const char *path, char *const argv[])
{
	return next_libc()->execve(path, argv, EXEC_ENVIRONMENT(environ));
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return next_libc()->execvpe(file, argv, EXEC_ENVIRONMENT(environ));
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	return next_libc()->fexecve(fd, argv, EXEC_ENVIRONMENT(envp));
}

/* --- Arguments one by one ----------------------------------------------------------------------- */

/* How many there are behind the first, with the NULL at the end. */
static size_t exec_count(va_list *ap)
{
	size_t n = 1;

	while (va_arg(*ap, char *))
		n++;
	return n;
}

static void exec_take(char **argv, size_t n, const char *arg, va_list *ap)
{
	argv[0] = (char *)(uintptr_t)arg;
	for (size_t i = 1; i <= n; i++)
		argv[i] = va_arg(*ap, char *);
}

/* The list, on the caller's stack; `ap` is then behind its NULL, where execle has the environment. */
#define EXEC_LIST(arg, ap)                                      \
	({                                                      \
		size_t n_;                                      \
		char **argv_;                                   \
                                                                \
		va_start(ap, arg);                              \
		n_ = exec_count(&(ap));                         \
		va_end(ap);                                     \
		argv_ = __builtin_alloca((n_ + 1) * sizeof(*argv_));      \
		va_start(ap, arg);                              \
		exec_take(argv_, n_, arg, &(ap));               \
		argv_;                                          \
	})

EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	char **argv = EXEC_LIST(arg, ap);

	va_end(ap);
	return next_libc()->execve(path, argv, EXEC_ENVIRONMENT(environ));
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
	va_list ap;
	char **argv = EXEC_LIST(arg, ap);

	va_end(ap);
	return next_libc()->execvpe(file, argv, EXEC_ENVIRONMENT(environ));
}

EXPORT int execle(const char *path, const char *arg, ...)
{
	va_list ap;
	char **argv = EXEC_LIST(arg, ap);
	char *const *envp = va_arg(ap, char *const *);

	va_end(ap);
	return next_libc()->execve(path, argv, EXEC_ENVIRONMENT(envp));
}

/* --- Spawn --------------------------------------------------------------------------------------- */

#define SPAWN(name)                                                                               \
	EXPORT int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,  \
			const posix_spawnattr_t *attributes, char *const argv[],                  \
			char *const envp[])                                                       \
	{                                                                                         \
		return next_libc()->name(pid, path, actions, attributes, argv,                    \
					 EXEC_ENVIRONMENT(envp));                                 \
	}

SPAWN(posix_spawn)
SPAWN(posix_spawnp)
