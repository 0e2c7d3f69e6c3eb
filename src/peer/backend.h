/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open handle and its objects, and the one table of functions that each vendor fills. The files
 * above it (peer.c, object.c, content.c) check arguments and keep addresses and state; those below
 * (amd*.c, nvidia*.c) ask the driver. All of them stand on handle.c.
 */
#ifndef ALLOT_PEER_BACKEND_H
#define ALLOT_PEER_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "allot/peer.h"
#include "base/cleanup.h"
#include "peer/mapping.h"
#include "peer/address.h"
#include "peer/ranges.h"

_Static_assert(ALLOT_PEER_DEVICES == MAPPING_DEVICES, "a set of devices is a word");

/* All that there are. */
#define PEER_FLAGS ((uint32_t)(ALLOT_PEER_HOST | ALLOT_PEER_COARSE))

struct peer_object {
	struct range range; /* its addresses, and its place in the tree */
	enum allot_peer_kind kind;
	uint32_t flags;
	uint32_t device;
	bool imported;
	uint64_t bytes;
	uint64_t devices; /* that map it, as the driver has it */
	uint64_t inode, inode_device;

	/* The backend's. */
	uint64_t handle;
	uint64_t reserved, reserved_bytes; /* addresses taken from the process; 0: none */
	char *host;			   /* where the CPU sees the content, or NULL */
};

struct allot_peer {
	const struct peer_backend *backend;
	void *state;	/* the backend's */
	pid_t pid;	/* of the process that opened it */
	uint32_t forks; /* how often it and its parents had forked by then: see handle.c */

	/* Of all fields below. It is held over calls of the driver, whose state they mirror. */
	pthread_mutex_t lock;

	uint32_t n;
	struct allot_peer_device device[ALLOT_PEER_DEVICES];
	uint64_t reach[ALLOT_PEER_DEVICES]; /* of each: the devices whose memory it reaches */
	struct aperture aperture;	    /* addresses that all of them and the CPU have */
	uint64_t page;

	struct ranges objects;
	uint64_t next_name; /* where to look for the next name of a HANDLE */
};

/*
 * Each answers 0, or -errno after complain(). All but open() and close() are called under the lock,
 * with checked arguments. An object's range is set by reserve(), or is that of its name, or that of
 * the program's own pages.
 */
struct peer_backend {
	const char *name;  /* "amd", in front of a device's number */
	bool devices_only; /* neither SYSTEM nor USER */

	/* Fills the handle's devices, reach, aperture and page, and its own state. */
	int (*open)(struct allot_peer *peer);
	/*
	 * After the last object is gone. In a forked child it frees memory alone, since the
	 * driver's objects belong to the parent.
	 */
	void (*close)(struct allot_peer *peer, bool forked);

	/* The link of devices that can reach each other. */
	int (*link)(const struct allot_peer *peer, uint32_t from, uint32_t to,
		    struct allot_peer_link *ret_link);

	/*
	 * Takes addresses for object->bytes from the process, at `address`, or anywhere if that is
	 * 0, and sets the range. release() frees a reservation, if there is one.
	 */
	int (*reserve)(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		       uint64_t alignment);
	void (*release)(struct allot_peer *peer, struct peer_object *object);

	/* Gives memory to an object that has its range, and takes it back. */
	int (*alloc)(struct allot_peer *peer, struct peer_object *object);
	int (*free)(struct allot_peer *peer, struct peer_object *object);

	/* Asks the driver once, see mapping_fn; complains of the reason alone. */
	int (*map)(struct allot_peer *peer, struct peer_object *object,
		   const struct mapping_call *call, uint32_t *ret_done);

	/*
	 * export_fd: a descriptor of the whole object. inspect: bytes, kind, flags and device of a
	 * descriptor's object, from the driver or else from the caller. import: that object's
	 * memory, once it has its range.
	 */
	int (*export_fd)(struct allot_peer *peer, struct peer_object *object, int *ret_fd);
	int (*inspect)(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		       struct peer_object *object);
	int (*import)(struct allot_peer *peer, int fd, struct peer_object *object);

	/* Content of an object that has memory, an address and ALLOT_PEER_HOST. */
	int (*read)(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
		    size_t bytes);
	int (*write)(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
		     const void *from, size_t bytes);
};

extern const struct peer_backend peer_amd, peer_nvidia;

/* handle.c: makes it this process's; and whether this is a child of that one. */
void peer_own(struct allot_peer *peer);
bool peer_is_forked(const struct allot_peer *peer);

/* handle.c: locks, until the end of the caller's scope; -EBADF: a forked child, or NULL. */
#define PEER_LOCKED CLEANUP(peer_unlock) struct allot_peer *
int peer_lock(struct allot_peer *peer, struct allot_peer **ret_locked);
void peer_unlock(struct allot_peer **locked);

/*
 * object.c: finds the object that has the address; -ENOENT after it complained for `call`. And
 * frees all objects.
 */
int peer_object_find(const struct allot_peer *peer, uint64_t address, const char *call,
		     struct peer_object **ret_object);
void peer_object_free_all(struct allot_peer *peer, bool forked);

/* object.c: which call makes it, for words: "alloc" or "import". */
const char *peer_object_call(const struct peer_object *object);

/* object.c: gives an object addresses and its place among the others, and takes both back. */
int peer_object_place(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		      uint64_t alignment);
void peer_object_displace(struct allot_peer *peer, struct peer_object *object);

/* The driver's words for a failed mapping; "" for a good one. */
struct peer_why {
	char text[128];
};

/*
 * object.c: maps an object to devices that do not map it, or the reverse, see mapping_run().
 * *ret_why (or NULL) is always written: why the first failed, not why undoing it did.
 */
int peer_remap(struct allot_peer *peer, struct peer_object *object, bool unmap, uint64_t devices,
	       struct peer_why *ret_why);

/* object.c: the set of all. */
uint64_t peer_all(const struct allot_peer *peer);

/* handle.c: "amd1 (0000:02:00.0)" */
struct peer_name {
	char text[64];
};
struct peer_name peer_name(const struct allot_peer *peer, uint32_t device);

#endif
