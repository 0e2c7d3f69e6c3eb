/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that takes device memory in the ways in which a tenant once passed its quota, or was
 * charged for other memory than it held. It knows nothing of allot. quota.py runs each scenario in
 * a tenant and compares the account with the simulator's count.
 */
#ifndef ALLOT_TESTS_QUOTA_GUEST_H
#define ALLOT_TESTS_QUOTA_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/cuda/api.h"
#include "tests/e2e/must.h"

#define MIB (UINT64_C(1) << 20)

/* The modes of a tenant, as bits. MODE_ALL is what a scenario has that names none. */
enum mode {
	MODE_PLAIN = 1,
	MODE_SWAPPABLE = 2,
	MODE_OVERCOMMIT = 4,
	MODE_DRIVER = 8,
	MODE_ALL = 15,
};

struct scenario {
	const char *name;
	void (*run)(int n);
	int n; /* for run */
	int quota_mib, context_mib;
	const char *environment; /* "NAME=VALUE", or NULL */
	enum mode modes;	 /* 0: MODE_ALL */
};

/* The scenario that runs. */
extern const struct scenario *guest_scenario;

/*
 * What is not as it must be. The program goes on and its exit status is 1. A call that must succeed
 * stands in MUST, which ends the program.
 */
void guest_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line for those who watch. */
void guest_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Asks quota.py to compare what is charged with what is held. Waits until it has. */
void guest_quiet(void);
void guest_sleep_ms(long ms);
/* Keeps a stream busy for so many milliseconds. */
void guest_busy_ms(CUstream stream, long ms);
long guest_now_ms(void);

/* Initializes the driver and makes the primary context of a device (device 0) current. */
CUcontext guest_begin_on(CUdevice device);
CUcontext guest_begin(void);
/* Allocates in steps until one is refused. Complains if less than `least` MiB were had. */
void guest_fill(unsigned int step_mib, unsigned int least_mib);
/* Makes contexts of the current one's device until one is refused. Complains if fewer than `least` were had. */
void guest_make_contexts(int least);
/* Loads code of so many bytes, and uses it, so that they are taken. */
CUresult guest_try_load(uint64_t bytes, const char *words, CUfunction *ret_function);
CUfunction guest_load(uint64_t bytes, const char *words);
/* Runs `run` in n threads at once. Returns the sum of what they return. */
int guest_threads(int n, int (*run)(void *arg), void *arg);

/* Another process, which begins before the driver is initialized. */
struct peer {
	int socket;
	pid_t pid; /* 0: the parent */
};

/* The child ends when `run` returns. */
struct peer peer_fork(void (*run)(struct peer *parent, int n), int n);
/* A message and, unless fd is -1, a descriptor. */
void peer_send(const struct peer *peer, const void *data, size_t bytes, int fd);
/* Returns the descriptor, or -1. */
int peer_receive(const struct peer *peer, void *data, size_t bytes);
/* One step of a sequence: a message without content. */
void peer_tell(const struct peer *peer);
void peer_await(const struct peer *peer);
/* Waits for its end. Complains of an exit status other than 0. */
void peer_end(const struct peer *peer);
/* Waits for its end, which may be a signal. */
void peer_reap(const struct peer *peer);

/* quota_contexts.c: contexts, their limits, their code. */
void contexts_heap_lowered(int mib);
void contexts_heap_kept(int mib);
void contexts_heap_used_late(int mib);
void contexts_heap_used_first(int mib);
void contexts_fifo_used_late(int mib);
void contexts_stack_lowered(int bytes);
void contexts_limits_gone(int mib);
void contexts_limits_elsewhere(int mib);
void contexts_modules(int n);
void contexts_libraries(int n);
void contexts_library_elsewhere(int mib);
void contexts_library_used(int mib);
void contexts_library_first(int mib);
void contexts_first(int processes);
void contexts_retain(int threads);
void contexts_churn(int threads);
void contexts_guessed(int threads);
void contexts_guessed_elsewhere(int least_mib);
void contexts_late_figure(int mib);

/* quota_green.c: green contexts. */
void green_fill(int step_mib);
void green_first(int beside_full);
void green_near_limit(int free_mib);
void green_last(int again);
void green_last_beside_context(int mib);
void green_memory(int n);
void green_threads(int threads);

/* quota_streams.c: memory that goes in the order of a stream, pools, arrays. */
void streams_pool_gone(int mib);
void streams_linear_late(int mib);
void streams_linear_late_two(int mib);
void streams_other_context(int end);
void streams_pools_churn(int ms);
void streams_arrays_churn(int ms);
void streams_managed(int step_mib);
void streams_cancelled(int mib);

/* quota_sharing.c: memory that two processes hold. */
void sharing_descriptor_on_way(int others);
void sharing_descriptor_too_late(int others);
void sharing_released(int mib);
void sharing_locked(int mib);
void sharing_many_pools(int n);
void sharing_pool(int how);
void sharing_pool_left(int ms);
void sharing_ipc_exporter_gone(int killed);
void sharing_ipc_inside(int mib);
void sharing_ipc_again(int mib);
void sharing_ipc_code(int mib);
void sharing_ipc_contexts(int mib);
void sharing_ipc_two_importers(int mib);
void sharing_external_part(int mib);
void sharing_external_mapped(int mib);
void sharing_external_locked(int mib);

#endif
