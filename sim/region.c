/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping, rows and liveness of the shared region; what is counted is in count.c. */
#include "sim/region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/pidns.h"
#include "sim/mutex.h"
#include "sim/shared.h"

/* Row locks live far behind the contents, so that no read or write ever meets them. */
#define LOCK_BASE (1ll << 40)

/*
 * The region that this process mapped last, to look at locks through: liveness needs a descriptor
 * of its own, opened for the query, so that a process holds none in between. The inode tells a
 * region from another one that has taken its place under the same name.
 */
static char region_path[PATH_MAX];
static dev_t region_dev;
static ino_t region_ino;

int sim_region_dir(char *buf, size_t len)
{
	const char *env = getenv("ALLOT_SIM_DIR");
	int n;

	if (env && *env)
		n = snprintf(buf, len, "%s", env);
	else
		n = snprintf(buf, len, "/dev/shm/allot-sim-%u", (unsigned int)getuid());
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

static int region_open_locks(void)
{
	int fd = open(region_path, O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || st.st_dev != region_dev || st.st_ino != region_ino)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * How much later the kernel's ticks begin for us: CRIU gives who comes back a time namespace, in which
 * no time has passed.
 */
static int64_t region_boot_offset(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long long s = 0, ns = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "boottime %lld %lld", &s, &ns) == 2)
			break;
	if (file)
		fclose(file);
	return (s * 1000000000 + ns) / (1000000000 / sysconf(_SC_CLK_TCK));
}

/* When a process began, in the kernel's ticks; 0: there is none, or it has ended. */
static uint64_t region_process_start(int pid)
{
	unsigned long long start = 0;
	char path[64], text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* Behind the name, which may have spaces: state, and 19 numbers that are not asked for. */
	at = strrchr(text, ')');
	if (at && (at[2] == 'Z' || at[2] == 'X'))
		return 0;
	for (int i = 0; at && i < 20; i++)
		at = strchr(at + 1, ' ');
	if (at && sscanf(at, "%llu", &start) == 1)
		start -= (unsigned long long)region_boot_offset();
	return start;
}

/* The same process, but for how ticks are rounded. */
static bool region_is_same_start(uint64_t a, uint64_t b)
{
	return a && b && a - b + 2 <= 4;
}

static bool region_row_locked(const struct sim_region *region, int row, int fd)
{
	const struct sim_process_row *r = &region->row[row];

	return r->back_since ? region_is_same_start(region_process_start(r->pid), r->back_since)
			     : sim_byte_locked(fd, LOCK_BASE + row);
}

bool sim_row_alive(struct sim_region *region, int row)
{
	int fd = region_open_locks();
	bool alive;

	if (fd < 0)
		return true;
	alive = region->row[row].state == SIM_ROW_LIVE && region_row_locked(region, row, fd);
	close(fd);
	return alive;
}

/* No process has such a number: Linux gives none above 2^22. */
#define NOBODY (UINT32_C(1) << 22)

uint32_t sim_row_driver_pid(struct sim_region *region, int row)
{
	struct sim_process_row *r = &region->row[row];
	struct pidns_query query = {.pidns = r->pid_ns, .pid = (uint32_t)r->pid};

	if (r->pid_ns == region->pid_ns)
		return (uint32_t)r->pid;
	if (!r->driver_pid && pidns_self() == region->pid_ns) {
		pidns_translate(&query, 1);
		r->driver_pid = query.host_pid;
	}
	return r->driver_pid ? r->driver_pid : NOBODY + (uint32_t)row;
}

void sim_row_note_image(struct sim_region *region, int row)
{
	struct sim_process_row *r = &region->row[row];

	for (int i = 0; i < SIM_MAX_DEVICES; i++) {
		r->image_bytes[i] = r->use[i].private_bytes;
		r->image_contexts[i] = r->use[i].contexts;
	}
	r->imaged = 1;
}

/* Whether a process has the region mapped. */
static bool region_is_mapped(int pid)
{
	unsigned long long inode = 0;
	char path[64], line[PATH_MAX + 128];
	FILE *maps;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 && inode == region_ino;
	if (maps)
		fclose(maps);
	return found;
}

static bool region_is_image_of(struct sim_region *region, int row, int pid, uint64_t pid_ns, int fd)
{
	const struct sim_process_row *r = &region->row[row];

	return r->imaged && r->pid == pid && r->pid_ns == pid_ns &&
	       (r->state == SIM_ROW_GONE ||
		(r->state == SIM_ROW_LIVE && !region_row_locked(region, row, fd)));
}

