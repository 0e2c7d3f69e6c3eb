/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that takes device memory by every family, in threads of several processes, and gives it
 * back, in an order that follows from a seed. It knows nothing of allot, and runs on a simulated
 * device as on a real one.
 */
#ifndef ALLOT_TESTS_STORM_H
#define ALLOT_TESTS_STORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"

#define MIB	  (UINT64_C(1) << 20)
#define PROCESSES 8
#define DEVICES	  3
#define BLOCKS	  10 /* of a thread */
#define FAMILIES  64
#define TICKETS	  4096

/* Draws: each is on for all of a run, or off. */
enum draw {
	DRAW_SLOW,    /* host functions that take time before frees in a stream's order */
	DRAW_CROSSED, /* frees in other streams, and by the other family's call */
	DRAW_TWICE,   /* second references to handles, and second mappings of them */
	DRAW_FILLED,  /* further contexts have memory in them, which ends with them */
	DRAW_ORPHANS, /* memory in green contexts that end before it */
	DRAWS,
};

enum child_kind { CHILD_NONE, CHILD_PRIMARY, CHILD_FURTHER, CHILD_GREEN };

struct options {
	unsigned int seed;
	int processes, threads, devices;
	int steps;
	int most_mib;  /* of one allocation */
	uint64_t families; /* these alone; 0: all */
	unsigned int draws;    /* a bit each */
	int device;	       /* of a started program */
	enum child_kind child; /* the context that it has; none: this is no such program */
	bool leaves;	       /* it gives nothing back when it ends */
	bool simulated;	       /* the driver is the simulator's */
	bool managed;  /* managed memory, too, which no driver's figure has */
	bool share;    /* memory passed between processes */
	bool resets;   /* the second process resets its primary contexts */
	bool retains;  /* another one retains and releases them all the time */
	bool ends;     /* the last one ends in the middle, and nothing replaces it */
	int pause_us;  /* the most that a thread waits between two steps */
	bool kills;    /* the last one is killed now and then */
};

/* The memory that the processes share. */
struct storm {
	struct options options;
	_Atomic int warm;		  /* the first process has its contexts */
	_Atomic int calm;		  /* nobody is killed any more */
	_Atomic int begun, taken_down, settled; /* processes that came so far */
	_Atomic int ended;		  /* the process that ends in the middle reads no more */
	_Atomic int go;
	/* One allocation at rest, which the first process makes. */
	_Atomic int asked, answered; /* how many times */
	int ask_device;
	uint64_t ask_bytes;
	CUresult answer;
	_Atomic unsigned int next_ticket;
	_Atomic bool arrived[TICKETS]; /* what was sent under a number is somebody's, or nobody's */
	int mailbox[PROCESSES][2];     /* read here, written there */
};

extern struct storm *storm;
extern struct cuda_driver cu;

/* One process's work: 0 when all went as it should. `life`: 0, and more for one that replaces. */
int storm_process(int index, int life);
/* A program that a process has started, see storm_child.c. */
int storm_child(void);
/* The process whose threads meet a context that is reset under them. */
int storm_reset_process(int index);
/* The process whose primary contexts come and go with its threads' references to them. */
int storm_retain_process(int index);
/* Takes the letters to a process that nobody opens: their senders would wait for ever. */
void storm_drain(int index);

/*
 * Before it allocates: all have their contexts then. False: one that replaces another finds no room
 * for its own.
 */
bool storm_begin_contexts(CUcontext contexts[DEVICES], int life);
void storm_bind_driver(void);
/* An entry point that the list has no prototype of; NULL: there is none. */
void *storm_symbol(const char *name);
/* Adds a family by its name; false: there is none of that name. */
bool storm_family(const char *name, uint64_t *families);
/* False: the process reads no letters, so none may be sent to it. */
bool storm_reads_letters(int index);
/* True for the process that ends in the middle. */
bool storm_ends(int index);
/* Waits until all processes are as far. */
void storm_arrive(_Atomic int *count);
/* Waits until it is set. */
void storm_await(_Atomic int *flag);

static inline bool storm_draws(enum draw draw)
{
	return storm->options.draws >> draw & 1;
}

static inline unsigned int pick(unsigned int *seed, unsigned int n)
{
	return (unsigned int)rand_r(seed) % n;
}

const char *storm_error(CUresult e);

#define GIVES(ok, call)                                                                     \
	do {                                                                                \
		CUresult got_ = (call);                                                     \
		if (!(ok)) {                                                                \
			fprintf(stderr, "storm: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				storm_error(got_));                                         \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)
#define OK(call) GIVES(got_ == CUDA_SUCCESS, call)

#endif
