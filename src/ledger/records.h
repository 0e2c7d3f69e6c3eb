/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a tenant's two files that are also read outside of src/ledger: data alone. The header
 * of each one's module names its writer and its readers; layout.h has its place in the files.
 */
#ifndef ALLOT_LEDGER_RECORDS_H
#define ALLOT_LEDGER_RECORDS_H

#include <stdint.h>

#include "sched/controller.h"

/* --- A process's use: quota.h, shared.h ------------------------------------------------------ */

enum category {
	CAT_CONTEXT,
	CAT_MODULE,
	CAT_DATA,
	CAT_POOL,
	CAT_ARRAY,
	CAT_GRAPH,
	CAT_IMPORTED,
	CAT_N,
};

/*
 * Of the machine's memory that AMD's GPUs have pinned for the tenant (ledger_host). Its row stands where
 * a device's does, with these in the places of two categories that only CUDA's memory has.
 */
enum host_category {
	HOST_GTT = CAT_DATA,	  /* allocated by the driver */
	HOST_USERPTR = CAT_ARRAY, /* the program's own pages */
};

/* No device has this much; a word above it is damage, and its tenant counts as full. */
#define QUOTA_ABSURD_BYTES (UINT64_C(1) << 60)

enum shared_flags {
	SHARED_COVERED = 1 << 0, /* the caller's own row carries the bytes as long as it holds */
	SHARED_SHED = 1 << 1,	 /* but for some of them, see shared_shed */
};

/* --- The tenant's limits: policy.h ----------------------------------------------------------- */

#define POLICY_DEVICES    64
#define POLICY_NAME_BYTES 64
#define POLICY_DIR_BYTES  256

enum policy_flags {
	/* Admission trusts the driver's figure plus what is in flight; no totals are kept. */
	POLICY_ACCOUNTING_DRIVER = 1 << 0,
	/* device[0] is for every device that the policy does not name; its uuid is ignored. */
	POLICY_ALL_DEVICES = 1 << 1,
	/* Its memory can be swapped out, and in again: see swap.h. */
	POLICY_SWAPPABLE = 1 << 2,
	/*
	 * And is swapped for others of this kind, and in again by itself; POLICY_SWAPPABLE as well.
	 */
	POLICY_OVERCOMMIT = 1 << 3,
	/*
	 * Of what is swapped out, all is copied; or the device compares content itself, and no hash
	 * decides. At most one of them, with POLICY_SWAPPABLE. Neither: by hashes, the default, so that
	 * libraries from before, which refuse these, are met by them only where a person asked.
	 */
	POLICY_LOOK_OFF = 1 << 4,
	POLICY_LOOK_BYTES = 1 << 5,
};
#define POLICY_LOOKS (POLICY_LOOK_OFF | POLICY_LOOK_BYTES)
#define POLICY_FLAGS_KNOWN                                                                         \
	(POLICY_ACCOUNTING_DRIVER | POLICY_ALL_DEVICES | POLICY_SWAPPABLE | POLICY_OVERCOMMIT |    \
	 POLICY_LOOKS)

/* Bits of the gate word; a launch of a tenant that has none of them passes. */
enum policy_gate {
	POLICY_GATE_OPEN = 0,
	POLICY_GATE_METERED = 1 << 1, /* see policy_meters */
	POLICY_GATE_SWAPPABLE = 1 << 2, /* POLICY_SWAPPABLE, so that others look at one word */
};

enum policy_compute {
	POLICY_COMPUTE_OFF,   /* not limited, takes no turns */
	POLICY_COMPUTE_CAP,   /* never more than its share, even alone */
	POLICY_COMPUTE_SHARE, /* at least its part while others want the rest, else all */
	POLICY_COMPUTES,
};

/* How tenants on one device get along. */
enum policy_mode {
	POLICY_MODE_TURNS, /* one after the other */
	POLICY_MODE_SPACE, /* at once, each on its part of the SMs, under MPS */
	POLICY_MODES,
};

enum policy_priority {
	POLICY_PRIORITY_NORMAL,
	POLICY_PRIORITY_LOW,
	POLICY_PRIORITY_HIGH,
	POLICY_PRIORITIES,
};

/*
 * The part of a device's time that a tenant keeps while others of a higher priority want all of it,
 * as kernels leave some to processes that are not real-time. `--floor` says otherwise; half is the
 * most.
 */
