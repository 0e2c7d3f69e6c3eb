/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peer memory: allocate on one device, use it from the others, in this process and, through a
 * descriptor, in others. The same for AMD's GPUs, by way of the kernel's KFD driver, and for
 * NVIDIA's, by way of the CUDA driver's virtual memory management; neither ROCm nor the CUDA
 * toolkit is needed to build.
 *
 *	struct allot_peer *peer;
 *	struct allot_peer_request what = {.device = 0, .bytes = 64 << 20};
 *	uint64_t at;
 *
 *	if (allot_peer_open(ALLOT_PEER_AMD, &peer) < 0 ||
 *	    allot_peer_alloc(peer, &what, &at) < 0 ||
 *	    allot_peer_map(peer, at, ALLOT_PEER_ALL) < 0)
 *		fprintf(stderr, "%s\n", allot_peer_error());
 *
 * Link with `pkg-config --cflags --libs allot-peer`.
 *
 * Devices are numbered from 0 on, as they were when the handle was opened, and a set of devices is
 * a word with a bit for each. Objects are named by their first address; addresses, offsets and
 * lengths are in bytes. All objects of a handle share one address space, and one has the same
 * address on every device that maps it. Pointers are NULL only where that is said.
 *
 * Functions answer 0 or -errno and write what they return only on success; allot_peer_error() then
 * has words. An answer that a function's list does not have is the kernel's or the driver's own.
 * Threads may use a handle at the same time; calls wait for each other, and none may be under way
 * when it is closed. A forked child has none of its parent's objects, and may ask its handles for
 * devices and links, and close them; the rest answers -EBADF. AMD's devices it can open for itself.
 * NVIDIA's driver does not work in a child of a process that has used it before it execs: -ENOTSUP.
 */
#ifndef ALLOT_PEER_H
#define ALLOT_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The most devices of a handle. */
#define ALLOT_PEER_DEVICES 64

/*
 * In place of a set of devices: all that can reach the object, or all that map it. A set without
 * any bit is just that: nothing is mapped, or unmapped.
 */
#define ALLOT_PEER_ALL UINT64_MAX

enum allot_peer_vendor {
	ALLOT_PEER_AMD = 0,
	ALLOT_PEER_NVIDIA = 1,
};

/* What an object is. NVIDIA's driver has no SYSTEM and no USER here: -ENOTSUP. */
enum allot_peer_kind {
	ALLOT_PEER_MEMORY = 0,	/* of a device (VRAM) */
	ALLOT_PEER_SYSTEM = 1,	/* of the machine, for devices to use (GTT) */
	ALLOT_PEER_USER = 2,	/* pages of the program's at that address, which it has to keep
				 * until the object is freed (userptr). Whole pages: devices reach
				 * what else lies in them, so the caller says that it may */
	ALLOT_PEER_ADDRESS = 3, /* addresses without memory, which no device can map */
	ALLOT_PEER_HANDLE = 4,	/* memory of a device without an address: only to be exported */
};

enum allot_peer_flag {
	ALLOT_PEER_HOST = 1u << 0,   /* the CPU may look: allot_peer_read() and _write() */
	ALLOT_PEER_COARSE = 1u << 1, /* devices may keep it in caches while they work on it */
};

struct allot_peer; /* devices, the links between them, and this handle's objects */

/*
 * Takes a snapshot of the vendor's devices and links, and opens the devices. *ret_peer goes to
 * allot_peer_close().
 *
 * -ENOENT: no driver of that vendor here; -ENODEV: a driver, but no device that this process may
 * use; -EACCES, -EPERM: no permission; -EBUSY: another library opened AMD's devices in this process
 * before, and the driver lets a process have one owner of its address space; -EINVAL: no such
 * vendor; -ERANGE: devices without addresses in common; -E2BIG: more than ALLOT_PEER_DEVICES;
 * -ENOTSUP: a driver too old, or NVIDIA's in a forked child; -ENOMEM.
 */
int allot_peer_open(enum allot_peer_vendor vendor, struct allot_peer **ret_peer);

