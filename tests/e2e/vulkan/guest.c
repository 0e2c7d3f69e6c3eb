/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that takes memory of a GPU by Vulkan, and says what it sees. A line of standard input is a
 * word and numbers; each is answered by a line.
 *
 *	guest loader		by the system's loader, libvulkan.so.1
 *	guest FILE		by itself: it opens the driver's library
 *
 *	devices			how many of NVIDIA's it finds
 *	heaps			size of the largest heap of the device's own, its budget and usage, in MiB
 *	take MIB [TYPE]		"took N", or the error; TYPE is a memory type, 0 where none is said
 *	drop N			"dropped"
 *	storm SEED STEPS	random takes and drops of up to 64 pieces: "holds MIB refused COUNT"
 *	again			the logical device is destroyed, with what it holds, and made anew
 *	fork			a child takes 1 MiB: "child N"
 *	cuda MIB		by CUDA, in a context of its own: "cuda RESULT"
 *	export N		"fd PID NUMBER", of memory that was taken
 *	import PID FD MIB	"took N", of another process's descriptor
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#define MIB    (UINT64_C(1) << 20)
#define PIECES 64

static PFN_vkGetInstanceProcAddr ask;
static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkDeviceMemory piece[PIECES];
static uint64_t piece_mib[PIECES];

#define FIND(name) ((PFN_##name)(void *)find(#name))

static void *find(const char *name)
{
	void *p = (void *)ask(instance, name);

	if (!p) {
		printf("no %s\n", name);
		exit(2);
	}
	return p;
}

static void open_driver(const char *file)
{
	bool own = strcmp(file, "loader") != 0;
	void *library = dlopen(own ? file : "libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library)
		ask = (PFN_vkGetInstanceProcAddr)dlsym(library, own ? "vk_icdGetInstanceProcAddr"
								    : "vkGetInstanceProcAddr");
	if (!ask) {
		printf("no driver: %s\n", dlerror());
		exit(2);
	}
}

static VkResult make_instance(void)
{
	const char *version = getenv("VULKAN_VERSION");
	VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
				 .apiVersion = version && !strcmp(version, "1.0") ? VK_API_VERSION_1_0
										  : VK_API_VERSION_1_1};
	VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
				     .pApplicationInfo = &app};

	return FIND(vkCreateInstance)(&info, NULL, &instance);
}

/* The first of NVIDIA's is used, or of VULKAN_VENDOR's. */
static int find_devices(void)
{
	VkPhysicalDevice all[16];
	const char *other = getenv("VULKAN_VENDOR");
	uint32_t n = 16, vendor = other ? (uint32_t)strtoul(other, NULL, 0) : 0x10de;
	int found = 0;

	physical = NULL;
	if (FIND(vkEnumeratePhysicalDevices)(instance, &n, all) < 0)
		return 0; /* so the system's loader says that there is none */
	for (uint32_t i = 0; i < n; i++) {
		VkPhysicalDeviceProperties properties;

		FIND(vkGetPhysicalDeviceProperties)(all[i], &properties);
		if (properties.vendorID != vendor)
			continue;
		if (!found++)
			physical = all[i];
	}
	return found;
}

static VkResult make_device(void)
{
	const char *shares = VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME;
	float priority = 1;
	VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
					 .queueCount = 1, .pQueuePriorities = &priority};
	VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
				   .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
				   .enabledExtensionCount = 1, .ppEnabledExtensionNames = &shares};

	return FIND(vkCreateDevice)(physical, &info, NULL, &device);
}

static void say_heaps(void)
{
	VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
	VkPhysicalDeviceMemoryProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
						 .pNext = &budget};
	VkPhysicalDeviceMemoryProperties plain;
	uint32_t heap = 0;

	FIND(vkGetPhysicalDeviceMemoryProperties2)(physical, &all);
	FIND(vkGetPhysicalDeviceMemoryProperties)(physical, &plain);
	while (!(plain.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT))
		heap++;
	if (plain.memoryHeaps[heap].size != all.memoryProperties.memoryHeaps[heap].size)
		printf("two sizes\n");
	else
		printf("%llu %llu %llu\n", (unsigned long long)(plain.memoryHeaps[heap].size / MIB),
		       (unsigned long long)(budget.heapBudget[heap] / MIB),
		       (unsigned long long)(budget.heapUsage[heap] / MIB));
}

#define FIND_IN_DEVICE(name) ((PFN_##name)(void *)FIND(vkGetDeviceProcAddr)(device, #name))

static VkResult take_as(int at, uint64_t bytes, uint32_t type, const void *next)
{
	VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = next,
				     .allocationSize = bytes, .memoryTypeIndex = type};

	return FIND_IN_DEVICE(vkAllocateMemory)(device, &info, NULL, &piece[at]);
}

