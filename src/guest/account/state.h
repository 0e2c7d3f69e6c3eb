/* SPDX-License-Identifier: Apache-2.0 */
/* Account's words of the process: for reconciling with the driver's figure, see figure.c. */
#ifndef ALLOT_GUEST_ACCOUNT_STATE_H
#define ALLOT_GUEST_ACCOUNT_STATE_H

#include "guest/core/guest.h"
#include "guest/process/serial.h"

/* guest->device[i].account */
struct account_device {
	_Atomic int contexts;		 /* live contexts of this process */
	_Atomic uint64_t context_size;	 /* of one, as this process measured it; 0: it did not */
	_Atomic uint64_t context_most;	 /* of all of them and code, as last seen */
	_Atomic uint64_t stack_bytes;	 /* of stacks by cuCtxSetLimit: see context_limits.h */
	_Atomic uint64_t promised_bytes; /* of heaps and FIFOs that the driver has not backed yet */
	struct serial making_primary;	 /* taken by the thread that makes the primary context */
	struct serial limits;		 /* taken by the thread that sets or probes a limit */
	_Atomic uint64_t unseen_bytes;	 /* charged, but not in the driver's figure (managed) */
	_Atomic uint64_t siblings_bytes; /* what the tenant's others hold and have not charged */
	_Atomic uint64_t reconciled_ns;	 /* CLOCK_MONOTONIC */
	_Atomic uint64_t released_ns;	 /* when it last gave memory back, likewise */
	_Atomic uint64_t context_ns;	 /* of the first context: nothing is hidden before */
	_Atomic uint64_t calls;		 /* that change what is held, see calls.h */
	_Atomic uint32_t alone;		 /* a thread ends a context, and goes alone */
	_Atomic uint32_t awaiting;	 /* threads that wait for it */
	_Atomic bool stale;		 /* the driver took or gave back by itself since the last look */
	/* Code may have come, or a green context: the figure is not of contexts alone. */
	_Atomic bool loaded;
	_Atomic bool unsure;  /* other threads were in the way of the last look */
	_Atomic bool guessed; /* a context is charged by a guess of its size */
};

struct figure_look;

/* guest->account */
struct account_state {
	struct account_device device[GUEST_DEVICES];
	struct once ahead;     /* of cuInit: what others of the tenant hold */
	_Atomic int libraries; /* loaded by the program: their code comes into contexts of any device */
	_Atomic uint64_t libraries_bytes; /* a guess of what those loaded at once take in a context */
	_Atomic uint64_t told_until_ns;	  /* end of its wait for its driver's pid, see figure.h */
	_Atomic uint64_t own_pid_due_ns;  /* it may be looked for then, see own_pid.h */
	_Atomic uint32_t own_pid_tries;
	_Atomic bool others; /* APIs beside CUDA have memory here: what is in the figure may be theirs */
	_Atomic bool guesses_stay; /* NVML does not tell others what their contexts take */
	_Atomic bool guess_asked;  /* a thread is to look at a guess, see later.h */
	_Atomic uint32_t later; /* a thread looks at figures once more, see later.h */
	_Atomic(CUcontext) primary[GUEST_DEVICES]; /* by ordinal, while active */
	_Atomic uint64_t ended;			   /* contexts that ever did */
	_Atomic(struct figure_look *) look;		   /* that nobody uses: see figure.c */
};

#endif
