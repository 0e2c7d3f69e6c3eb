/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may know of the tenant that it runs in: its quota, what is used of it, its share of
 * each GPU's time and the time that it had, and if its memory is on the GPU. It can wait for a
 * change, and be told before it is suspended.
 *
 *	struct allot_tenant *tenant;
 *	struct allot_tenant_device gpu = {.size = sizeof(gpu)};
 *	uint32_t changes;
 *	int r;
 *
 *	if (allot_tenant_open(&tenant) < 0)
 *		return;
 *	while (!(r = allot_tenant_wait(tenant, -1, &changes)) || r == -EINTR)
 *		if (!allot_tenant_get(tenant, NULL) && !allot_tenant_get_device(tenant, 0, &gpu))
 *			printf("%llu of %llu bytes\n", (unsigned long long)gpu.used_bytes,
 *			       (unsigned long long)gpu.limit_bytes);
 *
 * Link with `pkg-config --cflags --libs allot-tenant`. The library needs the C library alone, reads
 * the tenant's files and writes none of them, calls no driver, prints nothing and has no thread.
 * Without a tenant all functions work: nothing is limited, there are no devices, and nothing changes.
 *
 * Functions answer 0 or -errno, and write what they return only on success. A handle is for one
 * thread at a time; threads have a handle each. A forked child may use its parent's handle.
 *
 * Figures are of the whole tenant, all of its processes, where nothing else is said. They are what
 * its processes say of themselves, read one after the other while they go on.
 */
#ifndef ALLOT_TENANT_H
#define ALLOT_TENANT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct allot_tenant;

enum allot_tenant_flag {
	ALLOT_TENANT_LIMITED = 1u << 0,	   /* the process is in a tenant; else all else is zero */
	ALLOT_TENANT_SWAPPABLE = 1u << 1,  /* its memory can be suspended */
	ALLOT_TENANT_OVERCOMMIT = 1u << 2, /* others' need of memory suspends it, and it comes back */
};

/* Where the tenant's device memory is, by the last request. */
enum allot_tenant_place {
	ALLOT_TENANT_RUNNING = 0,    /* on its devices */
	ALLOT_TENANT_SUSPENDING = 1, /* calls for the GPU wait; nothing has moved yet */
	ALLOT_TENANT_SUSPENDED = 2,  /* in host memory, all of it or a part; calls wait */
	ALLOT_TENANT_RESUMING = 3,   /* on the way back; calls wait */
};

/*
 * The structures begin with their size, which the caller sets to sizeof(). The library fills what
 * both know, sets what it does not know to zero, and sets `size` to the bytes that it filled. New
 * figures come last.
 */
struct allot_tenant_state {
	uint32_t size;
	uint32_t flags;	    /* enum allot_tenant_flag */
	uint32_t place;	    /* enum allot_tenant_place */
	uint32_t devices;   /* that it may use, or used: see allot_tenant_get_device() */
	uint32_t processes; /* living ones that use a GPU */
	uint32_t turns;	    /* turns of its own that began; goes round at 2^32 */
	uint64_t notice_ns; /* time that is left until it is suspended; 0: nobody announced that */
	/* How long its work waited for turns over the last minute, in us; 0: none did, or not known. */
	uint32_t wait_p50_us, wait_p99_us, wait_longest_us;
	uint32_t reserved;
	char name[64]; /* a zero behind it; "": none */
	/*
	 * The quota on any device, known before the first use of a GPU: bytes, a part of the device's
	 * memory, or both, and then the smaller one binds. 0: none, or devices differ.
	 */
	uint64_t limit_bytes;
	uint32_t limit_permille;
	uint32_t reserved2;
};

#define ALLOT_TENANT_NO_SHARE 1000u

struct allot_tenant_device {
	uint32_t size;
	uint32_t measured;	/* 1: the figures of its time below are known */
	uint8_t uuid[16];	/* as CUDA's driver names it; of AMD's devices allot's own bytes */
	uint64_t total_bytes;	/* the device's; 0: not known yet */
	/*
	 * The quota, at most that; 0: not known yet. Variables of other systems that limit single
	 * devices (CUDA_DEVICE_MEMORY_LIMIT_0) are not in it.
	 */
	uint64_t limit_bytes;
	uint64_t used_bytes;	/* of the quota; may be more, when that was lowered */
	uint64_t peak_bytes;	/* the most that was used at once */
	uint64_t out_bytes;	/* that were moved to host memory: not part of used_bytes */
	uint64_t process_bytes; /* of used_bytes, what this process holds alone */
	uint64_t refusals;	/* allocations that the quota refused */
	uint32_t share_permille; /* of the device's time, asked for; 1000: no share was */
	uint32_t cap_permille;	 /* the most that it gets, also alone; 1000: all */
	uint32_t entitled_permille; /* what it can count on now, beside others; 1000: all */
	uint32_t had_1s_bp;	 /* time that it had in the last second, in 1/10000 */
	uint32_t had_60s_bp;	 /* and in the last minute */
	uint32_t reserved;
	uint64_t busy_ns;	/* time that it had; never falls */
	uint64_t held_ns;	/* for which launches were held, added over threads; never falls */
	uint64_t launches;	/* of kernels; never falls */
	char name[48];		/* "GPU-...", as `allot ps` and the vendors' tools show it */
};

