/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "sim/kfd/caches.h"
#include "sim/kfd/kernel.h"
#include "sim/kfd/links.h"
#include "sim/kfd/tree.h"

static int machine_complain(char *ret_what, int r, const char *name, const char *what)
{
	snprintf(ret_what, MACHINE_WHAT_BYTES, "\"%.360s\": %s", name, what);
	return r;
}

#define PARTITIONS_MOST 8

/* One of what follows the number. */
static int machine_parse_word(const char *word, uint64_t *partitions, uint32_t *kernel)
{
	static const char parts[] = "partitions=", linux_of[] = "linux=";

	if (!strncmp(word, parts, strlen(parts)))
		return parse_u64(word + strlen(parts), 2, PARTITIONS_MOST, partitions);
	if (!strncmp(word, linux_of, strlen(linux_of)))
		return kernel_parse(word + strlen(linux_of), kernel);
	return -EINVAL;
}

int machine_parse(const char *text, struct machine_options *o, char ret_what[MACHINE_WHAT_BYTES])
{
	char copy[64], *rest = copy, *boards, *word;
	uint64_t n, partitions = 0;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return machine_complain(ret_what, -EINVAL, text, "too long");
	boards = strsep(&rest, ",");
	while ((word = strsep(&rest, ",")))
		if (machine_parse_word(word, &partitions, &o->kernel) < 0)
			return machine_complain(ret_what, -EINVAL, text,
						"what follows the number is neither partitions=N, "
						"from 2 to 8, nor linux=VERSION, from 6.1 to 7.2");
	if (parse_u64(boards, 1, TREE_GPUS / (partitions ? partitions : 1), &n) < 0)
		return machine_complain(ret_what, -EINVAL, text,
					"not a number from 1 to 32, with all partitions; write it "
					"like --amd 8, or --amd 2,partitions=4");
	o->gpus = (uint32_t)(partitions ? n * partitions : n);
	o->partitions = (uint32_t)partitions;
	return 0;
}

static int machine_read_links(const char *path, struct tree *t, char *ret_what)
{
	CLEANUP_FREE char *text = malloc(LINKS_FILE_BYTES + 2);
	char what[LINKS_WHAT_BYTES];
	ssize_t n;
	int r;

	if (!text)
		return machine_complain(ret_what, -ENOMEM, path, "out of memory");
	n = fd_read_text(AT_FDCWD, path, text, LINKS_FILE_BYTES + 2);
	if (n < 0)
		return machine_complain(ret_what, (int)n, path, strerror((int)-n));
	if (n > LINKS_FILE_BYTES)
		return machine_complain(ret_what, -EFBIG, path, "too long for a list of links");
	r = links_parse(text, (size_t)n, t, what);
	return r < 0 ? machine_complain(ret_what, r, path, what) : 0;
}

/* GPUs that no xGMI joins see each other by way of the CPU. */
static int machine_add_links(const struct machine_options *o, struct tree *t, char *ret_what)
{
	const char *links = o->links ? o->links : t->model->xgmi ? "xgmi" : "pcie";
	bool xgmi = !strcmp(links, "xgmi");

	tree_board(t, o->gpus, xgmi ? TREE_HIVE(1) : 0);
	if (xgmi)
		return 0;
	if (strcmp(links, "pcie"))
		return machine_read_links(links, t, ret_what);
	for (uint32_t i = 1; i <= o->gpus; i++)
		for (uint32_t j = 1; j <= o->gpus; j++)
			if (i != j)
				tree_p2p(t, i, j, 40, 32000);
	return 0;
}

/* The emulator's own variable: what the kernel does not have it does not show, either. */
static bool machine_lacks_svm(void)
{
	const char *names = getenv("ALLOT_SIM_AMD_WITHOUT");
	const char *found = names ? strstr(names, "SVM") : NULL;

	return found && (found == names || found[-1] == ',') && (!found[3] || found[3] == ',');
}

/* GPUs of whose memory the CPU reaches so much. The kernel tells one bank for all of it then. */
static int machine_set_bar(struct tree *t, char *ret_what)
{
	const char *bar = getenv("ALLOT_SIM_AMD_BAR");

	if (!bar)
		return 0;
	if (parse_size(bar, 0, &t->bar_bytes) < 0 || t->bar_bytes > t->vram_bytes)
		return machine_complain(ret_what, -EINVAL, bar,
					"ALLOT_SIM_AMD_BAR: not a size of a part of the memory");
	for (uint32_t i = 0; i < t->n && t->bar_bytes; i++)
		if (t->node[i].gpu_id)
			t->node[i].heap = TOPOLOGY_HEAP_VRAM;
	return 0;
}

