/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bad_guest WORD...: a program that uses the GPU as its arguments say, one after the other, and
 * prints the CUresult of those that have one. It knows nothing of allot.
 *
 *	init  alloc MIB  free  threads N     atexit (frees and allocates there)
 *	child WORD... end     fork; the child does the words, the parent waits for it
 *	clone WORD... end     the same by the bare system call
 *	orphan WORD... end    the same, but the parent does not wait
 *	vfork WORD... end, spawn WORD... end, exec WORD...    a new program does the words
 *	closefds  nofile  as MIB  signals  die
 *	clear                 overwrites its environment, but for what names the devices
 *	unset NAME            takes a variable out of it
 *	chdir PATH
 *	wait                  says "waiting", until a line or the end comes on stdin
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "tests/check.h"

#define MIB (1u << 20)

extern char **environ;

static CUdeviceptr block[4096];
static int blocks;

static void say(const char *word, int result)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %d\n", word, result);

	CHECK_EQ(write(1, line, (size_t)n), n);
}

static CUresult init(void)
{
	CUcontext context;
	CUresult e = cuInit(0);

	if (!e)
		e = cuDevicePrimaryCtxRetain(&context, 0);
	return e ? e : cuCtxSetCurrent(context);
}

static CUresult alloc(size_t mib)
{
	CUresult e = cuMemAlloc_v2(&block[blocks], mib * MIB);

	blocks += e == CUDA_SUCCESS;
	return e;
}

static void at_exit(void)
{
	say("atexit free", cuMemFree_v2(block[--blocks]));
	say("atexit alloc", alloc(1));
}

static void *thread(void *arg)
{
	CUdeviceptr p;

	CHECK_EQ(init(), 0);
	for (int i = 0; i < 50; i++) {
		CUresult e = cuMemAlloc_v2(&p, 3 * MIB);

		CHECK(e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY);
		if (!e)
			CHECK_EQ(cuMemFree_v2(p), 0);
	}
	return arg;
}

static void threads(int n)
{
	pthread_t t[64];

	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, thread, NULL), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	say("threads", 0);
}

static volatile sig_atomic_t caught;

static void handler(int sig)
{
	caught |= 1 << sig;
}

static const int taken[] = {SIGUSR1, SIGUSR2, SIGBUS, SIGSEGV, SIGALRM};

static void take_signals(void)
{
	struct sigaction action = {.sa_handler = handler};

	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(sigaction(taken[i], &action, NULL), 0);
}

static void check_signals(void)
{
	struct sigaction now;

	for (unsigned int i = 0; i < 5; i++) {
		CHECK_EQ(sigaction(taken[i], NULL, &now), 0);
		CHECK(now.sa_handler == handler);
		raise(taken[i]);
		CHECK(caught & 1 << taken[i]);
	}
	say("signals", 0);
}

static void limit(int resource, rlim_t value)
{
	struct rlimit l;

	CHECK_EQ(getrlimit(resource, &l), 0);
	l.rlim_cur = value;
	CHECK_EQ(setrlimit(resource, &l), 0);
}

static rlim_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	return pages * 4096;
}

/* The words up to the matching "end", which becomes NULL; answers what comes after. */
static char **cut(char **words)
{
	for (int depth = 1; *words; words++) {
		if (!strcmp(*words, "child") || !strcmp(*words, "clone") ||
		    !strcmp(*words, "orphan") || !strcmp(*words, "vfork") ||
		    !strcmp(*words, "spawn"))
			depth++;
		if (!strcmp(*words, "end") && --depth == 0) {
			*words = NULL;
			return words + 1;
		}
	}
	return words;
}

static void run(char **words);

static char *self;

static pid_t by_vfork(char **words)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execv(self, words);
		_exit(99);
	}
	return pid;
}

static char **other(char **words)
{
	char *word = words[0], **rest;
	pid_t pid = -1;
	int status = 0;

	rest = cut(words + 1);
	words[0] = self;
	if (!strcmp(word, "vfork")) {
		pid = by_vfork(words);
	} else if (!strcmp(word, "spawn")) {
		CHECK_EQ(posix_spawn(&pid, self, NULL, NULL, words, environ), 0);
	} else {
		pid = !strcmp(word, "clone") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
					     : fork();
		if (pid == 0) {
			blocks = 0;
			run(words + 1);
			exit(0);
		}
	}
	CHECK(pid > 0);
	if (strcmp(word, "orphan")) {
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		say(word, status);
	}
	return rest;
}

static void run(char **words)
{
	char c;

	while (*words) {
		char *word = *words++;

		if (!strcmp(word, "init")) {
			say(word, init());
		} else if (!strcmp(word, "alloc")) {
			say(word, alloc(strtoul(*words++, NULL, 10)));
		} else if (!strcmp(word, "free")) {
			if (blocks) /* else what was to be freed was refused */
				say(word, cuMemFree_v2(block[--blocks]));
		} else if (!strcmp(word, "threads")) {
			threads(atoi(*words++));
		} else if (!strcmp(word, "atexit")) {
			atexit(at_exit);
		} else if (!strcmp(word, "closefds")) {
			close(0);
			CHECK_EQ(close_range(3, ~0u, 0), 0);
		} else if (!strcmp(word, "nofile")) {
			limit(RLIMIT_NOFILE, 3);
		} else if (!strcmp(word, "as")) {
			limit(RLIMIT_AS, address_space() + strtoul(*words++, NULL, 10) * MIB);
		} else if (!strcmp(word, "signals")) {
			take_signals();
			atexit(check_signals);
		} else if (!strcmp(word, "die")) {
			kill(getpid(), SIGKILL);
		} else if (!strcmp(word, "wait")) {
			say("waiting", 0);
			while (read(0, &c, 1) == 1 && c != '\n')
				;
		} else if (!strcmp(word, "clear")) {
			for (char **e = environ; *e; e++)
				if (strncmp(*e, "ALLOT_SIM_", 10) != 0)
					memset(*e, 'x', strlen(*e));
		} else if (!strcmp(word, "unset")) {
			unsetenv(*words++);
		} else if (!strcmp(word, "chdir")) {
			CHECK(!chdir(*words++));
		} else if (!strcmp(word, "exec")) {
			words[-1] = self;
			execv(self, words - 1);
			CHECK(0);
		} else {
			words = other(words - 1);
		}
	}
}

__attribute__((constructor)) static void early(void)
{
	if (!getenv("BAD_CONSTRUCTOR"))
		return;
	say("constructor init", init());
	say("constructor alloc", alloc(4));
}

int main(int argc, char **argv)
{
	self = argv[0];
	run(argv + 1);
	return 0;
}
