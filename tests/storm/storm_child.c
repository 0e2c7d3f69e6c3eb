/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that a process starts in the middle of its work. Each has a context of its own, takes
 * memory in it, says so by a letter on its output, and ends when its input does. And forked
 * processes that start none: the driver is of no use to them.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "storm_work.h"

enum child_end { CHILD_GIVES_BACK, CHILD_LEAVES, CHILD_IS_KILLED, CHILD_ENDS };

/* The program: makes a context of the kind. False: it was refused. */
static bool child_begin(struct worker *w, struct block *b, enum child_kind kind)
{
	CUcontext context;
	CUgreenCtx green;

	switch (kind) {
	case CHILD_PRIMARY:
		if (REFUSED(w, cu.cuDevicePrimaryCtxRetain(&context, b->device)))
			return false;
		OK(cu.cuCtxSetCurrent(context));
		return true;
	case CHILD_FURTHER:
		if (REFUSED(w, cu.cuCtxCreate_v2(&context, 0, b->device)))
			return false;
		b->object = context;
		return true;
	default: /* without a primary context, but for the one that it brings */
		if (!storm_create_green(w, b->device, &green))
			return false;
		b->object = green;
		OK(cu.cuCtxFromGreenCtx(&context, green));
		OK(cu.cuCtxSetCurrent(context));
		return true;
	}
}

static void child_give_back(struct block *b, enum child_kind kind)
{
	if (b->ptr)
		OK(cu.cuMemFree_v2(b->ptr));
	if (b->second)
		OK(cu.cuMemFree_v2(b->second));
	if (kind == CHILD_PRIMARY)
		OK(cu.cuDevicePrimaryCtxRelease_v2(b->device));
	else if (kind == CHILD_FURTHER)
		OK(cu.cuCtxDestroy_v2(b->object));
	else
		OK(cu.cuGreenCtxDestroy(b->object));
}

int storm_child(void)
{
	const struct options *o = &storm->options;
	struct worker w = {.seed = o->seed};
	struct block b = {.device = o->device};
	bool held;
	char word;

	storm_bind_driver();
	OK(cu.cuInit(0));
	held = child_begin(&w, &b, o->child);
	if (held) {
		uint64_t most = (uint64_t)o->most_mib * MIB;

		if (REFUSED(&w, cu.cuMemAlloc_v2(&b.ptr, 1 + pick(&w.seed, 1 << 30) % most)))
			b.ptr = 0;
		if (REFUSED(&w, cu.cuMemAlloc_v2(&b.second, 4096)))
			b.second = 0;
	}
	word = held ? 'h' : 'r';
	if (write(STDOUT_FILENO, &word, 1) != 1)
		return 1;
	while (read(STDIN_FILENO, &word, 1) > 0)
		;
	if (held && !o->leaves)
		child_give_back(&b, o->child);
	return 0;
}

struct child_words {
	char seed[16], device[16], most[16], kind[16];
};

/* In the forked process, which may have no use of locks that other threads had. */
static void child_exec(const struct child_words *words, bool leaves, int socket)
{
	if (dup2(socket, STDIN_FILENO) < 0 || dup2(socket, STDOUT_FILENO) < 0)
		_exit(126);
	for (int fd = 3; fd < 1024; fd++)
		close(fd); /* a descriptor of exported memory would hold it */
	execl("/proc/self/exe", "storm", "--child", words->kind, "--seed", words->seed,
	      "--device", words->device, "--most", words->most, leaves ? "--leaves" : NULL,
	      (char *)NULL);
	_exit(127);
}

static pid_t child_start(struct worker *w, const struct block *b, enum child_kind kind,
			 int *ret_socket)
{
	struct child_words words;
	int pair[2];
	pid_t pid;

	snprintf(words.seed, sizeof(words.seed), "%u", pick(&w->seed, 1 << 30));
	snprintf(words.device, sizeof(words.device), "%d", b->device);
	snprintf(words.kind, sizeof(words.kind), "%d", kind);
	snprintf(words.most, sizeof(words.most), "%d", storm->options.most_mib);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		_exit(1);
	pid = fork();
	if (pid < 0)
		_exit(1);
	if (!pid)
		child_exec(&words, b->end != CHILD_GIVES_BACK, pair[1]);
	close(pair[1]);
	*ret_socket = pair[0];
	return pid;
}

static void child_await(pid_t pid, bool killed)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(1);
	if (killed ? WIFEXITED(status) && WEXITSTATUS(status) : status) {
		fprintf(stderr, "storm: a started program: status %#x\n", status);
		_exit(1);
	}
}

static bool child_take(struct worker *w, struct block *b, enum child_kind kind)
{
	char word = 0;

	b->end = pick(&w->seed, CHILD_ENDS);
	b->pid = child_start(w, b, kind, &b->socket);
	while (read(b->socket, &word, 1) < 0)
		if (errno != EINTR)
			break;
	if (word == 'h')
		return true;
	close(b->socket);
	child_await(b->pid, false);
	return false;
}

static bool child_take_primary(struct worker *w, struct block *b)
{
	return child_take(w, b, CHILD_PRIMARY);
}

static bool child_take_further(struct worker *w, struct block *b)
{
	return child_take(w, b, CHILD_FURTHER);
}

static bool child_take_green(struct worker *w, struct block *b)
{
	return child_take(w, b, CHILD_GREEN);
}

static void child_give(struct worker *w, struct block *b)
{
	(void)w;
	if (b->end == CHILD_IS_KILLED)
		kill(b->pid, SIGKILL);
	close(b->socket);
	child_await(b->pid, b->end == CHILD_IS_KILLED);
}

/* A forked process asks for memory, which the driver has none of for it, and ends. */
static bool child_fork(struct worker *w, struct block *b)
{
	pid_t pid = fork();

	if (pid < 0)
		_exit(1);
	if (!pid)
		_exit(cu.cuMemAlloc_v2(&b->ptr, b->bytes) != CUDA_ERROR_NOT_INITIALIZED);
	child_await(pid, false);
	(void)w;
	return false;
}

const struct family storm_program = {"program", child_take_primary, child_give, NULL, NULL};
const struct family storm_program_further = {"program-further", child_take_further, child_give,
					     NULL, NULL};
const struct family storm_program_green = {"program-green", child_take_green, child_give, NULL,
					   NULL};
const struct family storm_forked = {"forked", child_fork, NULL, NULL, NULL};