#define POLICY_FLOOR_PERMILLE 50
#define POLICY_FLOOR_MOST     500
#define POLICY_FLOOR_NONE     UINT32_MAX

/*
 * The shortest and the longest --latency and --slice. Less than the least turn of one other tenant
 * cannot be had of anybody.
 */
#define POLICY_LATENCY_LEAST_US 2000
#define POLICY_LATENCY_MOST_US	1000000

/* The largest --weight, and the share that a weight of 1 equals when the two meet. */
#define POLICY_WEIGHT_MAX      1000
#define POLICY_WEIGHT_PERMILLE 100

/* Exactly one of limit_bytes and limit_permille is non-zero; "no limit" is 1000 permille. */
struct policy_device {
	uint8_t uuid[16];
	uint64_t limit_bytes;
	uint64_t total_bytes;    /* of the device, 0 if the policy's writer does not know it */
	uint32_t limit_permille; /* of the device's total */
	uint32_t share_permille; /* of the device's time; 0 for none asked */
	/* Most that the two limits were before, kept by policy_update alone: see policy_limit_ever. */
	uint64_t before_bytes;
	uint32_t before_permille;
	uint8_t reserved[12];
};

struct policy {
	uint32_t ndevices; /* at least 1 */
	uint32_t flags;    /* enum policy_flags */
	char name[POLICY_NAME_BYTES];
	uint32_t compute;     /* enum policy_compute; the rest of compute is for it alone */
	uint32_t mode;	      /* enum policy_mode */
	uint32_t controller;  /* enum controller_id, see sched/controller.h */
	uint32_t priority;    /* enum policy_priority */
	uint32_t weight;      /* 1 to POLICY_WEIGHT_MAX; 0: by share_permille */
	uint32_t inflight_us; /* work in flight, by estimated time; 0: the default */
	uint32_t slice_us;    /* of a turn, and see share_params; 0: the default */
	uint32_t floor_permille; /* 0: the default; POLICY_FLOOR_NONE: none */
	uint64_t host_bytes;  /* most of its memory that may be on the host; 0: what is free */
	/* 1: its use of compute is measured, limited or not. No flag: libraries from before refuse those. */
	uint32_t meter;
	uint16_t trace; /* 1: what its processes decide is recorded, see trace.h; likewise no flag */
	/*
	 * Time without use, in s, after which it leaves its devices for nobody; 0: never. A library from
	 * before refuses it.
	 */
	uint16_t idle_s;
	/* Of others' turns that work waits for; 0: the default. Likewise no flag. See sched/rounds.h. */
	uint32_t latency_us;
	/* Most of the machine's memory that AMD's GPUs may have pinned for it; 0: what is free. Likewise. */
	uint32_t gtt_mib;
	struct policy_device device[POLICY_DEVICES];
	/* Last, and not part of the record that older libraries read. */
	char swap_dir[POLICY_DIR_BYTES]; /* what has no room on the host goes there; "": nowhere */
};

/* --- Where its memory is: swap.h ------------------------------------------------------------- */

/* Requests to a tenant's processes. swap_phase_rests() tells which end with their requester. */
enum swap_phase {
	SWAP_RUN,     /* all memory on the device, and work admitted */
	SWAP_PREPARE, /* admit nothing, let work end, say how much can be moved, or why it cannot */
	SWAP_OUT,     /* movable memory in host memory, or a part of it */
	SWAP_BACK,    /* all memory on the device again, and nothing admitted yet */
	SWAP_BARE,    /* as OUT, and the host memory is not registered with the driver */
	SWAP_GIVEN,   /* as BARE, and the content is in an image: the host memory is empty */
	/* As PREPARE, for BARE and the driver's own checkpoint, which moves what we cannot. */
	SWAP_PREPARE_CONTEXTS,
	SWAP_COME, /* as OUT, but memory that has room on the device may be there: BACK follows */
	SWAP_STILL, /* admit nothing, and move nothing: CRIU reads memory in place */
	SWAP_PHASES,
};

/* All of a process's memory on a device, in parts: the unit of how much is to be moved. */
#define SWAP_ALL 255

enum swap_state {
	SWAP_NONE,	/* no thread of the process answers: it has none, or is not NVIDIA's */
	SWAP_RUNNING,
	SWAP_SUSPENDING,
	SWAP_READY,	/* the requested memory can be moved */
	SWAP_SUSPENDED,
	SWAP_RESUMING,
	SWAP_RETURNED,	/* all is back, and nothing admitted yet */
	SWAP_STATES,
};

