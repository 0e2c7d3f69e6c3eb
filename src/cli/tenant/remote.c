/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "control/ask.h"
#include "ledger/shared_file.h"
#include "node/tenants.h"
#include "text/text.h"

/* If many ask at once, allotd refuses some, which try again for some seconds. */
#define TRIES	   100
#define NAP_MIN_US 1000
#define NAP_MAX_US 50000

int remote_find(uid_t user, char ret_runtime[static PATH_MAX])
{
	int r = user ? control_find(ret_runtime) : 0;

	if (r == -ENOTCONN)
		say_error("no allotd runs, and by %s this machine's tenants are made by it; have it "
			  "started: systemctl start allotd",
			  CONTROL_CONFIG);
	else if (r == -EPERM)
		say_error("allotd's socket beside %s is not root's; have it removed, or set "
			  "ALLOT_RUNTIME_DIR to a directory of yours",
			  ret_runtime);
	else if (r < 0)
		say_error("allotd's socket beside %s: %s", ret_runtime, say_errno(r));
	return r;
}

static unsigned int remote_said(const struct tenant_options *o)
{
	static const struct {
		unsigned int options, said;
	} words[] = {
		{TENANT_MEMORY, CONTROL_SAID_MEMORY},
		{TENANT_COMPUTE | TENANT_COMPUTE_OFF | TENANT_WEIGHT, CONTROL_SAID_COMPUTE},
		{TENANT_PRIORITY, CONTROL_SAID_PRIORITY},
		{TENANT_METER, CONTROL_SAID_METER},
	};
	unsigned int said = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		said |= o->said & words[i].options ? words[i].said : 0;
	return said;
}

static struct control_request remote_request(enum control_verb verb, const char *name)
{
	struct control_request request = {.verb = verb};

	snprintf(request.name, sizeof(request.name), "%s", name);
	return request;
}

static int remote_explain(const char *runtime, const char *name, const char *what, int r)
{
	if (r == -EPROTO)
		return say_error("%s tenant \"%s\": allotd is of another version; have it restarted: "
				 "systemctl restart allotd", what, name);
	return say_error("%s tenant \"%s\": allotd does not answer beside %s: %s; have it started: "
			 "systemctl start allotd",
			 what, name, runtime, say_errno(r));
}

/*
 * Returns the variable or file that set the option with which allotd's words begin. NULL: the option
 * itself was given.
 */
