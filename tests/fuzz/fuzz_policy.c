/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forged policy. The input is a list of changes to a good one (two bytes of offset, one of
 * value), each also tried with the copy's checksum put right, so that the checks behind it are
 * reached; the last byte may cut the file short.
 */
#include "base/hash.h"
#include "ledger/layout.h"
#include "tests/fuzz/tenant.h"

static void read_it(void)
{
	static const uint8_t other[16] = "another device.";
	struct policy_map *map = NULL;
	struct policy policy;
	uint64_t limit;

	if (policy_load(tenant_dir, &policy) == 0) {
		MUST(policy_check(&policy) == 0);
		MUST(policy.ndevices >= 1 && policy.ndevices <= POLICY_DEVICES);
	}
	if (policy_open(tenant_dir, &map) < 0) {
		MUST(!map);
		return;
	}
	policy_generation(map);
	if (policy_read(map, &policy) == 0) {
		MUST(policy_check(&policy) == 0);
		for (uint32_t i = 0; i <= policy.ndevices; i++) {
			const uint8_t *uuid = i < policy.ndevices ? policy.device[i].uuid : other;

			if (policy_limit(&policy, uuid, UINT64_C(24) << 30, &limit) == 0)
				MUST(limit > 0 && limit <= UINT64_C(24) << 30);
		}
	}
	policy_close(map);
}

/* As policy.c computes it: it finds damage, and keeps nobody out. */
static uint64_t checksum(uint64_t generation, const struct policy *policy)
{
	uint64_t hash = hash_word(HASH_SEED, generation), word;

	for (size_t i = 0; i < offsetof(struct policy, swap_dir); i += sizeof(word)) {
		memcpy(&word, (const char *)policy + i, sizeof(word));
		hash = hash_word(hash, word);
		hash ^= hash >> 29;
	}
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy good = tenant_policy();
	static struct policy_file file;
	int fd;

	tenant_begin();
	tenant_forget("policy");
	MUST(policy_create(tenant_dir, &good) == 0);
	tenant_unguard("policy");
	fd = tenant_open("policy", O_RDWR);
	MUST(pread(fd, &file, sizeof(file), 0) == sizeof(file));
	MUST(file.copy[0].checksum == checksum(file.copy[0].generation, &file.copy[0].policy));
	for (; size >= 3; data += 3, size -= 3)
		((uint8_t *)&file)[(data[0] | data[1] << 8) % sizeof(file)] ^= data[2];
	MUST(pwrite(fd, &file, sizeof(file), 0) == sizeof(file));
	read_it();
	for (int i = 0; i < 2; i++)
		file.copy[i].checksum = checksum(file.copy[i].generation, &file.copy[i].policy);
	MUST(pwrite(fd, &file, sizeof(file), 0) == sizeof(file));
	read_it();
	if (size) {
		MUST(ftruncate(fd, (off_t)(data[0] * sizeof(file) / 256)) == 0);
		read_it();
	}
	close(fd);
	return 0;
}