/* The reason why a process could not do a request. */
enum swap_why {
	SWAP_FINE,
	SWAP_ARRAYS,
	SWAP_MANAGED,
	SWAP_HANDLES,
	SWAP_POOLS,
	SWAP_GRAPHS,
	SWAP_IMPORTS,
	SWAP_FIXED,
	SWAP_CAPTURE,
	SWAP_BUSY,
	SWAP_HOST,
	SWAP_QUOTA,
	SWAP_DEVICE,
	SWAP_DRIVER,
	SWAP_ELSEWHERE, /* its content is in an image, and was not put back */
	SWAP_EXPORTS,
	SWAP_SHARED,  /* memory shared by another process did not come back with it */
	SWAP_SVM,     /* AMD: the program's own memory on a GPU */
	SWAP_DMABUFS, /* memory that dma-bufs hold */
	SWAP_NODES,   /* memory by handles of render nodes */
	SWAP_ADDRESS, /* without an address, or by another process's file */
	SWAP_RINGS,   /* work by render nodes, as of graphics */
	SWAP_VIEWS,   /* mapped for the CPU, where nobody could wait */
	SWAP_FILE,    /* no file for memory without room on the host */
	SWAP_OTHERS,  /* memory by APIs beside CUDA */
	SWAP_WHYS,
};

/* A process's answer, in its slot. */
struct swap_report {
	/* see swap_say; a reader that reads it first gets the rest that belongs to it */
	uint64_t said;
	uint64_t bytes;	  /* that can be moved, were moved out, or came back */
	/*
	 * As enum swap_figure says. With SWAP_FIGURE_FILE: whole pages of 4 KiB, and in the low
	 * 12 bits the errno.
	 */
	uint64_t amount;
	uint64_t took_ns; /* the last way out or back */
	uint64_t list_at; /* struct swap_list, an address of the process; 0: it has none */
};

/*
 * A piece of memory that was moved out, and the address of its content in the process, for a reader
 * and writer from outside. From BARE on, until it comes back. Readers must check it.
 */
struct swap_piece {
	uint64_t at, bytes; /* on the device */
	uint64_t host;	    /* an address of the process */
	uint8_t uuid[16];   /* of the device */
};

#define SWAP_LIST_MAGIC UINT64_C(0x315453494c504153) /* "SAPLIST1" */

struct swap_list {
	uint64_t magic;
	uint64_t n;
	struct swap_piece piece[];
};

/* A process's use of its memory: can it do without, and how long does moving take? */
struct swap_use {
	uint64_t at_ns;	  /* it last touched device memory, by CLOCK_MONOTONIC_COARSE */
	uint32_t inside;  /* threads that wait for the device's work */
	uint32_t waiting; /* threads that wait for memory to come back */
	uint32_t out_us;  /* the last way out; 0: none yet */
	uint32_t back_us;
};

/* A wish for one device: the size of an allocation that found it full, and the refused one. */
struct swap_wish {
	uint64_t more_bytes; /* 0: nothing; else whole granules */
	uint64_t answer;     /* these bytes and enum swap_wish_answer; 0: none yet */
};

enum swap_wish_answer {
	SWAP_WISH_REFUSED = 1,
	SWAP_WISH_GRANTED = 2, /* there is room */
	SWAP_WISH_FAILED = 3,  /* by the requester: there is not */
};

/* --- Turns: turn.h --------------------------------------------------------------------------- */

enum turn_flags {
	TURN_CONTENDED = 1 << 0, /* others want a device of it, or did just now */
	TURN_URGED = 1 << 1,	 /* a higher priority may come: keep little in flight */
	TURN_FIRST = 1 << 2,	 /* all others are urged by it */
	TURN_AWAITED = 1 << 3,	 /* its turn is over, and nobody has one before its work is done */
};

struct turn {
	uint64_t beat_ns;	    /* when the arbiter last looked; 0 never */
	/* launches may start until then; its last turn ended then; 0: it had none */
	uint64_t open_until_ns;
	uint32_t flags;		    /* enum turn_flags */
	uint32_t entitled_permille; /* 1 to 1000 */
	uint32_t seq;		    /* a futex: the turns that began */
	uint32_t urgent_us;	    /* length of a higher priority's bursts; 0 not known */
	uint64_t open_from_ns;	    /* and not before: the last one's work is on the device */
	/* its virtual time, for the next arbiter: see sched/arbiter.h */
	uint64_t virtual_ns;
	/* By the role holder for residency: its part by weight, until then. */
	uint64_t memory_until_ns;
	uint32_t memory_permille;
	uint32_t shared; /* by the arbiter: the first 32 of its devices, a bit for each that others want */
};

