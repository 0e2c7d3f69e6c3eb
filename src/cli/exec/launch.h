/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From allot to the command: the environment, the exec in place, and, where something must be
 * cleaned up afterwards, a parent that is as transparent as a parent can be.
 */
#ifndef ALLOT_CLI_EXEC_LAUNCH_H
#define ALLOT_CLI_EXEC_LAUNCH_H

/*
 * Puts `item` in front of the list in the variable (LD_PRELOAD, LD_LIBRARY_PATH), once: an item
 * that is already in it moves to the front. ld.so separates the one by ": ", the other by ":;".
 */
int launch_prepend(const char *variable, const char *item, const char *separators);

/* execvp(); when that fails, says why and returns 126 or 127 as env(1) does. */
int launch_exec(char **argv);

/* The same for a command that is known to fail with -errno. */
int launch_cannot(const char *command, int err);

/*
 * Runs the command as a child: forwards every signal that is sent to this process, stops and
 * continues with it, and writes its wait status. The child is in the same process group, so the
 * terminal's signals reach it directly and are not sent twice. Signals stay blocked afterwards, so
 * that cleaning up is not interrupted. `enter`, if not NULL, is called in the child before it
 * becomes the command, and may return an exit status to end with instead. Returns 0 or an exit
 * status (allot's own error).
 */
int launch_supervised(char **argv, int (*enter)(void *arg), void *arg, int *ret_status);

/* Ends as the command did: returns its status, or 128+n after raising its signal in vain. */
int launch_end_as(int wait_status);

#endif
