/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated KFD: what its files share. A library that is preloaded into programs answers their
 * calls for /dev/kfd, the render nodes and the driver's sysfs from a written tree:
 *
 *   root.c     where the tree is, and which kernel it has (kernels.def)
 *   files.c    which of its device files a descriptor is of
 *   paths.c    paths of the driver lead into the tree
 *   fdinfo.c   what /proc tells of open render nodes
 *   sysfs.c    files of the tree whose content changes
 *   device.c   the tree's device files: what fstat, ioctl and mmap answer for them
 *   open.c     a process opens a device
 *   process.c  what the driver knows of this process, and the machine's GPUs
 *   remote.c   what other processes, which have no emulator, ask of it by way of this one
 *   kfd.c      ioctls of /dev/kfd: the block in and out, the row
 *   trace.c    a line for each of them, and for those of render nodes that are about memory
 *   bank.c     memory of the GPUs, which all processes share
 *   handles.c  handles of render nodes, which hold that memory, too
 *   memory.c   memory objects of this process, and on which GPUs they are mapped
 *   user.c     memory of the program, at addresses that it gave
 *   vm.c       page tables of the GPUs, and their access to memory
 *   svm.c      memory of the program's own that GPUs share
 *   dmabuf.c   memory objects as descriptors, from process to process
 *   queue.c    queues, as the kernel has them
 *   engine.c   the thread that executes them
 *   sdma.c     packets of copy queues
 *   aql.c      packets of compute queues, as far as they need no shader
 *   roster.c   what queues there are in all processes, and how long each was active
 *   event.c    events, and waiting for them
 *   drm.c      ioctls of render nodes, as far as libdrm asks
 *   contexts.c contexts of work, and copies.c the work, as far as it is copies
 *   gem.c      memory by the handles of render nodes (buffers.c); what there is of it
 *              (gem_info.c), and where it is mapped (gem_va.c)
 *   criu.c     a process is looked at by another one, as CRIU does, and
 *   restore.c  comes back in another one
 *   fail.c     ioctls that are to fail, and those that the kernel has not
 *   hold.c     an ioctl that is to come back late
 *
 * A device file is a plain file in the tree, and a descriptor is told by the inode that it is of:
 * there is no table of descriptors that dup, fork, exec or a socket could get past.
 *
 * Functions answer 0 (or what is asked for) or -errno, as in the kernel.
 */
#ifndef ALLOT_SIM_KFD_EMU_H
#define ALLOT_SIM_KFD_EMU_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "sim/kfd/kernel.h"
#include "sim/kfd/tree.h"
#include "sim/kfd/vm.h"

#define EMU_EXPORT __attribute__((visibility("default")))

/* As the kernel numbers them: DRM's is fixed, KFD's is not. */
#define EMU_MAJOR_DRM 226
#define EMU_MAJOR_KFD 235

/* Offsets for mmap of a device, as the kernel lays them out: the kind, and the GPU by its id. */
#define EMU_OFFSET_MMIO	    UINT64_C(0)
#define EMU_OFFSET_EVENTS   (UINT64_C(2) << 62)
#define EMU_OFFSET_DOORBELL (UINT64_C(3) << 62)
#define EMU_GPUVM_BASE	    UINT64_C(0x4000)
#define EMU_OFFSET_GPU(id)  ((uint64_t)((id)&0xffff) << 46)

struct emu_gpu {
	uint32_t gpu_id; /* as this process calls it, */
	uint32_t actual_id; /* and the topology: not the same after a restore on another GPU */
	uint32_t node, minor;
	struct emu_object *objects; /* by the lower half of the handle */
	uint32_t nobjects;
	uint64_t vram_bytes;
	uint64_t visible_bytes; /* what the CPU reaches of it */
	uint64_t reserved_bytes; /* what KFD keeps of it for page tables */
	bool acquired; /* ACQUIRE_VM was called, */
	uint64_t file; /* with this open file (gem.h) */
	struct vm vm;
	const struct tree_model *model;
	uint32_t device_id;
};

/*
 * The machine as one process sees it. Devices do not change once they are read; objects are the
 * process's own.
 */
struct emu_machine {
	struct bank *bank;
	struct emu_gpu gpu[TREE_GPUS];
	uint32_t ngpus;
	uint64_t own_file; /* of /dev/kfd, of this process: one of them */
	uint64_t asked_by; /* through which open file the ioctl comes that is being done */
	bool busy;	   /* somebody has the lock, */
	bool paused;	   /* PROCESS_INFO was called, and UNPAUSE not yet */
	uint32_t evicted;  /* for how many reasons nobody executes queues */
	bool xnack_off; /* as it was set */
	uint64_t signal_handle; /* of the memory where events are signalled; 0: none of the program's */
	const struct topology *topology;
};

