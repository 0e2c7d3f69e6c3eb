/* SPDX-License-Identifier: Apache-2.0 */
/* Puppets (share_puppet.h) in tenants, and the strings that they hang on. */
#ifndef ALLOT_TESTS_SHARE_STAGE_H
#define ALLOT_TESTS_SHARE_STAGE_H

#include "families_host.h"
#include "message.h"
#include "nvidia/abi/cuda.h"
#include "share_puppet.h"

static const char *stage_scene = ""; /* what is being played, for complaints */
static char *stage_program;	     /* share_puppet */

#define EXPECT(what, got, want)                                                              \
	do {                                                                                 \
		uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                   \
		if (got_ != want_) {                                                         \
			fprintf(stderr, "%s: %s:%d: %s: %" PRIu64 ", not %" PRIu64 "\n",     \
				stage_scene, __FILE__, __LINE__, what, got_, want_);         \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static inline void puppet_start(struct program *p, struct tenant *t)
{
	char *argv[] = {stage_program, NULL};

	program_start(p, t, "puppet", argv);
}

/* Takes `fd`; writes *ret_fd when there is one, else it must not be asked for. */
static inline struct puppet_answer puppet_try(struct program *p, struct puppet_ask ask, int fd,
					      int *ret_fd)
{
	struct puppet_answer answer = {0};
	int out;

	EXPECT("told", message_send(p->socket, &ask, sizeof(ask), fd), sizeof(ask));
	if (fd >= 0)
		close(fd);
	EXPECT("answered", message_receive(p->socket, &answer, sizeof(answer), &out),
	       sizeof(answer));
	if (ret_fd)
		*ret_fd = out;
	else if (out >= 0)
		close(out);
	return answer;
}

/* As above, and it must succeed. */
static inline struct puppet_answer puppet(struct program *p, struct puppet_ask ask)
{
	struct puppet_answer answer = puppet_try(p, ask, -1, NULL);
	char what[32];

	snprintf(what, sizeof(what), "result of %d", ask.op);
	EXPECT(what, answer.result, 0);
	return answer;
}

static inline void puppet_end(struct program *p)
{
	int status;

	close(p->socket);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	EXPECT("puppet's status", status, 0);
}

static inline void puppet_kill(struct program *p)
{
	int status;

	kill(p->pid, SIGKILL);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	close(p->socket);
}

/* What the tenant is charged for on a device, what the simulator gave. */
static inline uint64_t charged(const struct tenant *t, int device)
{
	struct snapshot_device row;

	return tenant_used(t, device, &row);
}

static inline uint64_t given(int device)
{
	return sim_truth_used(truth, device);
}

#endif