static VkResult take_bytes(int at, uint64_t bytes, uint32_t type)
{
	VkExportMemoryAllocateInfo shared = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
					     .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};

	return take_as(at, bytes, type, &shared);
}

static int unused(void)
{
	int at = 0;

	while (at < PIECES - 1 && piece[at])
		at++;
	return at;
}

static int take(uint64_t mib, uint32_t type)
{
	int at = unused(), r = take_bytes(at, mib * MIB, type);

	piece_mib[at] = r ? 0 : mib;
	return r ? r : at;
}

static void give_descriptor(int at)
{
	VkMemoryGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = piece[at],
				     .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
	int fd = -1, r = FIND_IN_DEVICE(vkGetMemoryFdKHR)(device, &info, &fd);

	if (r)
		printf("error %d\n", r);
	else
		printf("fd %d %d\n", (int)getpid(), fd);
}

/* The very open file description, as if it had come by a socket. */
static int take_from(pid_t pid, int theirs, uint64_t mib)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int fd = (int)syscall(SYS_pidfd_getfd, process, theirs, 0), at = unused(), r;
	VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR, .fd = fd,
					  .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};

	close(process);
	r = take_as(at, mib * MIB, 0, &import);
	if (r)
		close(fd);
	return r ? r : at;
}

static void drop(int at)
{
	FIND(vkFreeMemory)(device, piece[at], NULL);
	piece[at] = NULL;
	piece_mib[at] = 0;
}

static void storm(unsigned int seed, int steps)
{
	uint64_t holds = 0;
	int refused = 0;

	while (steps--) {
		int at = rand_r(&seed) % (PIECES - 1);
		uint64_t mib = 1 + (uint64_t)rand_r(&seed) % 8;

		if (piece[at]) {
			drop(at);
		} else if (take_bytes(at, mib * MIB, 0)) {
			piece[at] = NULL;
			refused++;
		} else {
			piece_mib[at] = mib;
		}
	}
	for (int i = 0; i < PIECES; i++)
		holds += piece_mib[i];
	printf("holds %llu refused %d\n", (unsigned long long)holds, refused);
}

static void again(void)
{
	FIND(vkDestroyDevice)(device, NULL);
	memset(piece, 0, sizeof(piece));
	memset(piece_mib, 0, sizeof(piece_mib));
	printf("again %d\n", make_device());
}

static void fork_one(void)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child)
		_exit(take(1, 0) < 0 ? 3 : 4);
	waitpid(child, &status, 0);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* The few functions of CUDA that this takes, by their types alone. */
static void take_by_cuda(size_t bytes)
{
	static int (*allocate)(unsigned long long *at, size_t bytes);
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
	unsigned long long at;
	int r = 0;

	if (!allocate) {
		r = ((int (*)(unsigned int))dlsym(cuda, "cuInit"))(0);
		if (!r)
			r = ((int (*)(void **, unsigned int, int))dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, 0);
		allocate = (int (*)(unsigned long long *, size_t))dlsym(cuda, "cuMemAlloc_v2");
	}
	printf("cuda %d\n", r ? r : allocate(&at, bytes));
}

static void obey(const char *line)
{
	unsigned long long a = 0, b = 0, c = 0;
	char word[16] = "";
	int r;

	sscanf(line, "%15s %llu %llu %llu", word, &a, &b, &c);
	if (!strcmp(word, "devices")) {
		printf("%d\n", find_devices());
	} else if (!strcmp(word, "heaps")) {
		say_heaps();
	} else if (!strcmp(word, "cuda")) {
		take_by_cuda(a * MIB);
	} else if (!strcmp(word, "export")) {
		give_descriptor((int)a);
	} else if (!strcmp(word, "take") || !strcmp(word, "import")) {
		r = word[0] == 't' ? take(a, (uint32_t)b) : take_from((pid_t)a, (int)b, c);
		printf(r < 0 ? "error %d\n" : "took %d\n", r);
	} else if (!strcmp(word, "drop")) {
		drop((int)a);
		printf("dropped\n");
	} else if (!strcmp(word, "storm")) {
		storm((unsigned int)a, (int)b);
	} else if (!strcmp(word, "again")) {
		again();
	} else if (!strcmp(word, "fork")) {
		fork_one();
	} else {
		printf("what?\n");
	}
}

int main(int argc, char **argv)
{
	char line[100];

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_driver(argc > 1 ? argv[1] : "loader");
	if (make_instance() || (find_devices() && make_device()))
		return 2;
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	if (device)
		FIND(vkDestroyDevice)(device, NULL);
	FIND(vkDestroyInstance)(instance, NULL);
	return 0;
}
