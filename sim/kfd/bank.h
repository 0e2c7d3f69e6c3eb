/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bank: the memory of the machine's GPUs, which all of its processes share. It says what is
 * taken of each GPU, and has the content.
 *
 * A piece is a file in the tree. It is alive while any open description of that file has a lock on
 * it. A process holds a piece by mapping its file; a process that was sent a descriptor holds it by
 * that, and so does a descriptor that is still in a socket. So the kernel counts the holders, and
 * nothing has to be repaired when a holder is killed. A handle of a render node's file holds one, too
 * (handles.h).
 *
 * - A question to the kernel about each piece would be slow. So a row names the process that
 *   took the piece, as long as that process holds it; a living process is known by a lock of its
 *   own.
 * - Nothing is kept twice: what a GPU has given is the sum over its pieces.
 * - A piece is there from the store of its key on, and gone with the store of 0.
 *
 * A bank is not inherited by fork. Functions take the bank's own lock. They answer 0 or -errno.
 */
#ifndef ALLOT_SIM_KFD_BANK_H
#define ALLOT_SIM_KFD_BANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bank;

/* Beside the flags of ALLOC_MEMORY_OF_GPU: a render node gave it, and not KFD. */
#define BANK_BY_NODE (1u << 16)
#define BANK_NO_CPU  (1u << 17) /* and the CPU has no access to it */
#define BANK_OR_GTT  (1u << 19) /* and may be in the machine's memory from the beginning */
#define BANK_SVM     (1u << 18) /* SVM has moved it there, which KFD does not count */

/* A piece of memory. `content` is where this process has it mapped. */
struct bank_piece {
	uint64_t key; /* 0: none; never that of another piece, before or after */
	uint64_t size;
	uint32_t gpu;	/* by its place in the machine */
	uint32_t flags; /* as in ALLOC_MEMORY_OF_GPU; of VRAM or GTT */
	uint32_t index;			  /* its place in the table, while it is there */
	uint64_t alignment, domain_flags; /* as GEM_CREATE was asked; 0 for memory of KFD */
	char *content;
};

/* The bank of the tree at `root`, made if there is none. Kept until the process ends. */
int bank_open(const char *root, struct bank **ret);

/*
 * The same bank, joined under the number of another process: one that has no emulator and asks
 * through this process (remote.c). Its pieces must be dropped before bank_close.
 */
int bank_open_for(const char *root, pid_t pid, struct bank **ret);
void bank_close(struct bank *bank);

/*
 * Takes a piece: the caller fills in size, GPU and flags, the rest is filled in here. `vram_bytes`
 * is what the GPU has in all, `reserved_bytes` what of it KFD may not have. As in the kernel, one that
 * is not a render node's has buffers of render nodes leave the GPU; a render node's goes to the machine's
 * memory where the GPU has no room. -ENOMEM: none can be made, or KFD has given what it may.
 */
int bank_take(struct bank *bank, uint64_t vram_bytes, uint64_t reserved_bytes,
	      struct bank_piece *piece);

/* The piece that `fd` is a descriptor of. -EBADF; -EINVAL: it is not of this machine's memory. */
int bank_find(struct bank *bank, int fd, struct bank_piece *ret);

/* The piece of that key, or at that place of the table: 0 or -EINVAL. This process does not hold it. */
int bank_find_key(struct bank *bank, uint64_t key, struct bank_piece *ret);
int bank_find_index(struct bank *bank, uint32_t index, struct bank_piece *ret);

/* True if it is in the GPU's memory now. */
bool bank_is_in_vram(struct bank *bank, const struct bank_piece *piece);

/* The table of handles of render nodes, which hold pieces, too. */
struct handles *bank_handles(struct bank *bank);

/* A piece that a handle holds is no more this process's: what it has mapped goes. */
void bank_leave(struct bank *bank, struct bank_piece *piece);

/* The content, mapped without holding the piece; NULL: no memory. */
char *bank_map(const struct bank *bank, const struct bank_piece *piece);

/* Frees the piece if nobody holds it any more. */
void bank_look_at(struct bank *bank, const struct bank_piece *piece);

/* As bank_find, and this process holds the piece from now on. */
int bank_hold(struct bank *bank, int fd, struct bank_piece *ret);

/* This process holds the piece no more. Frees it if nobody else does. */
void bank_drop(struct bank *bank, struct bank_piece *piece);

/*
 * A piece is to be in the GPU's memory, and goes there if that has room, or in the machine's: what it is
 * counted as. -ENOENT: there is none.
 */
int bank_move(struct bank *bank, uint64_t vram_bytes, struct bank_piece *piece, bool to_vram);

/*
 * A descriptor that holds the piece, too, opened with these flags; or -errno. The content's file has
 * a name more for each thing that a descriptor may be, by which mappings are told apart.
 */
#define BANK_DIR    "/memory" /* in the tree; then the key in base 16, and one of these */
#define BANK_NODE   "-node"
#define BANK_DMABUF "-dmabuf"
int bank_fd(const struct bank *bank, const struct bank_piece *piece, const char *as, int flags);

/* A number that no other caller on this machine is given. */
uint64_t bank_unique(struct bank *bank);

/* Bytes in pieces of a GPU that are in that memory (VRAM or GTT) and have a living holder. */
uint64_t bank_used(struct bank *bank, uint32_t gpu, uint32_t flag);

/* The sum that KFD itself has given of a GPU's memory, each piece rounded up to so much. */
uint64_t bank_given_by_kfd(struct bank *bank, uint32_t gpu, uint64_t align_bytes);

/*
 * The lock under which a process adds up what is held and writes the sum into a file of sysfs.
 * Without it a slow process would write an older sum over a newer one. It does not nest.
 */
void bank_lock_files(struct bank *bank);
void bank_unlock_files(struct bank *bank);

/*
 * The kernel's figure for a process: bytes of a GPU's VRAM that KFD gave it and that it still holds.
 * Memory that it imported does not count, nor what render nodes gave it. -ENOENT: the process is not there (any more).
 */
int bank_used_by(struct bank *bank, pid_t pid, uint32_t gpu, uint64_t *ret_bytes);

/* The most VRAM that living processes held of a GPU at one time, since the last reset. */
uint64_t bank_peak(struct bank *bank, uint32_t gpu);
void bank_reset_peak(struct bank *bank, uint32_t gpu);

#endif
