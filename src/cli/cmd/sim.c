/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot sim: runs a command with simulated GPUs. Unlike `allot run` it stays as the command's
 * parent, because the devices' directory is to go when the command ends.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/dir.h"
#include "base/parse.h"
#include "cli/cmd/command.h"
#include "cli/exec/launch.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/simulation/junit.h"
#include "cli/simulation/outcome.h"
#include "ledger/tenant.h"
#include "node/library.h"
#include "sim/kfd/machine.h"
#include "sim/kfd/tree.h"
#include "sim/region.h"
#include "sim/truth.h"
#include "sim/vulkan/manifest.h"

#define DEFAULT_BYTES (UINT64_C(24) << 30)
#define KFD_LIBRARY   "liballot-sim-kfd.so"
#define SMI_FOLDER    "smi"
#define OPENCL_FOLDER "opencl"
#define OPENCL_FILE   "allot-sim.icd"
#define POCL_FILE     "/etc/OpenCL/vendors/pocl.icd"

/* Options without a letter. */
enum { AMD = 256, MODEL, LINKS, SHARED, REPORT, ERROR_EXITCODE };

enum { GROUP_NVIDIA = 1, GROUP_AMD };

static const struct argp_option options[] = {
	{"memory", 'm', "SIZE", 0, "memory of each device (default 24GiB)", 0},
	{"dir", 'd', "DIR", 0,
	 "keep the devices in DIR, for several commands at once (default: devices of this command "
	 "alone)",
	 0},
	{NULL, 0, NULL, 0, "NVIDIA GPUs:", GROUP_NVIDIA},
	{"gpus", 'g', "N", 0, "number of devices (default 1, or none with --amd)", GROUP_NVIDIA},
	{"context", 'c', "SIZE", 0, "memory of a CUDA context (default 520MiB)", GROUP_NVIDIA},
	{"shared", SHARED, NULL, 0, "let other users use the devices, too", GROUP_NVIDIA},
	{"report", REPORT, "FILE.xml", OPTION_ARG_OPTIONAL,
	 "at the end, say what was allocated, its peak, what was never freed and which CUDA calls did not "
	 "succeed; also as JUnit XML into FILE.xml",
	 GROUP_NVIDIA},
	{"error-exitcode", ERROR_EXITCODE, "N", 0,
	 "with --report: end with N if it found anything and the command ended with 0", GROUP_NVIDIA},
	{NULL, 0, NULL, 0, "AMD GPUs:", GROUP_AMD},
	{"amd", AMD, "N", 0, "number of devices (default none)", GROUP_AMD},
	{"model", MODEL, "gfx90a|gfx942|gfx1030", 0, "model of the devices (default gfx90a)", GROUP_AMD},
	{"links", LINKS, "xgmi|pcie|FILE", 0,
	 "links between devices (default: those of the model)", GROUP_AMD},
	{0},
};

struct args {
	const char *gpus, *memory, *context, *dir;
	bool shared, report;
	const char *xml; /* NULL: the report is words alone */
	int error_status; /* 0: what the report finds changes no status */
	const char *amd, *model, *links;
	char **command;
};

/* "--report FILE.xml", too: argp takes an optional value only behind "=". */
static const char *sim_take_file(struct argp_state *state)
{
	const char *next = state->next < state->argc ? state->argv[state->next] : "";
	size_t len = strlen(next);

	if (len < 5 || *next == '-' || strcmp(next + len - 4, ".xml"))
		return NULL;
	state->next++;
	return next;
}

static error_t sim_take_status(const char *text, struct args *a)
{
	uint64_t status;

	if (parse_u64(text, 1, 255, &status) < 0) {
		say_error("--error-exitcode \"%s\": not a status from 1 to 255; write it like "
			  "--error-exitcode 1",
			  text);
		return EINVAL;
	}
	a->error_status = (int)status;
	return 0;
}

