/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the machine's GPUs, which all of its processes share: what is taken of each, and
 * the content. A piece is a file in the tree, and is alive while anybody anywhere has a description
 * of it open with a lock on it: a process that holds it does so by mapping it, one that is sent a
 * descriptor by having that, even while it is on its way. So the kernel counts the holders, and
 * there is nothing to repair when one is killed.
 *
 * - To ask the kernel for each piece costs. So a piece names the process that took it, as long as
 *   that one holds it; a process is alive by a lock, too.
 * - Nothing is kept twice: what a GPU has given is the sum over its pieces.
 * - A piece is there from the store of its key on, and gone with the store of 0.
 *
 * A bank is not inherited by fork. Functions take the bank's own lock; 0 or -errno.
 */
#ifndef ALLOT_SIM_KFD_BANK_H
#define ALLOT_SIM_KFD_BANK_H

#include <stdint.h>
#include <sys/types.h>

struct bank;

/* A piece of memory, and where the process that holds it has its content. */
struct bank_piece {
	uint64_t key; /* 0: none; never that of another piece, before or after */
	uint64_t size;
	uint32_t gpu;	/* by its place in the machine */
	uint32_t flags; /* as in ALLOC_MEMORY_OF_GPU; of VRAM or GTT */
	char *content;
};

/* The bank of the tree at `root`, made if there is none. Kept until the process ends. */
int bank_open(const char *root, struct bank **ret);

/*
 * The same bank for what another process has that asks through this one, under its number; and the
 * end of that: its pieces are dropped before.
 */
int bank_open_for(const char *root, pid_t pid, struct bank **ret);
void bank_close(struct bank *bank);

/*
 * Takes a piece of that size, GPU and flags; the rest is answered. `vram_bytes` is what the GPU
 * has. -ENOMEM where it has no more, the dead not counted, or the machine.
 */
int bank_take(struct bank *bank, uint64_t vram_bytes, struct bank_piece *piece);

/* What memory `fd` is a descriptor of; -EBADF, or -EINVAL: of none of this machine. */
int bank_find(struct bank *bank, int fd, struct bank_piece *ret);

/* The same, and holds it. */
int bank_hold(struct bank *bank, int fd, struct bank_piece *ret);

/* Lets go. The last one to do so frees it. */
void bank_drop(struct bank *bank, struct bank_piece *piece);

/* A descriptor that holds the piece, too, opened with these flags; or -errno. */
int bank_fd(const struct bank *bank, const struct bank_piece *piece, int flags);

/* A number that nobody else of this machine is given. */
uint64_t bank_unique(struct bank *bank);

/* Bytes of a GPU that somebody holds: those with the flag. */
uint64_t bank_used(struct bank *bank, uint32_t gpu, uint32_t flag);

/*
 * One process of the machine has this lock, to count something and write the sum into a file.
 * Without it a slow process would write an older sum over a newer one. Not to be taken twice.
 */
void bank_lock_files(struct bank *bank);
void bank_unlock_files(struct bank *bank);

/*
 * What a process took of a GPU's VRAM and holds: the kernel's figure for it, in which imported
 * memory does not count. -ENOENT: there is no such process, or not any more.
 */
int bank_used_by(struct bank *bank, pid_t pid, uint32_t gpu, uint64_t *ret_bytes);

/* The most of its VRAM that a GPU had given at once, the dead not counted, since it was reset. */
uint64_t bank_peak(struct bank *bank, uint32_t gpu);
void bank_reset_peak(struct bank *bank, uint32_t gpu);

#endif
