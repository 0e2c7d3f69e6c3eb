/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases: each is something that the audit's program does for a while. ANY are drawn from and draw
 * all that they do, MEETS only where work is to wait for other work in its middle, HOSTS where for
 * the program; others are one program each whose bill was once wrong, and the same with every seed.
 */
#ifndef ALLOT_TESTS_AUDIT_PHASES_H
#define ALLOT_TESTS_AUDIT_PHASES_H

#include "tests/audit/guest.h"

enum draw { FIXED, ANY, MEETS, HOSTS };

struct phase {
	const char *name;
	void (*run)(struct guest *guest); /* until guest_over(); nothing is left on the device */
	enum draw draw;
};

/* Ends with a NULL name. */
extern const struct phase phases[];

/* Programs with figures: a phase draws these or has them fixed. */
void play_tokens(struct guest *guest, unsigned int nodes, uint64_t us, uint64_t host_us, bool copy,
		 enum guest_wait how);
void play_two_lengths(struct guest *guest, uint64_t a_us, uint64_t b_us, uint64_t host_us,
		      enum guest_wait how);
/* `same`: the last one is of the same function and size as those before. */
void play_tail(struct guest *guest, unsigned int brief, uint64_t brief_us, uint64_t tail_us,
	       uint64_t host_us, bool same, enum guest_wait how);
void play_batches(struct guest *guest, unsigned int copies, size_t bytes, enum guest_wait how);
/* Streams that wait for each other or not, and are waited for together or one by one. */
struct streams {
	unsigned int n, launches;
	uint64_t us; /* of the briefest launch; others take twice and three times as long */
	bool chained, joined;
	enum guest_wait how;
};
void play_streams(struct guest *guest, const struct streams *s);
void play_beside(struct guest *guest, uint64_t long_us, uint64_t brief_us, enum guest_wait how);
/* Contexts beyond `last` work a little at first and then no more; all at once or one by one. */
void play_contexts(struct guest *guest, unsigned int n, unsigned int last, unsigned int launches,
		   uint64_t us, bool at_once);
/* Copies and memsets of so many bytes, each kernel followed by so many of both. */
void play_copies(struct guest *guest, uint64_t kernel_us, unsigned int copies, size_t bytes,
		 enum guest_wait how);
void play_host_functions(struct guest *guest, unsigned int launches, uint64_t us,
			 uint64_t host_us, enum guest_wait how);
/* The same in one graph. */
void play_graph_with_hosts(struct guest *guest, unsigned int launches, uint64_t us,
			   uint64_t host_us, enum guest_wait how);
/* A stream waits for an event behind another stream's host function. */
void play_event_waits(struct guest *guest, unsigned int launches, uint64_t us, uint64_t host_us,
		      enum guest_wait how);
/* New functions, each launched for the first time. */
void play_lazy(struct guest *guest, unsigned int functions, uint64_t us, enum guest_wait how);

#endif