/*
 * Opens the tenant of this process, or none, where there is none. Programs that other systems'
 * variables limit (liballot(7)) have a tenant from their first use of a GPU on, which the
 * handle finds by itself. *ret_tenant goes to allot_tenant_close().
 *
 * -ENOMEM. Whatever else is wrong with the tenant, allot_tenant_get() says.
 */
int allot_tenant_open(struct allot_tenant **ret_tenant);

/* Takes NULL. */
void allot_tenant_close(struct allot_tenant *tenant);

/*
 * Looks at the tenant, devices included, and fills *state, where that is not NULL. Takes some 100 us;
 * no lock is waited for.
 *
 * -EINVAL: `size` is less than that of the first version, or limits that no program could run with;
 * -ENOENT: the tenant is gone, or the environment that named it; -EPERM, -EACCES, -ELOOP: its files
 * are not to be trusted, or not to be read; -EPROTO, -EBADMSG: they are damaged, or of another
 * version than this library; -EMFILE, -ENOMEM. Where the tenant cannot be read, liballot.so
 * refuses the use of GPUs.
 */
int allot_tenant_get(struct allot_tenant *tenant, struct allot_tenant_state *state);

/*
 * The device with that number, 0 to allot_tenant_state.devices - 1, as the last allot_tenant_get() of
 * this handle found it. The numbers are not CUDA's, and may change with the next look.
 *
 * -EINVAL: `size`; -ENODEV: there is no such device.
 */
int allot_tenant_get_device(struct allot_tenant *tenant, uint32_t number,
			    struct allot_tenant_device *ret_device);

/* The same by the driver's UUID (cuDeviceGetUuid), 16 bytes. */
int allot_tenant_find_device(struct allot_tenant *tenant, const uint8_t uuid[16],
			     struct allot_tenant_device *ret_device);

enum allot_tenant_change {
	ALLOT_TENANT_LIMITS = 1u << 0, /* the quota, the share, or another limit was set */
	ALLOT_TENANT_MOVED = 1u << 1,  /* `place` is another one */
	ALLOT_TENANT_NOTICE = 1u << 2, /* it is about to be suspended, or not any more: `notice_ns` */
	ALLOT_TENANT_CAME = 1u << 3,   /* there is a tenant, or another one than before */
};

/*
 * Waits until something has changed since the last call of this handle, or since it was opened, for
 * at most `timeout_ms`; 0: does not wait; less: without limit. *ret_changes: enum
 * allot_tenant_change. What changes and changes back in between may be missed.
 *
 * A thread may be cancelled (pthread_cancel) while it sleeps here, and in no other function.
 *
 * -ETIMEDOUT; -EINTR: a signal handler ran; errors of allot_tenant_get().
 */
int allot_tenant_wait(struct allot_tenant *tenant, int timeout_ms, uint32_t *ret_changes);

/*
 * Says that this process wants to be told before the tenant is suspended: from here on `allot
 * suspend --notice TIME` announces it, and waits until every process that said so has called
 * allot_tenant_ready(), has ended, or TIME is over. Ends with the handle. Needs a tenant: before
 * there is one (ALLOT_TENANT_CAME) it is noted, as it is where another process's lock or a lack of
 * descriptors is in the way; allot_tenant_wait() tries again. A notice that was given before is told
 * by the next allot_tenant_wait().
 *
 * Memory that is still needed, without its content, need not be freed: on NVIDIA's devices, granules
 * of 2 MiB that are filled with one repeated word are not copied, unless `--look off` was said.
 *
 * Errors of allot_tenant_get(), and -ENOLCK: the file system of the tenant's files has no locks.
 */
int allot_tenant_listen(struct allot_tenant *tenant);

/*
 * Says that this process has done what it wanted to do before the suspend that the last
 * allot_tenant_wait() told. Work that it launches on a GPU may be held from then on. The next
 * allot_tenant_wait() listens again for the next announcement, and tells one that came meanwhile.
 */
void allot_tenant_ready(struct allot_tenant *tenant);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