static error_t sim_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'g':
		a->gpus = arg;
		return 0;
	case 'm':
		a->memory = arg;
		return 0;
	case 'c':
		a->context = arg;
		return 0;
	case 'd':
		a->dir = arg;
		return 0;
	case AMD:
		a->amd = arg;
		return 0;
	case MODEL:
		a->model = arg;
		return 0;
	case LINKS:
		a->links = arg;
		return 0;
	case SHARED:
		a->shared = true;
		return 0;
	case REPORT:
		a->report = true;
		a->xml = arg ? arg : sim_take_file(state);
		return 0;
	case ERROR_EXITCODE:
		return sim_take_status(arg, a);
	case ARGP_KEY_ARG:
		a->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = sim_parse_option,
	.args_doc = "-- COMMAND [ARG...]",
	.doc = "Run a command with simulated GPUs; no GPU and no driver needed.\v"
	       "  allot sim --gpus 2 --memory 24GiB -- allot run --memory 1GiB -- ./app\n"
	       "  allot sim --report --error-exitcode 1 -- ./test\n"
	       "  allot sim --amd 8 --memory 64GiB -- rocminfo\n",
};

/* Puts a size, in bytes, into the variable that the simulator reads. */
static int sim_set_size(const char *option, const char *text, const char *variable)
{
	char value[24];
	uint64_t bytes;

	if (!text)
		return 0;
	if (parse_size(text, 0, &bytes) < 0)
		return say_error("%s \"%s\": not a size; write it like %s 24GiB or %s 512M", option,
				 text, option, option);
	snprintf(value, sizeof(value), "%llu", (unsigned long long)bytes);
	setenv(variable, value, 1);
	return 0;
}

static int sim_set_gpus(const char *text)
{
	uint64_t n;

	if (!text)
		return 0;
	if (parse_u64(text, 1, SIM_MAX_DEVICES, &n) < 0)
		return say_error("--gpus \"%s\": not a number from 1 to %d; write it like --gpus 2",
				 text, SIM_MAX_DEVICES);
	setenv("ALLOT_SIM_GPUS", text, 1);
	return 0;
}

/* A process with a lock on this file uses the devices. The command's processes have one. */
#define ALIVE "alive"
#define ALIVE_FD 101 /* behind that of `allot run` */

static void sim_remove_dir_at(int dirfd, const char *name);

/*
 * Removes files of a simulation that was killed. A directory without the lock file may be of an
 * older allot.
 */
static void sim_sweep(const char *place)
{
	char path[PATH_MAX], own[64];
	CLEANUP_DIR DIR *dir = opendir(place);
	const char *name;

	snprintf(own, sizeof(own), "allot-sim-%u-", (unsigned int)getuid());
	while ((name = dir_next(dir))) {
		int fd;

		if (strncmp(name, own, strlen(own)) ||
		    snprintf(path, sizeof(path), "%s/%s/" ALIVE, place, name) >= (int)sizeof(path))
			continue;
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			sim_remove_dir_at(dirfd(dir), name);
		close(fd);
	}
}

/* The file has its name when it is locked, so that nobody takes it for a dead one's. */
static void sim_keep(const char *dir)
{
	char path[PATH_MAX], hidden[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/" ALIVE, dir) >= (int)sizeof(path) ||
	    snprintf(hidden, sizeof(hidden), "%s/." ALIVE, dir) >= (int)sizeof(hidden))
		return;
	fd = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* For the command, which lives on if this process is killed. */
	if (fd >= 0 && flock(fd, LOCK_SH) == 0 && fcntl(fd, F_DUPFD, ALIVE_FD) >= 0)
		rename(hidden, path);
	if (fd >= 0)
		close(fd);
}

/* Makes a directory for this command alone, in memory where there is such a place. */
static int sim_make_private_dir(char dir[static PATH_MAX])
{
	static const char *const places[] = {"/dev/shm", NULL, "/tmp"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *place = places[i] ? places[i] : getenv("XDG_RUNTIME_DIR");

		if (!place || *place != '/')
			continue;
		if (snprintf(dir, PATH_MAX, "%s/allot-sim-%u-XXXXXX", place,
			     (unsigned int)getuid()) < PATH_MAX &&
		    mkdtemp(dir)) {
			sim_keep(dir);
			sim_sweep(place);
			return 0;
		}
	}
	return say_error("cannot make a directory for the devices in /dev/shm, XDG_RUNTIME_DIR or "
			 "/tmp: %s; name one with --dir",
			 say_errno(errno));
}

