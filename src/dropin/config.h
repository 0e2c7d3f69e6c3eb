/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as other systems give them, for programs that come from there: of variables (variables.h)
 * and of /etc/xpu/vgpu.config (vgpu_file.h), put together. Pure. A malformed limit is an error,
 * never "no limit"; of several limits the smallest binds.
 */
#ifndef ALLOT_DROPIN_CONFIG_H
#define ALLOT_DROPIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/parse.h"
#include "ledger/policy.h"

/* Where a CUDA ordinal is asked for: any device, by what is said of all. */
#define CONFIG_EVERY POLICY_DEVICES

/* The environment's switch for a configured share. */
enum config_switch { CONFIG_UNSAID, CONFIG_DISABLED, CONFIG_IN_FORCE };

struct config {
	bool present; /* somebody asked for what a tenant is needed for */
	/* By the environment. A bound may have bytes and a part of the device: then both bind. */
	struct size_spec all;			 /* of devices without one of their own; 0: none */
	struct size_spec device[POLICY_DEVICES]; /* by CUDA ordinal */
	uint32_t share_permille;		 /* of compute, likewise; 1000: not limited */
	uint32_t device_share_permille[POLICY_DEVICES];
	enum config_switch shares;
	enum policy_priority priority;
	bool overcommit;
	/* By the file, for every device: */
	uint64_t file_bytes; /* 0: not limited */
	uint32_t file_share_permille;
	char tenant[POLICY_NAME_BYTES]; /* processes that share it share the limits */
	char complaint[320];		/* after an error: what is wrong, and a right one */
	char remark[320];		/* what may be meant as a limit and is none; "": nothing */
};

/* Sets the complaint. -EINVAL. */
int config_complain(struct config *config, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Names the tenant of somebody who said no name, where one is needed. */
void config_finish(struct config *config);

/*
 * The limit of the device with CUDA ordinal `ordinal`, or CONFIG_EVERY: bytes or permille, 1000
 * permille where none was given. A size and a part are compared by the device's total; 0 if that is
 * not known, and then the size binds.
 */
struct size_spec config_limit(const struct config *config, unsigned int ordinal,
			      uint64_t total_bytes);

/* The same in bytes, no more than the device has. 0 where the total is needed and not known. */
uint64_t config_limit_bytes(const struct config *config, unsigned int ordinal,
			    uint64_t total_bytes);

/*
 * The limit that applies to each device, however many there are: as config_limit for a device
 * without its own.
 */
struct size_spec config_everywhere(const struct config *config);
/* The same of compute: 1 to 999 permille, 0 where it is not limited. */
uint32_t config_share_everywhere(const struct config *config);

/* True if the file limits anything. */
static inline bool config_is_by_file(const struct config *config)
{
	return config->file_bytes || config->file_share_permille;
}

/* The share of compute there, 1 to 999; 0 where it is not limited. */
uint32_t config_share_permille(const struct config *config, unsigned int ordinal);

/* The smaller of two shares in permille; nothing and everything limit nothing, and are 0. */
uint32_t config_smaller_share(uint32_t a, uint32_t b);

/* How compute is to be limited: a share is a cap, as where these settings come from. */
enum policy_compute config_compute(const struct config *config);

/* Puts into a policy what is no limit: the priority, and overcommitting. */
void config_apply(const struct config *config, struct policy *policy);

/*
 * The CUDA ordinal that CUDA_VISIBLE_DEVICES gives to a device, before CUDA itself can be asked:
 * by index (as NVML counts) or by UUID ("GPU-" and any unambiguous start of it). -1: hidden. NULL
 * or a list that cannot be read this way: `index` itself.
 */
int config_ordinal(const char *visible_devices, unsigned int index, const uint8_t uuid[16]);

#endif
