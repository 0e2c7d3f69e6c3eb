/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm --seed N [--processes N] [--threads N] [--devices N] [--steps N] [--most MIB] [--managed]
 *       [--share] [--resets] [--retains] [--ends] [--kills] [--pause US] [--draw NAME]...
 *       [--family NAME]...
 *
 * Says {"begun": true} when all processes have their contexts, and {"stage": "quiet"} when all have
 * given everything back but those. Then it answers lines "DEVICE BYTES" by {"answer": N}, what
 * cuMemAlloc said to that, and ends when its input does.
 *
 * storm --child KIND --seed N --device N --most MIB [--leaves]
 *
 * The program that the families "program..." start, see storm_child.c.
 */
#include "storm.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

struct storm *storm;
struct cuda_driver cu;

const char *storm_error(CUresult e)
{
	const char *name = NULL;

	return cu.cuGetErrorName && !cu.cuGetErrorName(e, &name) && name ? name : "?";
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

void storm_await(_Atomic int *flag)
{
	while (!atomic_load(flag))
		nap_ms(1);
}

static void *driver;

void *storm_symbol(const char *name)
{
	return dlsym(driver, name);
}

void storm_bind_driver(void)
{
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "storm: no driver: %s\n", dlerror());
		_exit(1);
	}
#define CUDA_HOOK(name, kind, params, args) *(void **)&cu.name = dlsym(driver, #name);
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#include "nvidia/cuda_api.def"
}

bool storm_begin_contexts(CUcontext contexts[DEVICES], int life)
{
	storm_bind_driver();
	OK(cu.cuInit(0));
	for (int d = 0; d < storm->options.devices; d++) {
		CUresult e = cu.cuDevicePrimaryCtxRetain(&contexts[d], d);

		/* The others may have all of the quota. */
		if (life && e == CUDA_ERROR_OUT_OF_MEMORY)
			return false;
		OK(e);
	}
	OK(cu.cuCtxSetCurrent(contexts[0]));
	atomic_store(&storm->warm, 1);
	if (!life)
		storm_arrive(&storm->begun);
	return true;
}

void storm_arrive(_Atomic int *count)
{
	atomic_fetch_add(count, 1);
	while (atomic_load(count) < storm->options.processes)
		nap_ms(1);
}

static bool is_resetting(int index)
{
	return storm->options.resets && index == 1;
}

static bool is_retaining(int index)
{
	return storm->options.retains && index == 1 + storm->options.resets;
}

bool storm_ends(int index)
{
	return storm->options.ends && index == storm->options.processes - 1;
}

bool storm_reads_letters(int index)
{
	return !is_resetting(index) && !is_retaining(index);
}

static int process(int index, int life)
{
	return is_resetting(index)   ? storm_reset_process(index)
	       : is_retaining(index) ? storm_retain_process(index)
				     : storm_process(index, life);
}

static pid_t start(int index, int life)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (index)
		storm_await(&storm->warm);
	_exit(process(index, life));
}

/* Kills the last process a few times, and starts another in its place. */
static void kill_now_and_then(pid_t *pid, unsigned int seed)
{
	int last = storm->options.processes - 1;

	for (int life = 1; life <= 3; life++) {
		nap_ms(20 + pick(&seed, 100));
		kill(pid[last], SIGKILL);
		waitpid(pid[last], NULL, 0);
		pid[last] = start(last, life);
	}
}

