/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that the driver gave this process, and their charges: a table from (kind, key) to object,
 * O(1). It knows objects and not just sizes, because only an object can be suspended, moved or
 * shared later. The table locks for a few instructions and never calls the driver.
 */
#ifndef ALLOT_GUEST_CORE_OBJECT_H
#define ALLOT_GUEST_CORE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/quota.h"
#include "ledger/shared.h"

enum object_kind {
	OBJECT_NONE,
	OBJECT_MEMORY,	 /* key: address from cuMemAlloc and its like */
	OBJECT_GRANULE,	 /* key: device and address of 2 MiB; refs: small allocations in it */
	OBJECT_HANDLE,	 /* key: physical memory handle (VMM); refs: of the program */
	OBJECT_MAPPING,	 /* key: address at which a handle is mapped */
	OBJECT_LEAVING,	 /* key: of a mapping that the driver is just taking away */
	OBJECT_GONE,	 /* key: of the mapping or tile; the handle that goes with it, as it was */
	OBJECT_TILE,	 /* key: part of a sparse array, or a multicast object, that a handle backs */
	OBJECT_UNTILED,	 /* key: a number; a tile that the driver is just taking away */
	OBJECT_PARTING,	 /* key: event after which the memory, as it was otherwise, is free */
	OBJECT_WAITING,	 /* key: address that was freed while a stream captured, backed still */
	OBJECT_ARRAY,	 /* key: array or mipmapped array */
	OBJECT_SHARE,	 /* key: of an entry in the tenant's table; refs: objects that hold it */
	OBJECT_IPC,	 /* key: address from cuIpcOpenMemHandle; refs: times it was opened */
	OBJECT_EXTERNAL, /* key: number of an import, see memory/external.h; refs: views of it */
	OBJECT_VIEW,	 /* key: what is imported, or an address or array of it */
	OBJECT_LOAN,	 /* key: of an entry that an import holds beside its own */
	OBJECT_POOL,	 /* key: memory pool; bytes: of its reserve; refs: see pool_hold */
	OBJECT_POINTER,	 /* key: address of a pool's allocation that was exported */
	OBJECT_EXEC,	 /* key: executable graph and a device; size: what its nodes ask of that */
	OBJECT_EXEC_WAITS, /* key: executable graph that may wait for the program in its middle */
	OBJECT_MODULE,	 /* key: module or library; bytes: a guess of its size in a context */
	OBJECT_CONTEXT,	 /* key: context that the program created */
	OBJECT_GREEN,	 /* key: context of a green context, which is part of the primary one */
	OBJECT_LIMITS,	 /* key: context of which a limit was set, see memory/context_limits.h */
	OBJECT_EXPORT,	 /* key: address of a piece that others may import, see lend/exporter.h */
	OBJECT_IMPORT,	 /* key: hash of the name of another process's piece; refs: of its users */
	OBJECT_BORROWED, /* key: as OBJECT_IMPORT's, of AMD's memory; see amd/memory/lent.h */
	OBJECT_KFD,	 /* key: handle of /dev/kfd; this and the next two: AMD's hook_memory.c */
	OBJECT_GEM,	 /* key: handle of a render node, see amd/files.h; refs: of that key */
	OBJECT_DMABUF,	 /* key: inode of a descriptor that holds memory without a handle */
	OBJECT_VULKAN,	 /* key: of a logical device and its memory, see vulkan/hook_memory.c */
	OBJECT_OPENCL,	 /* key: memory object, or address of shared virtual memory */
	OBJECT_KINDS,
};

enum object_flags {
	OBJECT_SHARED = 1 << 0,	  /* `shared` names it in the tenant's table */
	OBJECT_SMALL = 1 << 1,	  /* charged through the granules that it lies in */
	OBJECT_UNSEEN = 1 << 2,	  /* not in the driver's per-process figure */
	OBJECT_IMPORTED = 1 << 3, /* somebody else's memory; bytes 0 until its size is known */
	OBJECT_HOST = 1 << 4,	  /* AMD's, of the machine's memory alone */
	OBJECT_ENDED = 1 << 5,	  /* a pool or external memory that the program destroyed */
	OBJECT_BACKED = 1 << 7,	  /* by memory that can leave: see movable/backing.h */
	OBJECT_GIVEN = 1 << 8,	  /* a handle of which others have what we cannot take back */
	OBJECT_MULTICAST = 1 << 9, /* a handle of no memory of its own */
};

/* The bytes of a descriptor's lock by which its importers know it, see lend/stamp.h. */
struct stamp {
	int64_t first, last; /* 0: none */
};

