/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose progress on the device depends on launches that come later: on other threads,
 * streams, processes or tenants. It knows nothing of allot. waits.py runs each word in tenants and
 * compares with the simulator's count.
 */
#ifndef ALLOT_TESTS_WAITS_H
#define ALLOT_TESTS_WAITS_H

#include <stdint.h>
#include <sys/types.h>

#include "sim/cuda/api.h"
#include "tests/e2e/must.h"

#define BRIEF_US 200  /* a kernel */
#define LAUNCHES 150  /* behind one wait */
#define ROUNDS	 4    /* of words that wait several times ... */
#define ROUND_MS 40   /* ... for this long each */
#define STEPS	 50   /* of words whose kernels meet or hand over */
#define STEP_US	 1000 /* a kernel of these */

/* cuda.h's, which src/nvidia/abi has no use for. */
#define EVENT_WAIT_EXTERNAL  1u /* CU_EVENT_WAIT_EXTERNAL */
#define HOST_REGISTER_MAPPED 2u /* CU_MEMHOSTREGISTER_DEVICEMAP */

/* Words of pinned memory, which streams wait for and write. */
enum {
	WORD_GATE = 0,	 /* guest_await, guest_open */
	WORD_TOKEN = 8,	 /* one for each rank */
	WORD_MET = 16,	 /* sim_meet's two */
	WORD_READY = 20, /* how many ranks are */
	WORD_GO,
	WORD_ENDED,
	WORD_OTHER,
	WORDS = 512,
};

struct guest {
	CUcontext context;
	CUfunction spin, meet;
	CUstream a, b, c; /* do not wait for the legacy stream */
	uint64_t *word;	  /* WORDS of them */
	CUdeviceptr word_at;
	pid_t pid[8]; /* the program's other processes; 0: the end */
};

extern struct guest guest;

/* Makes the device's primary context current, and all that a guest has. */
void guest_begin(int device);
/* Replaces the words by a page that others share. */
void guest_share(uint64_t *page);
/* Runs some kernels, so that what they take is known. Leaves nothing on the device. */
void guest_warm(void);
/* Says that the word is ready. Starts the clock when waits.py has read its figures. */
void guest_go(void);
/* The same in two parts: guest_ready waits for waits.py, guest_start starts the clock. */
void guest_ready(void);
void guest_start(void);
/* Says how long it took, and members of a JSON object beside that. Waits for the end of stdin. */
__attribute__((format(printf, 1, 2))) void guest_done(const char *format, ...);
/* Waits for the end of stdin. */
void guest_idle(void);

double guest_now_ms(void);
void guest_nap(uint64_t us);

/* One more handle, in the current context. */
CUfunction guest_function(const char *name);
CUstream guest_stream(void);
CUevent guest_event(void);

void guest_launch(CUfunction function, CUstream stream, uint64_t us);
void guest_spin(CUstream stream, uint64_t us);
/* A rank of a collective of kernels. */
void guest_meet(CUstream stream, uint64_t ranks);

/* The stream waits until the gate has been opened n times. */
void guest_await(CUstream stream, uint64_t n);
void guest_await_word(CUstream stream, unsigned int i, uint64_t value);
void guest_write_word(CUstream stream, unsigned int i, uint64_t value);
/* Opens the gate now, or after ROUND_MS on a thread of its own. */
void guest_open(void);
void guest_open_later(void);
/* Returns when the word is at least the value, without a call of the driver. */
void guest_await_host(unsigned int i, uint64_t value);

void guest_sync(CUstream stream);
void guest_sync_all(void);

/* Ends a capture on stream c. */
CUgraphExec guest_instantiate(void);

void guest_thread(void *(*run)(void *arg), void *arg);

/* waits_behind.c */
void behind_word(char **args);
void behind_event(char **args);
void behind_host(char **args);
void behind_graph(char **args);
void behind_beside(char **args);
void behind_ring(char **args);
void behind_watched(char **args);
void behind_fan(char **args);
void behind_blocked(char **args);
void behind_mutex(char **args);
void behind_thread(char **args);
void behind_busy(char **args);

/* waits_billed.c */
void billed_graph_nap(char **args);
void billed_graph_ends(char **args);
void billed_graph_event(char **args);
void billed_graph_update(char **args);
void billed_graph_owned(char **args);
void billed_legacy(char **args);
void billed_behind_legacy(char **args);
void billed_other_context(char **args);
void billed_many(char **args);
void billed_cold_wait(char **args);
void billed_cold_stream(char **args);
void billed_cold_function(char **args);
void billed_cold_both(char **args);
void billed_batch(char **args);
void billed_per_thread(char **args);
void billed_semaphore(char **args);
void billed_copy(char **args);
void billed_set(char **args);
void billed_pool(char **args);
void billed_cooperative(char **args);

/* waits_meet.c */
void meet_pair(char **args);
void meet_threads(char **args);
void meet_in_flight(char **args);
void meet_flag(char **args);
void meet_words(char **args);
void meet_devices(char **args);
void meet_contexts(char **args);
void meet_processes(char **args);
void meet_processes_devices(char **args);
void meet_tenants(char **args);

/* waits_capture.c */
void capture_wait(char **args);
void capture_fork(char **args);

#endif