/* root.c: the tree, "" where this process has none; its kernel, and whether that answers so. */
const char *emu_root(void);
uint32_t emu_kernel(void);
bool emu_answers(enum kernel_change change);

/* paths.c: the path to use, which may be `path`. */
const char *emu_path(const char *path, char buffer[static PATH_MAX]);

/* maps.c: the program has opened a file: the list of its mappings is exchanged. */
void emu_maps_opened(int fd, const char *path, int flags);

/* fdinfo.c: the same; one of a render node's in /proc is exchanged. */
void emu_fdinfo_opened(int fd, const char *path, int flags);

/* sysfs.c: a file of the tree is about to be looked at; does it say which processes there are? */
void emu_sysfs_refresh(const char *path);
bool emu_sysfs_is_of_processes(const char *path);

/* A process has opened a device; this one has made a queue, ended one. */
void emu_sysfs_enter(const struct emu_machine *machine, pid_t pid);
void emu_sysfs_add_queue(uint32_t id, uint32_t gpu_id, uint64_t ring_bytes, uint32_t type);
void emu_sysfs_remove_queue(uint32_t id);

/* process.c: what there is, into a machine that is all zero; 0, -errno with a message. */
int emu_read_machine(struct emu_machine *ret);

/*
 * process.c: what this process has of the machine, for open.c alone: whether it opened a device
 * before, or what is there is its parent's. And from here on it has.
 */
struct emu_machine *emu_process(bool *ret_is_here, bool *ret_is_inherited);
void emu_process_enter(void);

/* open.c: a process opens a device: what it inherited over fork is gone; 0, -errno. */
int emu_open(int fd);

/*
 * Locks, and gives the process's machine. NULL: this process did not open the device, or this
 * thread has the lock, as where the emulator itself calls what it stands in for.
 */
struct emu_machine *emu_lock(void);
void emu_unlock(void);

/*
 * open.c: the same for a descriptor of a render node, which any process may use that was given it: it
 * need not have opened a device.
 */
struct emu_machine *emu_lock_with(int fd);
struct emu_machine *emu_lock_any(void); /* for what any process may ask */

/* Waits for `cond` under the lock, at most until `deadline` of the monotonic clock. */
void emu_wait(pthread_cond_t *cond, const struct timespec *deadline);

/* By id, or by one of its DRM nodes. NULL: there is none. */
struct emu_gpu *emu_gpu(struct emu_machine *machine, uint32_t gpu_id);
struct emu_gpu *emu_gpu_of_minor(struct emu_machine *machine, int minor);

/* The GPU is reached through this descriptor's open file from now on. */
int emu_acquire(struct emu_gpu *gpu, int drm_fd);

/* files.c: the minor of the DRM node that `fd` is of, or one of these. */
#define EMU_FILE_NONE (-2)
#define EMU_FILE_KFD  (-1)
int emu_minor_of(int fd);
struct stat;
int emu_minor_of_stat(const struct stat *st);
int emu_minor_of_inode(uint64_t ino); /* as /proc tells it, which tells no device */

/*
 * remote.c: an ioctl of a seccomp filter's listener; and the time to free what processes had that
 * are gone.
 */
int emu_remote_ioctl(int fd, unsigned long request, void *arg);
void emu_remote_reap(void);

/* kfd.c, drm.c */
long emu_kfd_ioctl(int fd, unsigned long request, uint64_t arg);
long emu_drm_ioctl(int minor, int fd, unsigned long request, uint64_t arg);

/* trace.c: with NULL for a row that there is not, and for a block that cannot be read. */
void emu_trace_drm(const struct emu_gpu *gpu, unsigned int nr, const void *asked, const void *block,
		   int r);
struct kfd_ioctl;
struct emu_queue;
struct roster_times;
void emu_trace(const struct kfd_ioctl *row, unsigned long request, const void *block, int r);
void emu_trace_stop(const struct emu_queue *queue, bool fault, uint64_t address);
void emu_trace_end(const struct emu_queue *queue, const struct roster_times *times);

/*
 * fail.c: 0, or the -errno with which an ioctl is to fail now that so much of it is done; and
 * whether the kernel that is emulated does not have it. Of /dev/kfd by its number, of a render node
 * by EMU_DRM() of that.
 */
