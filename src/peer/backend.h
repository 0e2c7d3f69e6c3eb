/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an open handle and its objects are, and the one table of functions behind which the vendors
 * are. Above it (peer.c, object.c, content.c) arguments are checked, addresses are kept, and state
 * is; below it (amd*.c, nvidia*.c) the driver is asked.
 */
#ifndef ALLOT_PEER_BACKEND_H
#define ALLOT_PEER_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "allot/peer.h"
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
	uint32_t forks; /* how often it and its parents had forked by then: see peer.c */

	/* Of all below, and held over the driver's calls: what is below is the driver's state. */
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
 * 0 or -errno, with words by complain(). All but open() and close() under the lock, with checked
 * arguments. An object's range is set by reserve(), or is that of its name, or of the program's own
 * pages.
 */
struct peer_backend {
	const char *name;  /* "amd", in front of a device's number */
	bool devices_only; /* neither SYSTEM nor USER */

	/* Fills the handle's devices, reach, aperture and page, and its own state. */
	int (*open)(struct allot_peer *peer);
	/* When there are no objects any more. In a forked child, where the driver's are the
	 * parent's, only memory is freed. */
	void (*close)(struct allot_peer *peer, bool forked);

	/* The link of devices that can reach each other. */
	int (*link)(const struct allot_peer *peer, uint32_t from, uint32_t to,
		    struct allot_peer_link *ret_link);

	/* Takes addresses for object->bytes, at `address`, or anywhere if that is 0, from the
	 * process, and sets the range. release() gives back what was reserved, if anything. */
	int (*reserve)(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		       uint64_t alignment);
	void (*release)(struct allot_peer *peer, struct peer_object *object);

	/* Memory behind an object that has its range, and the end of it. */
	int (*alloc)(struct allot_peer *peer, struct peer_object *object);
	int (*free)(struct allot_peer *peer, struct peer_object *object);

	/* Asks once: see mapping_fn. Words are why alone. */
	int (*map)(struct allot_peer *peer, struct peer_object *object,
		   const struct mapping_call *call, uint32_t *ret_done);

	/* A descriptor of the whole object. What one stands for, by the driver or by the caller:
	 * bytes, kind, flags and device of an object to be imported; and that, when it has its
	 * range. */
	int (*export_fd)(struct allot_peer *peer, struct peer_object *object, int *ret_fd);
	int (*inspect)(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		       struct peer_object *object);
	int (*import)(struct allot_peer *peer, int fd, struct peer_object *object);

	/* Content, of an object that has memory and an address, and ALLOT_PEER_HOST. */
	int (*read)(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
		    size_t bytes);
	int (*write)(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
		     const void *from, size_t bytes);
};

extern const struct peer_backend peer_amd, peer_nvidia;

/* peer.c: locks; -EBADF: a forked child, or NULL. */
int peer_lock(struct allot_peer *peer);
void peer_unlock(struct allot_peer *peer);

/* object.c: that has the address; -ENOENT, with words for the call. And the end of all of them. */
int peer_object_find(const struct allot_peer *peer, uint64_t address, const char *call,
		     struct peer_object **ret_object);
void peer_object_free_all(struct allot_peer *peer, bool forked);

/* object.c: which call makes it, for words: "alloc" or "import". */
const char *peer_object_call(const struct peer_object *object);

/* object.c: addresses for an object, and its place among the others; the reverse. */
int peer_object_place(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		      uint64_t alignment);
void peer_object_displace(struct allot_peer *peer, struct peer_object *object);

/* What a driver said of a mapping that failed; "" of one that did not. */
struct peer_why {
	char text[128];
};

/* object.c: maps an object to devices that do not map it, or the reverse: see mapping_run().
 * *ret_why, which may be NULL, is always written: why that failed, not why undoing it did. */
int peer_remap(struct allot_peer *peer, struct peer_object *object, bool unmap, uint64_t devices,
	       struct peer_why *ret_why);

/* object.c: the set of all. */
uint64_t peer_all(const struct allot_peer *peer);

/* "amd1 (0000:02:00.0)" */
struct peer_name {
	char text[64];
};
struct peer_name peer_name(const struct allot_peer *peer, uint32_t device);

#endif
