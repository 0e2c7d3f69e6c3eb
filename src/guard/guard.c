/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/guard.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/demand.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/now.h"
#include "base/target.h"
#include "guard/device_files.h"
#include "guard/filter.h"
#include "guard/kernel_usage.h"
#include "guard/listener.h"
#include "guard/usage_table.h"

/* Its name in `allot ps` and /proc. */
#define NAME "allot-guard"

/*
 * When the kernel's figures are read again: after 2 ms while a call is under way, doubling each
 * time; otherwise releases are noticed within a tenth of a second.
 */
#define SOON_MS 2
#define LATE_MS 100

/* Ends that are waited for by poll(); of more processes it is noticed a little later. */
#define WATCHED 1024

/* How long the end waits for an answer that is being given. */
#define END_S 2

#define BLOCK_BYTES (1u << _IOC_SIZEBITS) /* no request's block is longer */

struct guard {
	struct topology *topology;
	struct device_files *device_files;
	struct usage_table *table;
	struct usage_table_process *admitted; /* of the question that is being answered */
	pthread_t thread;
	bool started;
	int pair[2]; /* ours and the command's end of a socket */
	int listener;
	uint32_t page_bytes;
	struct kfd_ioctl_get_version_args version; /* of the kernel's KFD */
	uint64_t due_ms;     /* when figures are read next, */
	uint64_t due_all_ms; /* and those of all processes */
	unsigned int wait_ms;
	struct pollfd polled[2 + WATCHED];
	_Alignas(8) char block[BLOCK_BYTES];
};

#define complain(complaint, r, ...)                                                               \
	err_say((complaint)->text, sizeof((complaint)->text), r, __VA_ARGS__)

static uint64_t guard_now_ms(void)
{
	return now_monotonic_ns() / NS_PER_MS;
}

static int guard_read_topology(struct guard *guard, struct guard_complaint *complaint)
{
	struct topology_complaint why = {""};
	int r = topology_read(NULL, &guard->topology, &why);

	if (r == -ENOENT)
		return complain(complaint, r,
				"--guard: there is no AMD GPU here for it to guard; leave it out");
	if (r < 0)
		return complain(complaint, r, "--guard: which AMD GPUs there are is not known: %s",
				*why.text ? why.text : strerror(-r));
	return 0;
}

static int guard_probe_figures(struct guard *guard, struct guard_complaint *complaint)
{
	int r = kernel_usage_probe(&guard->version);

	if (r == -ENOTSUP)
		return complain(complaint, r,
				"--guard: the kernel does not show what processes have of AMD GPUs "
				"under the numbers that they have here "
				"(/sys/class/kfd/kfd/proc/<pid>); run it in the host's PID "
				"namespace");
	if (r < 0)
		return complain(complaint, r,
				"--guard: cannot find out whether the kernel shows what processes "
				"have of AMD GPUs: /dev/kfd: %s; may this user open it?",
				strerror(-r));
	return 0;
}

static int guard_open_parts(struct guard *guard, const char *dir, struct guard_complaint *complaint)
{
	int r = guard_read_topology(guard, complaint);

	if (r == 0)
		r = guard_probe_figures(guard, complaint);
	if (r < 0)
		return r;
	r = device_files_open(guard->topology, &guard->device_files);
	if (r < 0)
		return complain(complaint, r, "--guard: /dev/kfd: %s", strerror(-r));
	prctl(PR_SET_NAME, NAME);
	r = usage_table_open(dir, guard->topology, &guard->table);
	if (r < 0)
		return complain(complaint, r, "--guard: cannot use the tenant in %s: %s", dir,
				strerror(-r));
	return 0;
}

int guard_open(const char *dir, struct guard **ret, struct guard_complaint *complaint)
{
	struct guard *guard = calloc(1, sizeof(*guard));
	int r;

	if (!guard)
		return complain(complaint, -ENOMEM, "--guard: %s", strerror(ENOMEM));
	guard->listener = guard->pair[0] = guard->pair[1] = -EBADF;
	guard->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	r = guard_open_parts(guard, dir, complaint);
	if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guard->pair) < 0)
		r = complain(complaint, err_errno(), "--guard: %s", strerror(errno));
	if (r < 0)
		guard_close(guard);
	else
		*ret = guard;
	return r;
}

bool guard_knows_kernel(const struct guard *guard, struct guard_complaint *note)
{
	if (guard->version.major_version == KFD_IOCTL_MAJOR_VERSION &&
	    guard->version.minor_version <= KFD_LIST_MINOR)
		return true;
	if (!guard->version.major_version) /* it does not tell */
		return true;
	complain(note, 0,
		 "--guard: KFD of this kernel has version %" PRIu32 ".%" PRIu32
		 ", and the newest that is known here is %d.%d: what came since is refused",
		 guard->version.major_version, guard->version.minor_version,
		 KFD_IOCTL_MAJOR_VERSION, KFD_LIST_MINOR);
	return false;
}