/*
 * Unmaps and frees everything that the handle has, and the handle. Takes NULL. Memory that was
 * exported lives on while somebody has its descriptor or imported it.
 */
void allot_peer_close(struct allot_peer *peer);

/*
 * Words for this thread's last call, if it failed: what, on which object, why, what to do; ""
 * before any did. The library's, and as they are until the thread's next call.
 */
const char *allot_peer_error(void);

struct allot_peer_device {
	char name[64];	       /* "gfx90a", "NVIDIA H200" */
	char pci[32];	       /* "0000:c1:00.0" */
	uint64_t memory_bytes; /* in all, whoever has it */
	uint32_t id;	       /* what the vendor's tools call it: KFD's node, CUDA's ordinal */
	uint32_t gpu_id;       /* what KFD's ioctls call it; 0 on NVIDIA's */
};

/* How one device reaches memory of another. 0 stands for what the driver does not say. */
struct allot_peer_link {
	char type[16];	       /* "xGMI", "PCIe", "NVLink", "" */
	uint32_t weight;       /* KFD's distance: the less, the closer */
	uint32_t max_mb_per_s; /* of 10^6 bytes, as the driver says, not as measured */
};

/* How many devices there are: their numbers are 0 to that less 1. */
uint32_t allot_peer_device_count(const struct allot_peer *peer);

/* -EINVAL: there is no such device. */
int allot_peer_device(const struct allot_peer *peer, uint32_t device,
		      struct allot_peer_device *ret_device);

/*
 * How `from` reaches memory of `to`. Links have a direction: the other way may be another link, or
 * none. -ENOLINK: none; -EINVAL: no such devices, or they are the same.
 */
int allot_peer_link(const struct allot_peer *peer, uint32_t from, uint32_t to,
		    struct allot_peer_link *ret_link);

/*
 * The devices that memory of `owner` can be mapped to: itself, and those with a link to it.
 * -EINVAL: there is no such device.
 */
int allot_peer_reachable(const struct allot_peer *peer, uint32_t owner, uint64_t *ret_devices);

struct allot_peer_request {
	enum allot_peer_kind kind;
	uint32_t flags;	    /* of enum allot_peer_flag */
	uint32_t device;    /* whose memory; of SYSTEM and USER: who allocates, any */
	uint64_t bytes;	    /* whole pages: of 4096 bytes on AMD's, on NVIDIA's of 2 MiB */
	uint64_t address;   /* 0: any; of USER: where the pages are. Else nothing may be there */
	uint64_t alignment; /* a power of two of whole pages; 0: what the size asks for */
};

/*
 * Makes an object that no device maps yet. Its address stands in *ret_address; a HANDLE has a name
 * in place of an address, from where nothing can be.
 *
 * Where any address will do a page on both sides of the object stays without memory, so that who
 * runs over an end does not meet another object.
 *
 * -ENOMEM: the device, or the tenant's quota, has not that much, or there are no addresses;
 * -EEXIST: something is at the address that was asked for; -ERANGE: an address or a length that not
 * all devices can have; -EINVAL: not whole pages, no power of two, no such device, kind or flag;
 * -ENOTSUP: a kind that this vendor's driver does not have, or HOST for memory of an AMD device that
 * the CPU does not reach all of (no large BAR).
 */
int allot_peer_alloc(struct allot_peer *peer, const struct allot_peer_request *what,
		     uint64_t *ret_address);

/*
 * Maps an object to those of `devices` that do not map it yet, ALLOT_PEER_ALL: to all that can
 * reach it. Either all of them map it afterwards, or those that did before. Should the driver
 * neither go on nor take back what it did, allot_peer_find() says what there is.
 *
 * It is not counted how often: what one part of a program unmaps is unmapped for the others. Parts
 * that do not know of each other have an object each, by allot_peer_export() and _import(), which
 * are mapped apart.
 *
 * -ENOLINK: one of them has no link to the object's device; nothing was asked of the driver.
 * -EAGAIN, -EINTR: the driver could not, or was interrupted, again and again; another time it may.
 * -ENOENT: no object begins there; -EINVAL: no such device, or a kind that devices cannot map.
 */