int sim_row_revive(struct sim_region *region, int pid, uint64_t pid_ns)
{
	uint64_t start = region_process_start(pid);
	int fd = region_open_locks(), row = -1;

	if (fd < 0)
		return -1;
	sim_region_lock(region);
	/* The last one of that pid, should there have been several. */
	for (int i = 0; start && i < (int)region->nrows; i++)
		if (region_is_image_of(region, i, pid, pid_ns, fd) &&
		    (row < 0 || region->row[i].start_ns > region->row[row].start_ns))
			row = i;
	if (row >= 0 && region_is_mapped(pid)) {
		struct sim_process_row *r = &region->row[row];

		for (int i = 0; i < SIM_MAX_DEVICES; i++) {
			r->use[i].private_bytes = r->image_bytes[i];
			r->use[i].contexts = r->image_contexts[i];
		}
		r->back_since = start;
		r->restore_error = 0;
		r->calls = r->works = 0;
		r->checkpoint = SIM_CHECKPOINTED;
		r->state = SIM_ROW_LIVE;
	} else {
		row = -1;
	}
	sim_region_unlock(region);
	close(fd);
	return row;
}

static void region_forget_row(struct sim_region *region, int row)
{
	struct sim_process_row *r = &region->row[row];

	for (uint32_t i = 0; i < region->nobjects; i++) {
		struct sim_object *o = &region->object[i];

		if (!o->key[0])
			continue;
		o->shown[row / 64] &= ~(1ull << row % 64);
		o->holders[row / 64] &= ~(1ull << row % 64);
	}
	for (int i = 0; i < SIM_MAX_DEVICES; i++) {
		r->use[i].private_bytes = 0;
		r->use[i].managed_bytes = 0;
		r->use[i].contexts = 0;
		r->use[i].graphics = 0;
		memset(r->use[i].late, 0, sizeof(r->use[i].late));
	}
	/* Who comes back from an image finds itself held, whoever looks first. */
	r->checkpoint = r->imaged ? SIM_CHECKPOINTED : SIM_RUNNING;
	r->state = r->imaged ? SIM_ROW_GONE : SIM_ROW_FREE;
}

/* Is a descriptor of the object's memory open anywhere? Unknown counts as open. */
static bool region_export_open(const struct sim_region *region, const struct sim_object *o)
{
	const struct sim_process_row *r = &region->row[o->export_row];
	char path[64];
	bool open_somewhere;
	int fd;

	if (r->state != SIM_ROW_LIVE || r->generation != o->export_generation)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", o->export_pid, o->export_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return true;
	open_somewhere = sim_byte_locked(fd, SIM_EXPORT_LOCK);
	close(fd);
	return open_somewhere;
}

static bool region_row_in(const uint64_t rows[SIM_MAX_PROCESSES / 64], int row)
{
	return rows[row / 64] & 1ull << row % 64;
}

static int region_first_row(const uint64_t rows[SIM_MAX_PROCESSES / 64])
{
	for (int w = 0; w < SIM_MAX_PROCESSES / 64; w++)
		if (rows[w])
			return w * 64 + __builtin_ctzll(rows[w]);
	return -1;
}

void sim_object_settle(struct sim_region *region, struct sim_object *o)
{
	int heir = region_first_row(o->shown);

	if (o->owner >= 0 && region_row_in(heir < 0 ? o->holders : o->shown, o->owner))
		return;
	if (heir < 0)
		heir = region_first_row(o->holders);
	if (heir < 0 && o->export_row >= 0 && region_export_open(region, o))
		heir = o->export_row;
	if (heir < 0)
		o->key[0] = 0;
	else
		o->owner = heir;
}

void sim_region_reap(struct sim_region *region)
{
	int fd = region_open_locks();

	if (fd < 0)
		return;
	for (uint32_t i = 0; i < region->nrows; i++)
		if (region->row[i].state == SIM_ROW_LIVE && !region_row_locked(region, (int)i, fd))
			region_forget_row(region, (int)i);
	close(fd);
	for (uint32_t i = 0; i < region->nobjects; i++)
		if (region->object[i].key[0])
			sim_object_settle(region, &region->object[i]);
}

void sim_region_lock(struct sim_region *region)
{
	/* Each change is one store, so a dead owner leaves nothing half done (see region.h). */
	if (sim_mutex_lock(&region->lock) == EOWNERDEAD)
		sim_mutex_repaired(&region->lock);
}

void sim_region_unlock(struct sim_region *region)
{
	sim_mutex_unlock(&region->lock);
}

