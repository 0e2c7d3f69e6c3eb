/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's work: blocks of memory, each taken and given back by its family. A family is a row of
 * functions; storm_work.c has the table of them, and a file for each idea has the functions.
 */
#ifndef ALLOT_TESTS_STORM_WORK_H
#define ALLOT_TESTS_STORM_WORK_H

#include <sys/types.h>

#include "storm.h"

struct worker;
struct block;

struct family {
	const char *name;
	/* Fills the block. False: it was refused, and nothing is held. */
	bool (*take)(struct worker *w, struct block *b);
	void (*give)(struct worker *w, struct block *b);
	/* NULL, or what is done now and then with a block that is held. */
	void (*use)(struct worker *w, struct block *b);
	/* NULL, or false: this worker takes none of it. */
	bool (*may)(const struct worker *w);
};

struct block {
	const struct family *family; /* NULL: the block is free */
	int device;
	uint64_t bytes;
	CUdeviceptr ptr, second;
	CUmemGenericAllocationHandle handle, again;
	void *object;
	CUlimit limit;
	pid_t pid; /* of a started program, which this socket leads to */
	int socket;
	unsigned int end;   /* how it ends */
	unsigned int parts; /* of a sparse array */
	bool frees; /* the graph frees its memory when it is launched again */
	bool live;  /* the graph has memory that nobody has freed */
	uint64_t id;	     /* the driver's number of the allocation at `ptr`; 0: not known */
	unsigned int ticket; /* of a letter that others may still read; 0: none */
};

struct worker {
	int process;
	bool sends;
	unsigned int seed;
	CUcontext *contexts; /* the primary ones, by device */
	CUstream stream[DEVICES], other[DEVICES];
	struct block block[BLOCKS];
	const struct family *family[FAMILIES]; /* the ones it takes */
	unsigned int families;
	uint64_t refused;
};

extern const struct family storm_large, storm_small, storm_pitch, storm_managed;
extern const struct family storm_async, storm_mixed, storm_pool;
extern const struct family storm_array, storm_array_deep, storm_mipmap, storm_sparse;
extern const struct family storm_handle, storm_external;
extern const struct family storm_graph, storm_graph_kept;
extern const struct family storm_context, storm_retain, storm_limit, storm_green;
extern const struct family storm_module, storm_library;
extern const struct family storm_multicast;
extern const struct family storm_program, storm_program_further, storm_program_green, storm_forked;
extern const struct family storm_sent, storm_sent_ipc, storm_sent_pool, storm_received;

static inline bool storm_refused(struct worker *w, CUresult e)
{
	w->refused += e != CUDA_SUCCESS;
	return e != CUDA_SUCCESS;
}

/* True if the call was refused. Out of memory is the only refusal that is in order. */
#define REFUSED(w, call)                                                          \
	({                                                                        \
		CUresult answer_ = CUDA_SUCCESS;                                  \
		GIVES((answer_ = got_, !got_ || got_ == CUDA_ERROR_OUT_OF_MEMORY), call); \
		storm_refused(w, answer_);                                        \
	})

static inline CUmemLocation storm_location(int device)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

static inline uint64_t storm_granules(uint64_t bytes)
{
	return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/*
 * Frees linear memory in the order of the worker's stream, or at once; with DRAW_CROSSED also in
 * the order of its other stream, or the other way round.
 */
void storm_free(struct worker *w, int device, CUdeviceptr ptr, bool in_stream);

/* Reads the limits that a context has by itself; needs one that is current. */
void storm_begin_limits(void);
CUlimit storm_pick_limit(struct worker *w);
/* Sets a limit of the current context to what takes about so many bytes. False: it was refused. */
bool storm_set_limit(struct worker *w, CUlimit limit, uint64_t bytes);

/* A green context over a part of the device. False: it was refused. */
bool storm_create_green(struct worker *w, int device, CUgreenCtx *ret_green);
/* Allocates in the block's green context. False: that was refused. */
bool storm_fill_green(struct worker *w, struct block *b);

/* True if the workers of this run take memory of the family. */
bool storm_takes(const struct family *family);

/* A message of one process to another: with a descriptor, it names the memory. */
struct letter {
	enum { LETTER_HANDLE, LETTER_IPC, LETTER_POOL } kind;
	unsigned int ticket;
	int device;
	uint64_t bytes;
	CUipcMemHandle ipc;
	CUmemPoolPtrExportData pool_ptr;
};

/*
 * Sends the letter to another process, with a descriptor unless that is -1. The block stays until
 * the letter has arrived.
 */
void storm_post(struct worker *w, struct block *b, struct letter *letter, int fd);
/* The next letter to this worker's process; a descriptor that came along is the caller's. */
bool storm_fetch(const struct worker *w, struct letter *letter, int *ret_fd);
/* The sender of the letter may give its block back. */
void storm_arrived(const struct letter *letter);

/* Memory by handle, which other families export; storm_take_handle maps it now and then. */
bool storm_create_handle(struct worker *w, struct block *b);
bool storm_take_handle(struct worker *w, struct block *b);
void storm_map_handle(struct worker *w, struct block *b);
void storm_give_handle(struct worker *w, struct block *b);
/* The same memory by another driver's name: `fd` is closed. False: it was refused. */
bool storm_import_external(struct worker *w, struct block *b, int fd);
void storm_give_external(struct worker *w, struct block *b);

#endif
