/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits as other systems give them, for programs that come from there: the environment
 * CUDA_DEVICE_MEMORY_LIMIT[_<i>], CUDA_DEVICE_SM_LIMIT[_<i>], GPU_CORE_UTILIZATION_POLICY and
 * CUDA_DEVICE_MEMORY_SHARED_CACHE, and /etc/xpu/vgpu.config. Pure: text in, numbers out. A
 * malformed value is an error, never "no limit".
 */
#ifndef ALLOT_GUEST_CORE_CONFIG_H
#define ALLOT_GUEST_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/parse.h"
#include "ledger/policy.h"

struct config {
	bool present;			       /* somebody asked for limits */
	/* By the environment: */
	struct size_spec all;		       /* of devices without one of their own; 0: none */
	struct size_spec device[POLICY_DEVICES]; /* by CUDA ordinal */
	uint32_t share_permille;	       /* of compute, likewise; 1000: not limited */
	uint32_t device_share_permille[POLICY_DEVICES];
	bool disabled;			       /* these shares are not to be in force */
	/* By the file, for every device: */
	uint64_t file_bytes;		       /* 0: not limited */
	uint32_t file_share_permille;
	char tenant[POLICY_NAME_BYTES];	       /* processes that share it share the limits */
	char complaint[192];		       /* after an error: what is wrong, and a right one */
};

#define CONFIG_FILE "/etc/xpu/vgpu.config"
#define CONFIG_FILE_BYTES 65536 /* and no more, with a zero behind it */

/*
 * Reads an environment block (NULL-terminated, as environ). Other programs' variables are passed
 * over. 0, or -EINVAL with `complaint` set.
 */
int config_environment(struct config *config, char *const *environment);

/*
 * Reads the text of a vgpu.config, after the environment. Likewise. Whoever mounted the file is not
 * overruled by a variable: of two limits the smaller one binds, for each device by itself.
 */
int config_file(struct config *config, const char *text, size_t len);

/*
 * The limit of the device with CUDA ordinal `ordinal`; 1000 permille where none was given. A size
 * and a part are compared by the device's total; 0 if that is not known, and then the file's binds.
 */
struct size_spec config_limit(const struct config *config, unsigned int ordinal,
			      uint64_t total_bytes);

/* Whether the file limits anything. */
static inline bool config_is_by_file(const struct config *config)
{
	return config->file_bytes || config->file_share_permille;
}

/*
 * Lowers a policy's shares of compute to the file's, which is a cap: of who works by weight, too.
 * Memory is left, as a part of a device is compared by the device's total.
 */
void config_lower(const struct config *config, struct policy *policy);

/* The share of compute there, 1 to 999; 0 where it is not limited. */
uint32_t config_share_permille(const struct config *config, unsigned int ordinal);

/* How compute is to be limited: a share is a cap, as where these settings come from. */
enum policy_compute config_compute(const struct config *config);

/*
 * The CUDA ordinal that CUDA_VISIBLE_DEVICES gives to a device, before CUDA itself can be asked:
 * by index (as NVML counts) or by UUID ("GPU-" and any unambiguous start of it). -1: hidden. NULL
 * or a list that cannot be read this way: `index` itself.
 */
int config_ordinal(const char *visible_devices, unsigned int index, const uint8_t uuid[16]);

#endif
