/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that have something else start what they are given: a daemon, another machine, a process
 * in another root. Their environment ends there, and the tenant with it. They are recognised by
 * name, also behind `env`, `timeout` and the like.
 */
#ifndef ALLOT_CLI_EXEC_LAUNCHER_H
#define ALLOT_CLI_EXEC_LAUNCHER_H

/*
 * Warns if the programs that the command starts will not be limited, and says what to do instead.
 */
void launcher_warn(char *const *command);

/*
 * Returns the root in which `chroot` or `unshare` would start its program, if it lacks the library,
 * so that the loader would continue without it; else NULL.
 */
const char *launcher_bare_root(char *const *command, const char *library);

#endif