struct host_nodes;

struct object {
	uint64_t key;
	uint8_t kind;	  /* enum object_kind */
	uint8_t category; /* enum category that carries its charge */
	uint16_t flags;	  /* enum object_flags */
	int16_t device;	  /* CUDA ordinal; AMD's: index in struct amd; -1: none */
	uint32_t refs;	  /* of the kinds that say so */
	uint64_t bytes;	  /* charged */
	uint64_t size;	  /* as the program asked for it */
	uint64_t context; /* goes with it when it is destroyed; 0: outlives contexts */
	struct shared_key shared; /* its entry in the tenant's table, if flags have OBJECT_SHARED */
	union {
		struct {
			uint64_t id; /* no other allocation of the process has had it */
			uint64_t import; /* OBJECT_IPC: which OBJECT_IMPORT it is in */
			uint64_t pool;	 /* that it is from; 0: none */
		} linear;		 /* OBJECT_MEMORY, OBJECT_IPC that are backed */
		struct {
			uint64_t id; /* a process that knows it may import */
		} export;	     /* OBJECT_EXPORT */
		struct {
			uint64_t process, object, id; /* as in struct share_name */
			uint64_t at;		      /* the piece that it is here */
			uint32_t slot, generation;    /* of its exporter */
		} import;			      /* OBJECT_IMPORT */
		struct {
			uint32_t maps;	/* mappings of it */
			uint32_t number; /* that its descriptors are stamped with; 0: none */
			uint64_t import; /* where it is backed and imported: which OBJECT_IMPORT */
			struct stamp stamp; /* of the descriptor that it was imported by */
		} handle;		    /* OBJECT_HANDLE, OBJECT_GONE */
		struct {
			uint32_t parting; /* views that are OBJECT_PARTING */
		} external;		  /* OBJECT_EXTERNAL */
		struct {
			uint64_t context; /* in which it was imported; 0: outlives contexts */
			uint64_t import;  /* OBJECT_EXTERNAL's key */
		} view;			  /* OBJECT_VIEW */
		struct {
			uint64_t import; /* OBJECT_EXTERNAL's key */
		} loan;			 /* OBJECT_LOAN */
		struct {
			uint64_t handle, offset;
			uint64_t may_read, may_write; /* devices, while it is evicted */
			bool away;		      /* see movable/mapping.h */
		} mapping;			      /* OBJECT_MAPPING, OBJECT_LEAVING */
		struct {
			uint64_t handle;
			uint64_t array;
			uint64_t key, call; /* OBJECT_UNTILED: as it was; the first number of its call */
			uint64_t offset, size; /* in a multicast object */
		} tile;			       /* OBJECT_TILE, OBJECT_UNTILED */
		struct {
			uint64_t address;
			uint64_t import; /* of a view, in its place there */
			uint64_t before; /* event ahead of the free; 0: there is none */
			bool begun;	 /* the stream has come to the free, or it is not known */
		} parting; /* OBJECT_PARTING */
		struct {
			uint64_t unfit_bytes; /* this size did not fit in one piece; 0: unknown */
			uint64_t unfit_used;  /* while as much was in use, or more */
			uint64_t id; /* no other pool of the process has had it */
			uint64_t largest; /* of an exportable one: its largest growth at once */
			uint32_t number;  /* that its descriptors are stamped with; 0: none */
			bool exportable;
		} pool; /* OBJECT_POOL; `shared` is its key as soon as that has been exported */
		struct {
			uint32_t epoch; /* in which it was last backed; 0: never */
		} exec;			/* OBJECT_EXEC */
		struct {
			uint64_t devices; /* a bit each, by index in guest->opencl: `bytes` on each */
		} opencl;		  /* OBJECT_OPENCL */
		struct host_nodes *hosts; /* OBJECT_EXEC_WAITS: around its waits, or NULL */
		struct {
			uint64_t devices; /* a bit each, that have the code */
			bool everywhere;  /* in each of their contexts; else in one */
		} code;			  /* OBJECT_MODULE */
		struct {
			uint64_t stack, heap, fifo; /* bytes beyond what it began with */
			uint64_t first_stack, first_heap, first_fifo; /* as it began; 0: not seen */
		} limits;		/* OBJECT_LIMITS */
		struct {
			uint64_t inode; /* of its dma-buf; 0: it has none */
			uint64_t lent;	/* id of its name, the same for lender and borrower; 0 */
			/* Of a swappable tenant's OBJECT_KFD, as it was made: amd/memory/made.h. */
			uint64_t va;
			uint64_t offset; /* for mmap */
			uint64_t mapped; /* GPUs, a bit each, by their place in struct amd */
			uint32_t flags;
			/* Charged beside `bytes`: of the machine's memory, as enum host_category. */
			uint64_t gtt, userptr;
		} amd; /* OBJECT_KFD, OBJECT_GEM, OBJECT_DMABUF */
		struct {
			uint64_t device; /* the serial of its logical device */
			struct stamp stamp; /* of the descriptor that it was imported by */
			uint32_t mask;	 /* devices of that one's group that have it, a bit each */
			uint32_t number; /* that its descriptors are stamped with; 0: none */
		} vulkan;		 /* OBJECT_VULKAN */
	};
};