/* Opening devices that exist needs the right to write to them, not to make them. */
static bool sim_may_use(const char *dir)
{
	char region[PATH_MAX + sizeof("/" SIM_REGION_FILE)];

	snprintf(region, sizeof(region), "%s/" SIM_REGION_FILE, dir);
	return access(dir, X_OK) == 0 &&
	       (access(region, R_OK | W_OK) == 0 || access(dir, R_OK | W_OK) == 0);
}

static int sim_use_dir(const char *dir, char ret[static PATH_MAX])
{
	char path[PATH_MAX];

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return say_error("--dir \"%s\": cannot make it: %s; its parent must exist and be "
				 "yours",
				 dir, say_errno(errno));
	if (!realpath(dir, path) || !sim_may_use(path))
		return say_error("--dir \"%s\": %s; name a directory that you may write to, or one of "
				 "another user's \"allot sim --shared\"",
				 dir, say_errno(errno));
	memcpy(ret, path, sizeof(path));
	return 0;
}

static void sim_remove_dir_at(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const char *entry;

	while ((entry = dir_next(dir)))
		if (unlinkat(fd, entry, 0) < 0)
			sim_remove_dir_at(fd, entry);
	unlinkat(dirfd, name, AT_REMOVEDIR);
}

static int sim_read_machine(const struct args *a, struct machine_options *ret)
{
	struct machine_options o = {
		.model = a->model, .links = a->links, .memory_bytes = DEFAULT_BYTES};
	char what[MACHINE_WHAT_BYTES];

	if (a->amd && !TOPOLOGY_BUILT)
		return say_error("--amd: this allot is built without AMD GPUs (-Damd=false)");
	if (a->amd && a->shared)
		return say_error("--shared is of NVIDIA devices: memory of AMD devices is in files that "
				 "other users cannot open; leave out --amd or --shared");
	if (!a->amd && (a->model || a->links))
		return say_error("--model and --links are of AMD devices; say how many with --amd, "
				 "like --amd 8");
	if (!a->amd)
		return 0;
	if (machine_parse(a->amd, &o, what) < 0)
		return say_error("--amd %s", what);
	if (a->model && !tree_model_find(a->model))
		return say_error("--model \"%s\": not known; it is one of %s", a->model,
				 tree_model_names);
	if (a->memory && parse_size(a->memory, 0, &o.memory_bytes) < 0)
		return say_error("--memory \"%s\": not a size; write it like --memory 64GiB",
				 a->memory);
	*ret = o;
	return 0;
}

/* Makes AMD's devices: a tree in the directory, and the library that leads programs into it. */
static int sim_put_machine(const char *libraries, const char *dir, const struct machine_options *o)
{
	char path[PATH_MAX + sizeof(KFD_LIBRARY) + 1], what[MACHINE_WHAT_BYTES];

	snprintf(path, sizeof(path), "%s/" KFD_LIBRARY, libraries);
	if (access(path, R_OK) < 0)
		return say_error("the emulated KFD cannot be used: %s: %s; install it together "
				 "with allot",
				 path, say_errno(errno));
	if (strpbrk(path, " :"))
		return say_error("the emulated KFD cannot be used: \"%s\" has a space or a colon; "
				 "set ALLOT_SIM_LIBRARY_DIR to a copy elsewhere",
				 path);
	if (machine_write(dir, o, what) < 0)
		return say_error("cannot make AMD devices: %s", what);
	if (launch_prepend("LD_PRELOAD", path, " :") < 0)
		return say_error("cannot set the command's environment: %s", say_errno(errno));
	return 0;
}

/*
 * Makes the devices, which otherwise the first program does as its own, and opens them to all users.
 * Those may write to the region and to nothing else there, so that no user can put a file in its place.
 */