/* A driver that was built apart from the kernel, as AMD's packages do, has a version of its own. */
#define OTHER_DRIVER "/sys/module/amdgpu/version"

/* The kernel's version stands for DRM's part of the driver, which has none that tells its ioctls. */
static bool guard_knows_driver(const struct guard *guard)
{
	unsigned int major, minor;
	struct utsname kernel;

	return guard->version.major_version == KFD_IOCTL_MAJOR_VERSION &&
	       guard->version.minor_version <= KFD_LIST_MINOR && access(OTHER_DRIVER, F_OK) < 0 &&
	       uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
	       (major < DRM_LIST_MAJOR || (major == DRM_LIST_MAJOR && minor <= DRM_LIST_MINOR));
}

/* Figures may change any moment. */
static void guard_look_soon(struct guard *guard)
{
	uint64_t due_ms = guard_now_ms() + SOON_MS;

	guard->wait_ms = SOON_MS;
	if (guard->due_ms > due_ms)
		guard->due_ms = due_ms;
}

static void guard_look_again(struct guard *guard)
{
	uint64_t now = guard_now_ms();
	bool all = now >= guard->due_all_ms;

	usage_table_refresh(guard->table, all);
	if (all)
		guard->due_all_ms = now + LATE_MS;
	if (!usage_table_is_open(guard->table))
		guard->wait_ms = LATE_MS;
	else if (guard->wait_ms < LATE_MS / 2)
		guard->wait_ms *= 2;
	guard->due_ms = now + guard->wait_ms;
}

static bool guard_places_on_gpu(const struct demand *demand)
{
	for (uint32_t i = 0; i < demand->count; i++)
		if (demand->parts[i].memory == DEMAND_VRAM)
			return true;
	return false;
}

/* About memory of `gpu_id`, or of any by /dev/kfd (0): 0 lets the kernel do it. */
static int guard_decide(struct guard *guard, const struct seccomp_notif *asked, uint32_t gpu_id,
			const struct demand *demand)
{
	struct usage_table_process *process;
	pid_t pid;
	int r = target_process((pid_t)asked->pid, &pid);

	if (r < 0)
		return r;
	if (demand->act == DEMAND_GIVE) {
		process = usage_table_find(guard->table, pid);
		if (process) {
			usage_table_seen(process, (pid_t)asked->pid);
			guard_look_soon(guard);
		}
		return 0;
	}
	process = usage_table_process(guard->table, pid, gpu_id != 0);
	if (!process)
		return -ENOMEM;
	usage_table_seen(process, (pid_t)asked->pid);
	guard_look_soon(guard);
	/*
	 * Only the kernel and liballot.so know the object's size, and which of the addresses have
	 * memory already; liballot.so has reserved the new part.
	 */
	if (demand->act == DEMAND_PLACE && !guard_places_on_gpu(demand))
		return 0;
	if (demand->act == DEMAND_PLACE)
		return usage_table_counts_itself(guard->table, process, gpu_id) ? 0 : -ENOMEM;
	if (demand->by_address &&
	    usage_table_counts_itself(guard->table, process, demand->parts[0].gpu_id))
		return 0;
	r = usage_table_take(guard->table, process, (pid_t)asked->pid,
			     (uint32_t)asked->data.args[1], demand);
	if (r == 0)
		guard->admitted = process;
	/* As for a GPU that is not there. */
	return r == -ENODEV && !gpu_id ? -EINVAL : r;
}

/* A file that is none of a GPU's the kernel refuses by itself. */
static int guard_keep_file(struct guard *guard, const struct seccomp_notif *asked)
{
	struct usage_table_process *process;
	struct kfd_ioctl_acquire_vm_args args;
	uint32_t gpu_id;
	dev_t device;
	pid_t pid;
	int r;

	memcpy(&args, guard->block, sizeof(args));
	r = target_device((pid_t)asked->pid, (int)args.drm_fd, &device);
	if (r < 0)
		return r;
	if (!device_files_find(guard->device_files, device, &gpu_id) || !gpu_id)
		return 0;
	r = target_process((pid_t)asked->pid, &pid);
	if (r < 0)
		return r;
	process = usage_table_process(guard->table, pid, false);
	if (!process)
		return -ENOMEM;
	usage_table_seen(process, (pid_t)asked->pid);
	guard_look_soon(guard);
	return usage_table_keep(process, (int)args.drm_fd);
}

/*
 * The block is copied once, and judged as it was then. Another thread of the process may change it
 * before the kernel reads it: see docs/threat-model.md.
 */