int allot_peer_map(struct allot_peer *peer, uint64_t address, uint64_t devices);

/*
 * Unmaps an object from those of `devices` that map it, ALLOT_PEER_ALL: from all. After an error
 * some may still map it, as allot_peer_find() says; the call may be repeated.
 *
 * -ENOENT, -EINVAL, -EAGAIN, -EINTR: as above.
 */
int allot_peer_unmap(struct allot_peer *peer, uint64_t address, uint64_t devices);

/*
 * Frees an object; of one that was imported, this handle's part of it.
 *
 * -EBUSY: devices map it; unmap it first. -ENOENT: no object begins there.
 */
int allot_peer_free(struct allot_peer *peer, uint64_t address);

/*
 * A descriptor of the object in which the `bytes` from `address` on lie (for a HANDLE: of all of
 * it), and how far from its beginning they begin. It closes over exec, goes to other processes over
 * a UNIX socket, and is the caller's to close.
 *
 * -ENOENT: no object there; -ERANGE: they go beyond its end; -EINVAL: of a kind that cannot be
 * shared: only MEMORY, SYSTEM and HANDLE can; -ENOTSUP: a kernel before KFD 1.12.
 */
int allot_peer_export(struct allot_peer *peer, uint64_t address, uint64_t bytes, int *ret_fd,
		      uint64_t *ret_offset);

/*
 * An object of the memory that a descriptor from allot_peer_export() stands for, all of it, to be
 * mapped and freed like one of this process. The descriptor stays the caller's. The memory is
 * charged to nobody but the handle that allocated it.
 *
 * Of `as`, address and alignment are as for allot_peer_alloc(). NVIDIA's driver does not tell of
 * a descriptor what it is: device, bytes and flags are those of the object that was exported. KFD
 * does tell: they are not looked at, and the CPU may look at it if it could before.
 *
 * -EINVAL: not a descriptor of such memory, or of a device that is not among these, or no such
 * flags; -ENOTSUP: a driver that cannot; -EEXIST, -ERANGE, -ENOMEM: of allot_peer_alloc().
 */
int allot_peer_import(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		      uint64_t *ret_address);

/*
 * Copies the content of an object, or into it; no device needs to map it. What devices write or
 * read meanwhile is for the caller to order.
 *
 * NVIDIA's driver copies in the device's primary context. The first call makes that, if the program
 * has none, which takes memory of the device and of the quota; the handle keeps it until it is
 * closed. Meanwhile the device maps the object; should the driver not take that back, the call
 * fails and allot_peer_find() says so.
 *
 * -ENOENT: no object there; -ERANGE: beyond its end; -EACCES: it was made without ALLOT_PEER_HOST,
 * or has no memory or no address; -ENOMEM: no room for that context.
 */
int allot_peer_read(struct allot_peer *peer, uint64_t address, void *to, size_t bytes);
int allot_peer_write(struct allot_peer *peer, uint64_t address, const void *from, size_t bytes);

struct allot_peer_object {
	uint64_t address;
	uint64_t bytes;
	uint64_t charged_bytes; /* what it takes of its device on this handle's account */
	uint64_t devices;	/* that map it */
	uint64_t inode;		/* once it was exported or imported: see below; else 0 */
	uint64_t inode_device;
	enum allot_peer_kind kind;
	uint32_t flags;
	uint32_t device;
	uint32_t imported; /* 1: another handle's, or process's, memory */
};

/*
 * The object that `address` is in. -ENOENT: none.
 *
 * Two objects that have an inode are the same memory if, and only if, it is the same (with st_dev
 * in inode_device): that of the descriptor, wherever it went. Addresses and the driver's handles
 * differ from process to process. NVIDIA's descriptors are all of one device file, which tells
 * nothing: 0.
 */
int allot_peer_find(struct allot_peer *peer, uint64_t address,
		    struct allot_peer_object *ret_object);

/* The first object at `address` or behind it, to look at all of them. -ENOENT: no more. */
int allot_peer_next(struct allot_peer *peer, uint64_t address,
		    struct allot_peer_object *ret_object);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