/* One that ends in the middle may do so by a kill. */
static bool ended_well(int index, int status)
{
	return (WIFEXITED(status) && !WEXITSTATUS(status)) ||
	       (storm_ends(index) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int finish(const pid_t *pid)
{
	int bad = 0, status;

	for (int i = 0; i < storm->options.processes; i++) {
		if (waitpid(pid[i], &status, 0) != pid[i])
			return 1;
		if (!ended_well(i, status)) {
			fprintf(stderr, "storm: process %d: status %#x\n", i, status);
			bad = 1;
		}
	}
	return bad;
}

/* True if a process ended that was not to. */
static bool has_failed(const pid_t *pid)
{
	for (int i = 0; i < storm->options.processes; i++) {
		siginfo_t info = {0};
		int signal;

		if (waitid(P_PID, (id_t)pid[i], &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
			continue;
		signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
		if (!storm_ends(i) || (signal ? signal != SIGKILL : info.si_status)) {
			fprintf(stderr, "storm: process %d ended, by %s %d\n", i,
				signal ? "signal" : "status", info.si_status);
			return true;
		}
	}
	return false;
}

static bool await_quiet(const pid_t *pid)
{
	while (atomic_load(&storm->settled) < storm->options.processes) {
		if (has_failed(pid))
			return false;
		if (storm->options.ends && atomic_load(&storm->ended))
			storm_drain(storm->options.processes - 1);
		nap_ms(1);
	}
	return true;
}

static void say_begun(const pid_t *pid)
{
	while (atomic_load(&storm->begun) < storm->options.processes && !has_failed(pid))
		nap_ms(1);
	printf("{\"begun\": true}\n");
	fflush(stdout);
}

/* Answers each line "DEVICE BYTES" with what an allocation of that was answered. */
static void rest(void)
{
	unsigned long long bytes;
	char line[64];
	int device;

	printf("{\"stage\": \"quiet\"}\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%d %llu", &device, &bytes) != 2 || device < 0 ||
		    device >= storm->options.devices)
			continue;
		storm->ask_device = device;
		storm->ask_bytes = bytes;
		atomic_fetch_add(&storm->asked, 1);
		while (atomic_load(&storm->answered) != atomic_load(&storm->asked))
			nap_ms(1);
		printf("{\"answer\": %d}\n", (int)storm->answer);
		fflush(stdout);
	}
}

static int number(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

static bool add_draw(const char *name, unsigned int *draws)
{
	static const char *const names[DRAWS] = {
		[DRAW_SLOW] = "slow", [DRAW_CROSSED] = "crossed", [DRAW_TWICE] = "twice",
		[DRAW_FILLED] = "filled", [DRAW_ORPHANS] = "orphans",
	};

	for (int i = 0; i < DRAWS; i++)
		if (!strcmp(names[i], name)) {
			*draws |= 1u << i;
			return true;
		}
	return false;
}

static struct options parse(int argc, char **argv)
{
	static const struct option words[] = {
		{"seed", 1, NULL, 's'},	   {"processes", 1, NULL, 'p'}, {"threads", 1, NULL, 't'},
		{"devices", 1, NULL, 'd'}, {"steps", 1, NULL, 'n'},	{"most", 1, NULL, 'm'},
		{"managed", 0, NULL, 'M'}, {"share", 0, NULL, 'S'},	{"resets", 0, NULL, 'R'},
		{"kills", 0, NULL, 'K'},   {"family", 1, NULL, 'f'},
		{"draw", 1, NULL, 'D'},	   {"device", 1, NULL, 'v'},	{"child", 1, NULL, 'c'},
		{"leaves", 0, NULL, 'l'},  {"retains", 0, NULL, 'T'},	{"ends", 0, NULL, 'E'},
		{"pause", 1, NULL, 'P'},   {0}};
	struct options o = {.processes = 2, .threads = 2, .devices = 1, .steps = 200,
			    .most_mib = 64, .simulated = getenv("ALLOT_SIM_DIR")};
	int c;

	while ((c = getopt_long(argc, argv, "", words, NULL)) >= 0)
		switch (c) {
		case 's': o.seed = (unsigned int)number(optarg); break;
		case 'p': o.processes = number(optarg); break;
		case 't': o.threads = number(optarg); break;
		case 'd': o.devices = number(optarg); break;
		case 'n': o.steps = number(optarg); break;
		case 'm': o.most_mib = number(optarg); break;
		case 'f':
			if (!storm_family(optarg, &o.families))
				exit(2);
			break;
		case 'D':
			if (!add_draw(optarg, &o.draws))
				exit(2);
			break;
		case 'v': o.device = number(optarg); break;
		case 'c': o.child = (enum child_kind)number(optarg); break;
		case 'l': o.leaves = true; break;
		case 'M': o.managed = true; break;
		case 'S': o.share = true; break;
		case 'R': o.resets = true; break;
		case 'P': o.pause_us = number(optarg); break;
		case 'T': o.retains = true; break;
		case 'E': o.ends = true; break;
		case 'K': o.kills = true; break;
		default: exit(2);
		}
	if (o.processes < 1 || o.processes > PROCESSES || o.devices < 1 || o.devices > DEVICES)
		exit(2);
	return o;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	pid_t pid[PROCESSES];
	int bad;

	storm = mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (storm == MAP_FAILED)
		return 1;
	storm->options = options;
	if (options.child)
		return storm_child();
	for (int i = 0; i < options.processes; i++)
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
			       storm->mailbox[i]))
			return 1;
	for (int i = 0; i < options.processes; i++)
		pid[i] = start(i, 0);
	say_begun(pid);
	if (options.kills)
		kill_now_and_then(pid, options.seed);
	atomic_store(&storm->calm, 1);
	if (!await_quiet(pid)) {
		kill(0, SIGTERM);
		return 1;
	}
	rest();
	atomic_store(&storm->go, 1);
	bad = finish(pid);
	return bad;
}