static const char *remote_find_asker(const char *words, const struct tenant_askers *askers)
{
	const struct {
		const char *begin, *asker;
	} list[] = {
		{"--memory:", askers->memory},
		{"--compute:", askers->compute},
		{"--priority:", askers->priority},
		{"--overcommit:", askers->overcommit},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (!strncmp(words, list[i].begin, strlen(list[i].begin)))
			return list[i].asker;
	return NULL;
}

/* An older allotd, until it is restarted, says only this about a new kind of tenant. */
static const char *remote_translate(const char *words)
{
	return strcmp(words, "no tenant begins that way") != 0
		       ? words
		       : "it is older than this command, and does not know this kind of tenant; have it "
			 "restarted: systemctl restart allotd";
}

static int remote_refuse(const char *what, const char *name, const char *words,
			 const struct tenant_askers *askers)
{
	const char *asker = askers ? remote_find_asker(words, askers) : NULL;
	int option = (int)strcspn(words, ":");

	if (asker)
		say_error("%s tenant \"%s\": allotd refuses: %s (as %.*s)%s", what, name, asker, option,
			  words, words + option);
	else
		say_error("%s tenant \"%s\": allotd refuses: %s", what, name, remote_translate(words));
	return -ECONNABORTED;
}

/* A message in any case but those that the caller expects. `askers` is NULL where only options can. */
static int remote_ask(const char *runtime, struct control_request *request,
		      struct control_answer *ret, const char *what, const struct tenant_askers *askers)
{
	unsigned int nap = NAP_MIN_US;
	int r;

	for (int i = 0; !(r = control_ask(runtime, request, ret)) && ret->error == -EUSERS && i < TRIES;
	     i++)
		shared_file_nap(&nap, NAP_MAX_US);
	if (r < 0) {
		remote_explain(runtime, request->name, what, r);
		return r;
	}
	text_make_printable(ret->words);
	if (*ret->words && ret->error)
		return remote_refuse(what, request->name, ret->words, askers);
	if (*ret->words)
		say_note("warning: %s", ret->words);
	return 0;
}

int remote_make(const char *runtime, const char *plain, const struct policy *policy,
		const struct tenant_options *options, uint32_t kind, pid_t container)
{
	struct control_request request = remote_request(CONTROL_MAKE, plain);
	struct control_answer answer;
	int r;

	request.policy = *policy;
	request.said = remote_said(options);
	request.kind = kind;
	request.container = (uint32_t)container;
	r = remote_ask(runtime, &request, &answer, "cannot make", &options->elsewhere);
	if (r < 0)
		return r;
	if (answer.error && answer.error != -EEXIST)
		say_error("cannot make tenant \"%s\": allotd cannot: %s", plain,
			  tenants_error_words(answer.error));
	return !answer.error ? 1 : answer.error == -EEXIST ? 0 : -ECONNABORTED;
}

int remote_set(const char *runtime, const char *name, const struct policy *before,
	       const struct policy *policy, const struct tenant_options *options)
{
	struct control_request request = remote_request(CONTROL_SET, name);
	struct control_answer answer;
	int r;

	request.before = *before;
	request.policy = *policy;
	request.said = remote_said(options);
	r = remote_ask(runtime, &request, &answer, "cannot change", NULL);
	if (r < 0)
		return r;
	if (answer.error && answer.error != -EAGAIN)
		return say_fail(-ECONNABORTED, "cannot change tenant \"%s\": allotd cannot: %s",
				name, tenants_error_words(answer.error));
	return answer.error;
}

int remote_remove(const char *runtime, const char *name, bool ended_only)
{
	struct control_request request =
		remote_request(ended_only ? CONTROL_END : CONTROL_REMOVE, name);
	struct control_answer answer;
	int r = remote_ask(runtime, &request, &answer, "cannot remove", NULL);

	return r < 0 ? -ECONNABORTED : answer.error;
}

/* Line by line. */
static void remote_make_printable(char *words)
{
	for (char *line = words, *end; line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		text_make_printable(line);
		if (end)
			*end++ = '\n';
	}
}

/* The exit status of the command that allotd ran; 0: it ran none. */
static int remote_move_status(int error)
{
	switch (error) {
	case -ECANCELED:
		return EXIT_ALLOT;
	case -ENOSPC:
		return CONTROL_EXIT_NO_ROOM;
	case -ETIMEDOUT:
		return CONTROL_EXIT_LATE;
	}
	return 0;
}

int remote_move(const char *runtime, const char *name, bool away,
		const struct away_options *options)
{
	struct control_request request =
		remote_request(away ? CONTROL_SUSPEND : CONTROL_RESUME, name);
	struct control_answer answer;
	const char *words = answer.words, *colon;
	int r, status;

	request.timeout_us = options->timeout_us;
	if (away) {
		request.host_bytes = options->host_bytes;
		request.notice_ms = (uint32_t)(options->notice_us / 1000);
		request.said = options->contexts ? (uint32_t)CONTROL_SAID_CONTEXTS : 0;
	}
	if (request.timeout_us > CONTROL_TIMEOUT_MAX_US)
		return say_error("--timeout: allotd waits for work no longer than 10 minutes; write less");
	r = control_ask(runtime, &request, &answer);
	if (r < 0)
		return remote_explain(runtime, name, away ? "cannot suspend" : "cannot resume", r);
	remote_make_printable(answer.words);
	/* Said by the same command as this one. */
	status = remote_move_status(answer.error);
	colon = status ? strstr(words, ": ") : NULL;
	if (status)
		return say_fail(status, "%s",
				colon ? colon + 2 : "allotd cannot: the command failed");
	if (answer.error)
		return say_error("cannot %s tenant \"%s\": %s%s", away ? "suspend" : "resume", name,
				 *words ? "allotd refuses: " : "allotd cannot: ",
				 *words ? words : tenants_error_words(answer.error));
	fputs(words, stdout);
	return 0;
}