static int guard_judge_call(struct guard *guard, const struct seccomp_notif *asked)
{
	uint32_t request = (uint32_t)asked->data.args[1];
	size_t bytes = _IOC_SIZE(request);
	struct demand demand;
	uint32_t gpu_id;
	dev_t device;
	int r;

	if (!asked->pid) /* of another PID namespace: it cannot be looked at */
		return -EPERM;
	r = target_device((pid_t)asked->pid, (int)asked->data.args[0], &device);
	if (r < 0)
		return r;
	if (!device_files_find(guard->device_files, device, &gpu_id))
		return 0;
	memset(guard->block, 0, sizeof(struct kfd_ioctl_acquire_vm_args)); /* zero beyond */
	r = target_copy((pid_t)asked->pid, asked->data.args[2], guard->block, bytes);
	if (r < 0 || !listener_waits(guard->listener, asked))
		return r < 0 ? r : -ESRCH;
	if (!gpu_id && _IOC_NR(request) == KFD_NR_ACQUIRE_VM)
		return guard_keep_file(guard, asked);
	if (gpu_id)
		demand = demand_of_drm(request, guard->block, bytes, guard->page_bytes, gpu_id);
	else
		demand = demand_of_kfd(request, guard->block, bytes, guard->page_bytes);
	if (demand.act == DEMAND_REFUSE)
		return demand.error;
	if (demand.act == DEMAND_NOTHING || demand.act == DEMAND_IMPORT)
		return 0;
	return guard_decide(guard, asked, gpu_id, &demand);
}

static void guard_serve_call(struct guard *guard)
{
	struct seccomp_notif asked;
	int error;

	if (listener_receive(guard->listener, &asked) < 0)
		return;
	guard->admitted = NULL;
	error = guard_judge_call(guard, &asked);
	if (listener_answer(guard->listener, &asked, error) < 0 && guard->admitted)
		usage_table_cancel(guard->table, guard->admitted, (pid_t)asked.pid);
}

/* The timeout of poll(): none, if no process has memory. */
static int guard_timeout_ms(const struct guard *guard)
{
	uint64_t now = guard_now_ms();

	if (usage_table_is_empty(guard->table))
		return -1;
	return guard->due_ms > now ? (int)(guard->due_ms - now) : 0;
}

/* False: it is to stop. */
static bool guard_wait_and_serve(struct guard *guard)
{
	struct pollfd *polled = guard->polled;
	nfds_t watched = usage_table_watch(guard->table, polled + 2, WATCHED);

	polled[0] = (struct pollfd){.fd = guard->pair[0], .events = POLLIN};
	polled[1] = (struct pollfd){.fd = guard->listener, .events = POLLIN};
	if (poll(polled, 2 + watched, guard_timeout_ms(guard)) < 0)
		return true;
	if (usage_table_ended(guard->table, polled + 2, watched))
		guard->due_ms = 0;
	if (polled[1].revents & POLLIN)
		guard_serve_call(guard);
	else if (polled[1].revents) { /* no process is left that could ask */
		close(guard->listener);
		guard->listener = -EBADF;
	}
	if (!usage_table_is_empty(guard->table) && guard_now_ms() >= guard->due_ms)
		guard_look_again(guard);
	return !polled[0].revents;
}

/* One for each process, and one for each of its GPUs. The command has its own limit by now. */
static void guard_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static void *guard_run(void *arg)
{
	struct guard *guard = arg;

	guard->listener = listener_take_over(guard->pair[0]);
	if (guard->listener < 0)
		return NULL;
	guard_raise_files();
	listener_tune(guard->listener);
	while (guard_wait_and_serve(guard))
		;
	return NULL;
}

int guard_start(struct guard *guard, struct guard_complaint *complaint)
{
	sigset_t all, old;
	int r;

	/* Signals are for the thread that waits for the command. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&guard->thread, NULL, guard_run, guard);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return complain(complaint, -r, "--guard: cannot start a thread: %s", strerror(r));
	guard->started = true;
	return 0;
}

int guard_enter(struct guard *guard, struct guard_complaint *complaint)
{
	int listener, r;

	close(guard->pair[0]);
	listener = guard_filter_install(guard_knows_driver(guard));
	if (listener == -EBUSY)
		return complain(complaint, listener,
				"--guard: this process is guarded already, or by another program's "
				"seccomp filter with a listener, and there can be one only; run it "
				"outside of that");
	if (listener < 0)
		return complain(complaint, listener,
				"--guard: the kernel cannot do it (seccomp user notification: %s); "
				"it needs Linux 5.6 or newer, and a container that lets seccomp "
				"filters be made",
				strerror(-listener));
	r = listener_hand_over(guard->pair[1], listener);
	close(listener);
	if (r < 0)
		return complain(complaint, r, "--guard: the supervisor did not answer: %s",
				strerror(-r));
	return 0;
}

/* False: it is still in there, since a page that it copies makes it wait. */
static bool guard_has_ended(const struct guard *guard)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	return !pthread_timedjoin_np(guard->thread, NULL, &until);
}

void guard_close(struct guard *guard)
{
	if (!guard)
		return;
	if (guard->pair[1] >= 0)
		close(guard->pair[1]); /* the thread's end of the socket says so */
	if (guard->started && !guard_has_ended(guard))
		return;
	if (guard->listener >= 0)
		close(guard->listener);
	if (guard->pair[0] >= 0)
		close(guard->pair[0]);
	usage_table_close(guard->table);
	device_files_close(guard->device_files);
	topology_free(guard->topology);
	free(guard);
}