static int sim_share(const char *dir)
{
	char path[PATH_MAX + sizeof("/" SIM_REGION_FILE)];
	struct sim_truth *devices;
	int r = sim_truth_create(dir, &devices);

	if (r == -EPROTO)
		return say_error("--shared: the devices in \"%s\" are another version's; end the "
				 "commands that use them and remove it, or name another --dir",
				 dir);
	if (r < 0)
		return say_error("--shared: cannot make the devices in \"%s\": %s; name another "
				 "--dir",
				 dir, say_errno(-r));
	sim_truth_close(devices);
	snprintf(path, sizeof(path), "%s/" SIM_REGION_FILE, dir);
	if (chmod(path, 0666) < 0 || chmod(dir, 0755) < 0)
		return say_error("--shared: cannot open the devices in \"%s\" to other users: %s; name "
				 "another --dir, of your own",
				 dir, say_errno(errno));
	return 0;
}

/* True if the command is to see NVIDIA's devices: beside AMD's only if they are asked for. */
static bool sim_wants_nvidia(const struct args *a)
{
	return !a->amd || a->gpus;
}

/*
 * Scripts ask nvidia-smi first, and find the simulated one. A program without PATH is left without: it
 * finds commands by a list of libc's own.
 */
static int sim_put_smi(const char *libraries)
{
	char path[PATH_MAX + sizeof("/" SMI_FOLDER)];

	snprintf(path, sizeof(path), "%s/" SMI_FOLDER, libraries);
	if (access(path, X_OK) < 0 || !getenv("PATH"))
		return 0;
	return launch_prepend("PATH", path, ":");
}

/*
 * Leads Vulkan's loader to the simulated driver and to no other, where there is lavapipe to stand behind
 * it. The second variable is the older name of the first. Drivers that the user named stay.
 */
