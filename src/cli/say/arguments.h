/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of every command, by argp. */
#ifndef ALLOT_CLI_SAY_ARGUMENTS_H
#define ALLOT_CLI_SAY_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>

/*
 * argp_parse(), but a long option behind one hyphen is an error that says so: argp would take
 * "-memory" for -m with "emory" for a value. Ends the program for it, as argp does for an option
 * that it does not know.
 */
error_t arguments_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			void *input);

/* True behind a table's last entry. The title of a group has no name, and is no end. */
bool arguments_at_end(const struct argp_option *option);

/* For a command that takes one tenant: takes its name; argp_error() for a second one. */
void arguments_take_tenant(struct argp_state *state, char *arg, const char **name);

/* The parser of a command that takes one word and no options, into a const char *. */
error_t arguments_take_one(int key, char *arg, struct argp_state *state);

#endif