static void region_read_command(char *buf, size_t len)
{
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, len - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

/* There are more accounts than rows, so one is free. */
static uint32_t region_claim_account(struct sim_region *region, uint32_t row)
{
	uint32_t i = region->next_account;

	while (region->account[i].pid &&
	       region->row[region->account[i].row].state == SIM_ROW_LIVE &&
	       region->row[region->account[i].row].account == i)
		i = (i + 1) % SIM_MAX_ACCOUNTS;
	region->account[i] = (struct sim_account){.pid = getpid(), .row = row};
	region->next_account = (i + 1) % SIM_MAX_ACCOUNTS;
	if (i >= region->naccounts)
		region->naccounts = i + 1;
	return i;
}

/* Take a row through the descriptor that the region is mapped through. */
static int region_claim_row(struct sim_region *region, int fd)
{
	struct timespec now;
	int row = -ENOSPC;

	clock_gettime(CLOCK_BOOTTIME, &now);
	sim_region_lock(region);
	for (int pass = 0; pass < 3 && row < 0; pass++) {
		for (int i = 0; i < SIM_MAX_PROCESSES && row < 0; i++)
			if ((region->row[i].state == SIM_ROW_FREE ||
			     (pass == 2 && region->row[i].state == SIM_ROW_GONE)) &&
			    !sim_byte_lock(fd, LOCK_BASE + i, F_WRLCK))
				row = i;
		if (row < 0)
			sim_region_reap(region);
	}
	if (row >= 0) {
		struct sim_process_row *r = &region->row[row];

		r->pid = getpid();
		r->pid_ns = pidns_self();
		r->driver_pid = 0;
		r->generation++;
		r->calls = r->works = 0;
		r->checkpoint = SIM_RUNNING;
		r->imaged = 0;
		r->back_since = 0;
		r->under_mps = r->restore_error = 0;
		r->account = region_claim_account(region, (uint32_t)row);
		for (uint32_t i = 0; i < region->ndevices; i++)
			sim_engine_row_reset(&region->device[i].engine, (unsigned int)row,
					     r->account);
		r->start_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
		region_read_command(r->command, sizeof(r->command));
		if ((uint32_t)row >= region->nrows)
			region->nrows = (uint32_t)row + 1;
		r->state = SIM_ROW_LIVE;
	}
	sim_region_unlock(region);
	return row;
}

static int region_make_uuid(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16)
		return -EIO;
	uuid[6] = (uuid[6] & 0x0f) | 0x40; /* version 4, variant 1 */
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
	return 0;
}

static int region_make_devices(struct sim_region *region)
{
	struct sim_config config;
	int r = sim_config_read(&config);

	if (r)
		return r;
	region->ndevices = config.ndevices;
	for (uint32_t i = 0; i < region->ndevices && !r; i++) {
		struct sim_device_row *d = &region->device[i];

		r = region_make_uuid(d->uuid);
		memcpy(d->name, config.name, sizeof(d->name));
		d->total_bytes = config.memory_bytes;
		d->context_bytes = config.context_bytes;
		d->pci_bus = 0x17 + 0x10 * i; /* where boards sit in an eight-GPU host */
		d->sm_count = 132;
	}
	return r;
}

static int region_init(void *map)
{
	struct sim_region *region = map;
	int r = region_make_devices(region);

	if (!r)
		r = sim_mutex_init(&region->lock);
	for (uint32_t i = 0; i < region->ndevices && !r; i++)
		r = sim_engine_shared_init(&region->device[i].engine);
	region->pid_ns = pidns_self();
	region->bytes = sizeof(*region);
	region->version = SIM_VERSION;
	region->magic = SIM_MAGIC;
	return r;
}

/* From now on this process looks at locks through this region. */
static int region_note_identity(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st) || !realpath(path, region_path))
		return -errno;
	region_dev = st.st_dev;
	region_ino = st.st_ino;
	return 0;
}

int sim_region_open(const char *dir, bool create, struct sim_region **ret_region, int *ret_row)
{
	char own_dir[PATH_MAX - 16], path[PATH_MAX];
	struct sim_region *region;
	void *map;
	int fd, r, row = -1;

	if (!dir) {
		r = sim_region_dir(own_dir, sizeof(own_dir));
		if (r)
			return r;
		dir = own_dir;
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/" SIM_REGION_FILE, dir) >= sizeof(path))
		return -ENAMETOOLONG;
	if (create && mkdir(dir, 0700) && errno != EEXIST)
		return -errno;
	r = sim_shared_open(path, sizeof(*region), create ? region_init : NULL, &map, &fd);
	if (r)
		return r;
	region = map;
	if (region->magic != SIM_MAGIC || region->version != SIM_VERSION ||
	    region->bytes != sizeof(*region))
		r = -EPROTO;
	if (!r)
		r = region_note_identity(path, fd);
	if (!r && ret_row) {
		row = region_claim_row(region, fd);
		if (row < 0)
			r = row;
	}
	close(fd); /* the mapping keeps the row's lock */
	if (r) {
		munmap(region, sizeof(*region));
		return r;
	}
	*ret_region = region;
	if (ret_row)
		*ret_row = row;
	return 0;
}

void sim_region_close(struct sim_region *region)
{
	if (region)
		munmap(region, sizeof(*region));
}
