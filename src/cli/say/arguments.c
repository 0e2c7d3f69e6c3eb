/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/say/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "cli/say/exit_status.h"
#include "cli/say/say.h"

/* Options that argp adds to those of each command. */
static const struct argp_option own[] = {
	{.name = "help"}, {.name = "usage"}, {.name = "version"}, {0}};

bool arguments_at_end(const struct argp_option *option)
{
	return !option->key && !option->name && !option->doc;
}

static bool arguments_is(const struct argp_option *option, const char *word, size_t len,
			 bool letter)
{
	if (letter)
		return len == 1 && option->key == *word;
	if (!option->name) /* a group's title */
		return false;
	return strlen(option->name) == len && !strncmp(option->name, word, len);
}

/* The option of a name, or of a letter, in a table. NULL: there is none. */
static const struct argp_option *arguments_find_in(const struct argp_option *table,
						   const char *word, size_t len, bool letter)
{
	for (; table && !arguments_at_end(table); table++)
		if (arguments_is(table, word, len, letter))
			return table;
	return NULL;
}

static const struct argp_option *arguments_find(const struct argp *argp, const char *word,
						bool letter)
{
	size_t len = strcspn(word, "=");
	const struct argp_option *option = arguments_find_in(argp->options, word, len, letter);

	for (const struct argp_child *c = argp->children; !option && c && c->argp; c++)
		option = arguments_find_in(c->argp->options, word, len, letter);
	return option ? option : arguments_find_in(own, word, len, letter);
}

/* As far as `--`, or the first word that is no option where the rest is a command. */
static void arguments_check_hyphens(const struct argp *argp, int argc, char *const *argv,
				    bool in_order)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		const char *word = argv[i];
		const struct argp_option *option;
		bool one = word[0] == '-' && word[1] != '-';

		if (word[0] != '-' && in_order)
			break;
		if (word[0] != '-')
			continue;
		if (one && word[1] && word[2] && arguments_find(argp, word + 1, false))
			exit(say_error("%s: one hyphen is for one letter; write -%s", word, word));
		option = arguments_find(argp, word + (one ? 1 : 2), one);
		/* The next word is its value, whatever it looks like. */
		if (option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL) &&
		    !strchr(word, '='))
			i++;
	}
}

error_t arguments_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			void *input)
{
	arguments_check_hyphens(argp, argc, argv, flags & ARGP_IN_ORDER);
	return argp_parse(argp, argc, argv, flags, NULL, input);
}

void arguments_take_tenant(struct argp_state *state, char *arg, const char **name)
{
	if (*name)
		argp_error(state, "one tenant at a time: \"%s\" and \"%s\"", *name, arg);
	*name = arg;
}

error_t arguments_take_one(int key, char *arg, struct argp_state *state)
{
	const char **word = state->input;

	if (key != ARGP_KEY_ARG || *word)
		return ARGP_ERR_UNKNOWN;
	*word = arg;
	return 0;
}