static int machine_fill_node(const struct machine_options *o, struct tree *t, char *ret_what)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct sysinfo info;
	int r;

	tree_init(t);
	if (o->model)
		t->model = tree_model_find(o->model);
	if (!t->model)
		return machine_complain(ret_what, -EINVAL, o->model,
					"not a model that is known here");
	if (o->partitions && t->model->gfx_version / 100 != 904)
		return machine_complain(ret_what, -EINVAL, t->model->gfx,
					"this model has no partitions; gfx942 has");
	t->partitions = o->partitions;
	t->kernel = o->kernel ? o->kernel : KERNEL_NEWEST;
	t->vram_bytes = o->memory_bytes;
	t->no_svm = machine_lacks_svm();
	if (cpus > 0)
		t->cpu_cores = (uint32_t)cpus;
	if (!sysinfo(&info))
		t->system_bytes = (uint64_t)info.totalram * info.mem_unit;
	r = machine_add_links(o, t, ret_what);
	return r < 0 ? r : machine_set_bar(t, ret_what);
}

#define DEVICES "/sys/devices/"

/*
 * The folder of GPU `i`'s device: at its PCI address, as the topology has it; or, of a board's further
 * partitions, of a platform device that has nothing but DRM's names (amdgpu_xcp_drv.c).
 */
#define DEVICE_BYTES 48
static void machine_device(const struct tree *t, uint32_t i, char ret[DEVICE_BYTES])
{
	if (tree_partition_of(t, i))
		snprintf(ret, DEVICE_BYTES, "platform/amdgpu_xcp_%u", i);
	else
		snprintf(ret, DEVICE_BYTES, "pci0000:00/0000:%02x:00.0", tree_board_of(t, i));
}

static int machine_put_symlink(const struct tree *t, const char *target, const char *name)
{
	char path[sizeof(t->root) + 128];

	snprintf(path, sizeof(path), "%s%s", t->root, name);
	return symlink(target, path) < 0 ? err_errno() : 0;
}

/* What DRM calls the device, card or render node: in its folder, and in sysfs by kind and number.
 */
static int machine_write_name(const struct tree *t, uint32_t i, const char *name, uint32_t minor)
{
	char path[128], target[128], device[DEVICE_BYTES];
	int r;

	machine_device(t, i, device);
	snprintf(path, sizeof(path), DEVICES "%s/drm/%s/dev", device, name);
	snprintf(target, sizeof(target), "226:%u\n", minor);
	if ((r = tree_put(t, path, target)) < 0)
		return r;
	snprintf(path, sizeof(path), DEVICES "%s/drm/%s/device", device, name);
	snprintf(target, sizeof(target), "../../../%s", strchr(device, '/') + 1);
	if ((r = machine_put_symlink(t, target, path)) < 0)
		return r;
	snprintf(target, sizeof(target), "../../devices/%s/drm/%s", device, name);
	snprintf(path, sizeof(path), "/sys/class/drm/%s", name);
	if ((r = machine_put_symlink(t, target, path)) < 0)
		return r;
	snprintf(path, sizeof(path), "/sys/dev/char/226:%u", minor);
	if ((r = machine_put_symlink(t, target, path)) < 0)
		return r;
	snprintf(path, sizeof(path), TOPOLOGY_DRI "/%s", name);
	return tree_put(t, path, "");
}

/*
 * Figures of a board's sensors, which rocm-smi 5.2 does not do without: it aborts, and leaves the mutex
 * locked that it shares with its other runs. No figure changes, for nothing gets warm here.
 */
static int machine_write_sensors(const struct tree *t, uint32_t i, const char *device)
{
	static const struct {
		const char *file, *text;
	} files[] = {
		{"hwmon/hwmon%u/name", "amdgpu"},
		{"hwmon/hwmon%u/temp1_label", "edge"},
		{"hwmon/hwmon%u/temp1_input", "35000"},
		{"hwmon/hwmon%u/in0_label", "vddgfx"},
		{"hwmon/hwmon%u/in0_input", "800"},
		{"hwmon/hwmon%u/power1_average", "90000000"},
		{"hwmon/hwmon%u/power1_cap", "300000000"},
		{"pp_dpm_sclk", "0: 500Mhz *"},
		{"pp_dpm_mclk", "0: 1600Mhz *"},
		{"power_dpm_force_performance_level", "auto"},
	};
	char name[160], text[32], file[64];
	int r = 0;

	for (size_t j = 0; r == 0 && j < sizeof(files) / sizeof(files[0]); j++) {
		const char *number = strstr(files[j].file, "%u");

		if (number)
			snprintf(file, sizeof(file), "%.*s%u%s", (int)(number - files[j].file),
				 files[j].file, i - 1, number + 2);
		else
			snprintf(file, sizeof(file), "%s", files[j].file);
		snprintf(name, sizeof(name), DEVICES "%s/%s", device, file);
		snprintf(text, sizeof(text), "%s\n", files[j].text);
		r = tree_put(t, name, text);
	}
	return r;
}