/*
 * How long the tenant's work waited for its turns over the last minute, by the role holder. `begun`
 * is written first and `number` last: where they differ the record is half written.
 */
struct turn_waits {
	uint64_t number;
	uint64_t at_ns;	   /* CLOCK_MONOTONIC; 0 never */
	uint32_t n;	   /* waits */
	uint32_t p50_us, p99_us, longest_us;
	/* The longest turn of another during the longest wait, and its tenant; "": not to be told. */
	uint32_t behind_us;
	uint32_t least_us; /* a latency that can be kept; TURN_LATENCY_NONE: none can */
	char behind[POLICY_NAME_BYTES];
	uint64_t reserved[2];
	uint64_t begun;
};

#define TURN_LATENCY_NONE UINT32_MAX

/* As many as <runtime>/.residency has (residency_file.h). */
#define TURN_DEVICES 64

/* --- Compute units of AMD's devices: cu_grant.h --------------------------------------------- */

#define CU_GRANT_WORDS 32

/* The grants that were made together, for all tenants of a GPU, have the same first two words. */
struct cu_grant {
	uint64_t made_ns; /* CLOCK_MONOTONIC, never 0 */
	uint64_t of;	  /* a hash of the tenants, and of each one's wanted part */
	uint32_t permille;
	uint32_t duty_permille;	    /* of the time, see amd/cu_mask.h */
	uint32_t word[CU_GRANT_WORDS]; /* the mask; zero where none can express the share */
};

/* --- Use of a device's time: device_time.h --------------------------------------------------- */

#define DEVICE_TIME_SECONDS 64
#define DEVICE_TIME_PLACES  2
#define DEVICE_TIME_HELD    6

struct device_time {
	uint64_t hot;		  /* the controller's word, see sched/controller.h */
	uint64_t worked_ns;	  /* the latest instant at which the device worked for the tenant */
	uint64_t demand_until_ns; /* a thread waits, or worked a moment ago */
	uint64_t work_until_ns;	  /* until then there is work, as far as was measured, or longer */
	uint64_t tick_ns;	  /* the process that moves it on steers the controller */
	uint64_t held_n;	  /* which of `held` is the last */
	uint64_t due_ns;	  /* when work in flight is expected to be done */
	uint64_t burst_ns;	  /* how long it works between two waits of its own; 0: not known */

	uint64_t busy_ns;	  /* the device worked for this tenant; never falls */
	uint64_t launches;	  /* of kernels */
	uint64_t graph_launches;
	uint64_t throttled_ns;	  /* added over threads that were held */
	uint64_t throttles;	  /* times that a launch was held */
	uint64_t longest_ns;	  /* longest unit of work seen: bounds how exact a share can be */
	/* of busy_ns: work without a measured end, see device_time_bill */
	uint64_t unmeasured_ns;
	uint64_t host_copy_bytes; /* copied to and from the host, which is not charged */

	uint64_t cold[CONTROLLER_COLD]; /* the controller's, written by the steering process */
	uint64_t cold_owner;		/* 1 + the id of the controller that they are of */
	uint64_t unforeseen_until_ns;	/* work took far longer than expected: due_ns says little */

	/* busy_ns as each second began, see device_time_achieved; an entry a second, 64 of them. */
	uint64_t second[DEVICE_TIME_SECONDS];

	/* Of AMD's devices: ledger/cu_grant.h tells how to read it. */
	struct cu_grant cu_grant;
	uint64_t cu_grant_sum;
	/* As hot and covered_ns, of queues that a mask alone does not hold to the share. */
	uint64_t masked_hot, masked_covered_ns;
	uint64_t place_until_ns[DEVICE_TIME_PLACES]; /* see device_time_take_place */
	/* When launches were held, to when that ended or is expected to: see device_time_held. */
	struct device_time_span {
		uint64_t from_ns, to_ns;
	} held[DEVICE_TIME_HELD];
	/* The tenant waits for all that was due by then, and launches nothing before. */
	uint64_t rests_until_ns;
	uint64_t late_since_ns, late_until_ns; /* see device_time_say_late */
	uint64_t gave_way_ns; /* when a held launch was last let go */
};

#endif