#define EMU_DRM(nr) (0x100u | (nr))
int emu_fail(unsigned int which, uint64_t done);
bool emu_lacks(unsigned int which);
const char *emu_drm_name(unsigned int nr);
int emu_find_ioctl(const char *name); /* -1: there is none */

/*
 * hold.c, under the lock, which it lets go of while it waits: a call of /dev/kfd is done, after so
 * many before, and may be one to keep; the program asks for that one.
 */
void emu_hold(unsigned int nr, uint64_t before);
int emu_meet_held(void);

/* memory.c: handlers of ioctls; all under the lock, with a block that reads zero at its end. */
int emu_alloc(struct emu_machine *machine, void *block);
int emu_free(struct emu_machine *machine, void *block);
int emu_map(struct emu_machine *machine, void *block);
int emu_unmap(struct emu_machine *machine, void *block);
int emu_available(struct emu_machine *machine, void *block);
void emu_memory_forget(struct emu_machine *machine); /* all of it, in a forked child */

/* dmabuf.c: the same. */
int emu_export_dmabuf(struct emu_machine *machine, void *block);
int emu_get_dmabuf_info(struct emu_machine *machine, void *block);
int emu_import_dmabuf(struct emu_machine *machine, void *block);

/*
 * A descriptor of the memory at this offset of a render node, the caller's to close; -EINVAL, or
 * -EACCES where `fd` is not of the open file that ACQUIRE_VM was called with.
 */
int emu_memory_at(struct emu_machine *machine, int fd, uint64_t mmap_offset, size_t len);

/*
 * criu.c: a process has opened /dev/kfd; which one did, 0: none. And what CRIU asks, of which
 * RESTORE is in restore.c.
 */
void emu_criu_opened(struct emu_machine *machine, int fd);
pid_t emu_criu_owner(uint64_t file);
int emu_criu(struct emu_machine *machine, void *block);
struct kfd_ioctl_criu_args;
int emu_criu_restore(struct emu_machine *machine, const struct kfd_ioctl_criu_args *args);

/* svm.c: the same, with so many attributes at the block's end as were asked for, or may be. */
#define EMU_SVM_ATTRIBUTES 256
int emu_svm(struct emu_machine *machine, void *block);
const uint32_t *emu_svm_count(void); /* of ranges */
void emu_svm_forget(void);

/* True if any of these addresses has attributes. */
bool emu_svm_has(uint64_t at, uint64_t size);

/* The program gives memory of its own back, or maps something in its place. Not under the lock. */
void emu_svm_unmapped(uint64_t at, uint64_t size);

/* queue.c, and engine.c for the first: the same. */
int emu_create_queue(struct emu_machine *machine, void *block);
int emu_destroy_queue(struct emu_machine *machine, void *block);
int emu_update_queue(struct emu_machine *machine, void *block);
int emu_set_cu_mask(struct emu_machine *machine, void *block);
int emu_get_wave_state(struct emu_machine *machine, void *block);
bool emu_has_queues(void);
void emu_queues_forget(void);

/* Of each GPU for one process: the size of memory that is them. */
#define EMU_DOORBELLS_BYTES 8192

/* The doorbells at this offset of the device, mapped as mmap does; MAP_FAILED and errno. */
void *emu_map_doorbells(struct emu_machine *machine, uint64_t offset, void *at, size_t len,
			bool fixed);

/* event.c: the same. emu_wait_events() lets go of the lock while it waits. */
int emu_create_event(struct emu_machine *machine, void *block);
int emu_destroy_event(struct emu_machine *machine, void *block);
int emu_set_event(struct emu_machine *machine, void *block);
int emu_reset_event(struct emu_machine *machine, void *block);
int emu_wait_events(struct emu_machine *machine, void *block);
void emu_events_forget(void);

/*
 * The events, as bytes that a process may copy from another; how many those are, and which there
 * are among them, with room for KFD_SIGNAL_EVENT_LIMIT. And one that comes back: -ENOSPC if its id
 * is taken.
 */
struct kfd_criu_event_priv;
const void *emu_events(size_t *ret_bytes);
uint32_t emu_events_save(const void *events, struct kfd_criu_event_priv *ret);
int emu_event_restore(const struct kfd_criu_event_priv *event);

/*
 * Signals by which queues report: one event by its id, or all events for faults or for exceptions.
 */
void emu_raise_event(uint32_t id);
void emu_raise_fault(uint32_t gpu_id, uint64_t address);
void emu_raise_exception(uint32_t gpu_id);

#endif