static int sim_put_vulkan(const char *libraries)
{
	char path[PATH_MAX + sizeof("/" MANIFEST_OWN)], lavapipe[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" MANIFEST_OWN, libraries);
	if (getenv("VK_DRIVER_FILES") || getenv("VK_ICD_FILENAMES") || access(path, R_OK) < 0 ||
	    manifest_find_lavapipe(lavapipe) < 0)
		return 0;
	return setenv("VK_DRIVER_FILES", path, 1) < 0 || setenv("VK_ICD_FILENAMES", path, 1) < 0
		       ? -errno
		       : 0;
}

/* OpenCL's loaders find the simulated driver, which is made of pocl, unless the user names others. */
static int sim_put_opencl(const char *libraries)
{
	char path[PATH_MAX + sizeof("/" OPENCL_FOLDER "/" OPENCL_FILE)];

	snprintf(path, sizeof(path), "%s/" OPENCL_FOLDER "/" OPENCL_FILE, libraries);
	if (access(path, R_OK) < 0 || access(POCL_FILE, R_OK) < 0 || getenv("OCL_ICD_VENDORS") ||
	    getenv("OCL_ICD_FILENAMES"))
		return 0;
	snprintf(path, sizeof(path), "%s/" OPENCL_FOLDER, libraries);
	return setenv("OCL_ICD_VENDORS", path, 1);
}

static bool sim_found(const struct outcome *outcome)
{
	for (size_t i = 0; i < outcome->n; i++)
		if (outcome_has_left(&outcome->process[i]) || outcome_has_faults(&outcome->process[i]))
			return true;
	return false;
}

static int sim_refuse_xml(const struct args *a, int error)
{
	return say_error("--report \"%s\": cannot write it: %s; name another file", a->xml,
			 say_errno(error));
}

/* Takes `xml`, which may be NULL. `status` is as waitpid() has it. */
static int sim_report(const char *folder, const struct args *a, FILE *xml, int *status)
{
	struct outcome outcome;
	int r = outcome_read(folder, &outcome);
	bool bad;

	if (r < 0) {
		if (xml)
			fclose(xml);
		return say_error("--report: cannot read what programs wrote in \"%s\": %s", folder,
				 say_errno(r));
	}
	outcome_print(&outcome);
	if (xml)
		junit_write(&outcome, xml);
	bad = xml && ferror(xml);
	if (xml && (fclose(xml) || bad))
		r = sim_refuse_xml(a, errno);
	if (a->error_status && WIFEXITED(*status) && !WEXITSTATUS(*status) && sim_found(&outcome))
		*status = W_EXITCODE(a->error_status, 0);
	outcome_free(&outcome);
	return r;
}

static int sim_run_reported(const char *dir, const struct args *a, int *ret_status)
{
	/* Opened first: a test that ran for an hour is not to end without a place for its report. */
	FILE *xml = a->xml ? fopen(a->xml, "we") : NULL;
	char folder[PATH_MAX];
	int r, said;

	if (a->xml && !xml)
		return sim_refuse_xml(a, errno);
	r = outcome_prepare(dir, folder);
	if (r < 0) {
		if (xml)
			fclose(xml);
		return say_error("--report: cannot make a folder in \"%s\": %s; name another --dir", dir,
				 say_errno(r));
	}
	r = launch_supervised(a->command, NULL, NULL, ret_status);
	said = sim_report(folder, a, xml, ret_status);
	return r ? r : said;
}

static int sim_run_in(const char *dir, const char *libraries, const struct args *a,
		      const struct machine_options *machine, int *ret_status)
{
	int r = machine->gpus ? sim_put_machine(libraries, dir, machine) : 0;

	if (!r && a->shared)
		r = sim_share(dir);
	if (r)
		return r;
	if (setenv("ALLOT_SIM_DIR", dir, 1) < 0 ||
	    (sim_wants_nvidia(a) && (launch_prepend("LD_LIBRARY_PATH", libraries, ":;") < 0 ||
				     sim_put_smi(libraries) < 0 || sim_put_vulkan(libraries) < 0 ||
				     sim_put_opencl(libraries) < 0)))
		return say_error("cannot set the command's environment: %s", say_errno(errno));
	return a->report ? sim_run_reported(dir, a, ret_status)
			 : launch_supervised(a->command, NULL, NULL, ret_status);
}

int cmd_sim(int argc, char **argv)
{
	struct machine_options machine = {.gpus = 0};
	struct args a = {.command = NULL};
	char libraries[PATH_MAX], dir[PATH_MAX];
	int r, status = 0;

	if (arguments_parse(&argp, argc, argv, ARGP_IN_ORDER, &a))
		return EXIT_ALLOT;
	if (!a.command)
		return say_error("no command; write it after --, like: allot sim -- allot run "
				 "--memory 1GiB -- ./app");
	if (a.report && !sim_wants_nvidia(&a))
		return say_error("--report is of NVIDIA devices, of which --amd alone has none; add --gpus 1");
	if (a.error_status && !a.report)
		return say_error("--error-exitcode is of what --report finds; add --report");
	if ((r = sim_set_gpus(a.gpus)) ||
	    (r = sim_set_size("--memory", a.memory, "ALLOT_SIM_MEMORY")) ||
	    (r = sim_set_size("--context", a.context, "ALLOT_SIM_CONTEXT")) ||
	    (r = sim_read_machine(&a, &machine)))
		return r;
	if (library_sim_dir(libraries) < 0)
		return say_error(
			"the simulated libcuda.so.1 is not beside this allot; install both "
			"together, or set ALLOT_SIM_LIBRARY_DIR to its directory");
	if (strpbrk(libraries, ":;"))
		return say_error("the simulated libcuda.so.1 cannot be used: \"%s\" has a colon or "
				 "semicolon; set ALLOT_SIM_LIBRARY_DIR to a copy elsewhere",
				 libraries);
	r = a.dir ? sim_use_dir(a.dir, dir) : sim_make_private_dir(dir);
	if (r)
		return r;
	r = sim_run_in(dir, libraries, &a, &machine, &status);
	if (!a.dir)
		sim_remove_dir_at(AT_FDCWD, dir);
	return r ? r : launch_end_as(status);
}
