/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to people on stderr: one line that says what failed, on which object, why, and what to
 * do. Everything below the commands returns -errno and stays silent.
 */
#ifndef ALLOT_CLI_SAY_SAY_H
#define ALLOT_CLI_SAY_SAY_H

/* The prefix of every line: "allot", or "allot run". The string must outlive the program. */
void say_as(const char *name);

/* Prints "<name>: <message>" and returns EXIT_ALLOT. */
int say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same, and returns `answer`: an exit status, or -errno. */
int say_fail(int answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a message that does not stop the command. */
void say_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The words for an errno or a -errno. */
const char *say_errno(int err);

#endif
