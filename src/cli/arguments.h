/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of every command, by argp. */
#ifndef ALLOT_CLI_ARGUMENTS_H
#define ALLOT_CLI_ARGUMENTS_H

#include <argp.h>

/*
 * argp_parse(), but a long option behind one hyphen is an error that says so: argp would take
 * "-memory" for -m with "emory" for a value. Ends the program for it, as argp does for an option
 * that it does not know.
 */
error_t arguments_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			void *input);

/* For a parser, of a command that is about one tenant: the first name, and an error for more. */
void arguments_take_tenant(struct argp_state *state, char *arg, const char **name);

#endif