/* The files of a board: its ids, how much memory it has, and its sensors. */
static int machine_write_board(const struct tree *t, uint32_t i)
{
	uint64_t bytes = t->vram_bytes * (t->partitions ? t->partitions : 1);
	const struct {
		const char *file;
		unsigned long long value;
		bool hex;
	} files[] = {
		{"vendor", 0x1002, true},
		{"device", t->model->device_id, true},
		{"mem_info_vram_total", bytes, false},
		{"mem_info_vis_vram_total", t->bar_bytes ? t->bar_bytes : bytes, false},
		{"mem_info_gtt_total", bytes, false},
		{"mem_info_vram_used", 0, false},
		{"mem_info_vis_vram_used", 0, false},
		{"mem_info_gtt_used", 0, false},
		{"gpu_busy_percent", 0, false},
	};
	char name[128], text[32], device[DEVICE_BYTES];
	int r;

	machine_device(t, i, device);
	snprintf(name, sizeof(name), DEVICES "%s/vbios_version", device);
	r = tree_put(t, name, "113-EMULATED-000\n");
	for (size_t j = 0; r == 0 && j < sizeof(files) / sizeof(files[0]); j++) {
		snprintf(name, sizeof(name), DEVICES "%s/%s", device, files[j].file);
		snprintf(text, sizeof(text), files[j].hex ? "0x%04llx\n" : "%llu\n",
			 files[j].value);
		r = tree_put(t, name, text);
	}
	return r < 0 ? r : machine_write_sensors(t, i, device);
}

/* The folder of GPU `i`, and its names. */
static int machine_write_device(const struct tree *t, uint32_t i)
{
	int r = tree_partition_of(t, i) ? 0 : machine_write_board(t, i);
	char name[16];

	snprintf(name, sizeof(name), "renderD%u", 128 + i);
	if (r == 0)
		r = machine_write_name(t, i, name, 128 + i);
	snprintf(name, sizeof(name), "card%d", TREE_CARD(128 + i));
	return r < 0 ? r : machine_write_name(t, i, name, (uint32_t)TREE_CARD(128 + i));
}

/*
 * Files beside the topology that programs look at: the module's, what kind of device each one is,
 * and the CPUs' caches.
 */
static int machine_write_rest(const struct tree *t)
{
	static const char *const dirs[] = {"/sys/module/amdgpu/holders",
					   "/sys/class",
					   "/sys/class/kfd",
					   "/sys/class/drm",
					   "/sys/dev",
					   "/sys/dev/char",
					   "/sys/devices/virtual/kfd/kfd/proc"};
	char path[sizeof(t->root) + 64], kernel[16];
	int r;

	snprintf(kernel, sizeof(kernel), "%u.%u\n", t->kernel >> 8, t->kernel & 0xff);
	if ((r = tree_put(t, KERNEL_FILE, kernel)) < 0 ||
	    (r = tree_put(t, "/dev/kfd", "")) < 0 ||
	    (r = tree_put(t, "/proc/modules", "amdgpu 1 0 - Live 0x0000000000000000\n")) < 0 ||
	    (r = tree_put(t, "/sys/module/amdgpu/initstate", "live\n")) < 0 ||
	    (r = tree_put(t, "/sys/module/amdgpu/refcnt", "0\n")) < 0)
		return r;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", t->root, dirs[i]);
		if (mkdir(path, 0755) < 0)
			return err_errno();
	}
	for (uint32_t i = 1; i < t->n; i++)
		if ((r = machine_write_device(t, i)) < 0)
			return r;
	if ((r = caches_write(t, CACHES_CPUS)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd", t->root);
	return symlink("../../devices/virtual/kfd/kfd", path) < 0 ? err_errno() : 0;
}

int machine_write(const char *dir, const struct machine_options *o,
		  char ret_what[MACHINE_WHAT_BYTES])
{
	CLEANUP_FREE struct tree *t = malloc(sizeof(*t));
	char path[sizeof(t->root)];
	int r;

	if (!t)
		return machine_complain(ret_what, -ENOMEM, dir, "out of memory");
	r = machine_fill_node(o, t, ret_what);
	if (r < 0)
		return r;
	if (snprintf(t->root, sizeof(t->root), "%s/amd-XXXXXX", dir) >= (int)sizeof(t->root))
		return machine_complain(ret_what, -ENAMETOOLONG, dir,
					"too long for the devices' directory");
	snprintf(path, sizeof(path), "%s/amd", dir);
	if (!access(path, F_OK))
		return 0;
	if (!mkdtemp(t->root))
		return machine_complain(ret_what, -errno, dir, strerror(errno));
	if ((r = tree_write(t)) == 0 && (r = machine_write_rest(t)) == 0 &&
	    rename(t->root, path) == 0)
		return 0;
	if (r == 0)
		r = err_errno();
	tree_remove_all(t->root);
	if (r == -EEXIST || r == -ENOTEMPTY) /* another command was first */
		return 0;
	return machine_complain(ret_what, r, dir, strerror(-r));
}