struct object_table;

/*
 * A number that no object of this process has had. The driver may hand out a handle again as soon
 * as it is free, so an object is its handle and such a number.
 */
uint64_t object_generation(void);

/* Memory from mmap alone: hooks may run inside the program's own malloc. -ENOMEM. */
int object_table_new(struct object_table **ret);

/*
 * Adds it, or replaces the object of the same kind and key. -ENOMEM. object_exchange also copies
 * out what it replaced: OBJECT_NONE if that was nothing.
 */
int object_put(struct object_table *table, const struct object *object);
int object_exchange(struct object_table *table, const struct object *object,
		    struct object *ret_before);

/* Adds it, -EEXIST if there is one of the same kind and key. -ENOMEM. */
int object_add(struct object_table *table, const struct object *object);

/*
 * Copies it out; object_take also removes it, so that of two threads that free one pointer one gets
 * it.
 */
bool object_get(struct object_table *table, enum object_kind kind, uint64_t key,
		struct object *ret);
bool object_take(struct object_table *table, enum object_kind kind, uint64_t key,
		 struct object *ret);

/*
 * Changes an object in place: `change` gets it under the lock (no calls that wait, no driver) and
 * answers whether it stays. A missing one is offered zeroed with its kind and key when `create`:
 * then it stays if `change` says so. False: it was missing; -ENOMEM also reads as missing.
 */
bool object_change(struct object_table *table, enum object_kind kind, uint64_t key, bool create,
		   bool (*change)(struct object *object, void *arg), void *arg);

/*
 * Removes up to `max` objects for which `match` is true (under the lock) and copies them out.
 * Answers how many; call again until it answers less than `max`.
 */
int object_sweep(struct object_table *table, bool (*match)(const struct object *object, void *arg),
		 void *arg, struct object *out, int max);

/*
 * Copies out the objects of a kind with the lowest keys above `above`, at most `max`, in the order
 * of their keys. For all of them see OBJECT_EACH.
 *
 * Quick for pools, partings, IPC and pool pointers; for others it looks through all there is.
 */
int object_list(struct object_table *table, enum object_kind kind, uint64_t above,
		struct object *out, int max);

/* As many as are looked at together: they are on the program's stack, which may be small. */
#define OBJECT_BATCH 16

struct object_walk {
	struct object_table *table;
	enum object_kind kind;
	bool (*match)(const struct object *object, void *arg); /* NULL: all of the kind stay */
	void *arg;
	uint64_t above;
	int n, at; /* of the batch */
	bool last; /* there is no other batch */
	struct object batch[OBJECT_BATCH];
};

/* The next one, good until the one after it; NULL: there is none. */
struct object *object_walk_next(struct object_walk *walk);

/*
 * Each object of a kind, however many there are, in the order of their keys: `object`, a pointer,
 * is at a copy, and the table is free meanwhile.
 */
#define OBJECT_EACH(object, of_table, of_kind)                                                     \
	for (struct object_walk object##_walk = {.table = (of_table), .kind = (of_kind)};          \
	     ((object) = object_walk_next(&object##_walk));)

/* Each one that object_sweep removes. A loop that is left before its end loses some. */
#define OBJECT_SWEEP(object, of_table, of_match, of_arg)                                           \
	for (struct object_walk object##_walk = {.table = (of_table), .match = (of_match),         \
						 .arg = (of_arg)};                                 \
	     ((object) = object_walk_next(&object##_walk));)

/* The same for one object: the one with the smallest key above `above`. False: there is none. */
bool object_next(struct object_table *table, enum object_kind kind, uint64_t above,
		 struct object *ret);

/* How many objects of a kind there are; exact when nobody changes them. */
unsigned int object_count(struct object_table *table, enum object_kind kind);

#endif
