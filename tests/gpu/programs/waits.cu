/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose progress on the device depends on launches that come later. The program knows
 * nothing of allot; parts/waits.py compiles and steers it: waits WORD LOOPS_PER_US [SECONDS].
 *
 *	calibrate  prints the speed of the kernel `work`
 *	pair       a kernel spins for a kernel of another stream, which is launched later
 *	procs      the kernels of two processes meet at each step
 *	capture    streams wait for events while another stream is captured
 *	cold       a host function is in front of the process's first kernels
 *	graph      graphs wait in their middle for an event and a host function; they are updated
 *	behind     kernels are queued behind a wait that the launching thread ends
 *	blocked    a stream waits until it is told to go on
 *	cost       prints what a call that makes a stream wait takes
 *
 * A program prints a line of JSON, and reads a line before it goes on.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_US 200
#define ALARM_S	  100

/* In ns, by the device's clock, which goes on while another process has the device. */
#define PAIR_GIVES_UP_NS 5000000000ull
#define STEP_GIVES_UP_NS 10000000000ull

#define IN_FLIGHT	 4
#define IN_FLIGHT_PAUSE	 5000 /* us */
#define IN_FLIGHT_ROUNDS 20
#define IN_FLIGHT_S	 2.0

#define STEPS	     100
#define STEP_US	     500
#define SHARED_BYTES (4u << 20) /* an allocation of its own, as IPC needs */
#define FLAG_STRIDE  64

#define CAPTURES	10
#define CAPTURE_WAITS	20
#define CAPTURE_WORK_US 2000

#define COLD_NAP_US	1000000
#define COLD_KERNELS	3
#define GRAPH_ROUNDS	10 /* of each kind */
#define GRAPH_NAP_US	30000
#define LAUNCH_MOST_MS	5000 /* launches of a round; the gate is opened then */
#define BLOCKED_KERNELS 20
#define COST_BATCHES	200
#define COST_CALLS	32
#define COST_KERNEL_US	2

enum { A, B, C, D, STREAMS };

static cudaStream_t stream[STREAMS];
static double loops_per_us;
static decltype(&cuStreamWaitValue32) stream_wait_value;

struct spun {
	unsigned long long from_ns, to_ns;
};

/* Pinned memory, which the device writes and waits for. */
struct page {
	unsigned gate, gave_up;
	struct spun spun[IN_FLIGHT];
};

static struct page *page;
static unsigned *flag, *sink; /* on the device */

/* --- Kernels ---------------------------------------------------------------------------------- */

static __device__ unsigned long long device_ns()
{
	unsigned long long ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* Takes a fixed amount of work, whoever else has the device meanwhile. */
__global__ void work(unsigned long long loops, unsigned *out)
{
	float x = (float)threadIdx.x;

	for (unsigned long long i = 0; i < loops; i++)
		x = fmaf(x, 0.9999f, 0.5f);
	if (x < 0)
		*out = 1;
}

/* Once one has given up, nobody spins. */
static __device__ void spin_for(volatile unsigned *word, unsigned want, volatile unsigned *gave_up,
				unsigned long long most_ns)
{
	unsigned long long from_ns = device_ns();

	if (*gave_up)
		return;
	while (*word < want)
		if (device_ns() - from_ns > most_ns) {
			*gave_up = 1;
			break;
		}
}

__global__ void wait_for(volatile unsigned *word, unsigned want, volatile struct spun *spun,
			 volatile unsigned *gave_up)
{
	unsigned long long from_ns = device_ns();

	spin_for(word, want, gave_up, PAIR_GIVES_UP_NS);
	spun->from_ns = from_ns;
	spun->to_ns = device_ns();
	__threadfence_system();
}

__global__ void give(volatile unsigned *word, unsigned value)
{
	*word = value;
	__threadfence_system();
}

__global__ void meet(volatile unsigned *own, volatile unsigned *other, unsigned step,
		     volatile unsigned *gave_up)
{
	*own = step;
	__threadfence_system();
	spin_for(other, step, gave_up, STEP_GIVES_UP_NS);
}

/* --- What all words share --------------------------------------------------------------------- */

[[noreturn]] static void fail(const char *what, int code)
{
	printf("{\"stage\": \"error\", \"what\": \"%s\", \"code\": %d}\n", what, code);
	fflush(stdout);
	_exit(1);
}

static void must(cudaError_t e, const char *what)
{
	if (e)
		fail(what, (int)e);
}
#define MUST(call) must(call, #call)

static double now_ms()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Returns the next line of the harness without its end. The program ends with its input. */
static const char *told()
{
	static char line[64];

	if (!fgets(line, sizeof(line), stdin))
		_exit(0);
	line[strcspn(line, "\n")] = 0;
	return line;
}

static const char *ready()
{
	printf("{\"stage\": \"ready\"}\n");
	return told();
}

static double percentile(std::vector<double> values, double part)
{
	if (values.empty())
		return 0;
	std::sort(values.begin(), values.end());
	return values[std::min(values.size() - 1, (size_t)(part * (double)values.size()))];
}

/* Prints a member of a JSON object: the median, the 99th percentile and the largest value. */
static void print_spread(const char *name, const std::vector<double> &values)
{
	printf(", \"%s\": [%.3f, %.3f, %.3f]", name, percentile(values, 0.5),
	       percentile(values, 0.99), percentile(values, 1));
}

static void launch_work(cudaStream_t s, double us)
{
	work<<<1, 32, 0, s>>>((unsigned long long)(us * loops_per_us), sink);
	MUST(cudaGetLastError());
}

static void launch_wait(unsigned want, struct spun *spun)
{
	wait_for<<<1, 1, 0, stream[A]>>>(flag, want, spun, &page->gave_up);
	MUST(cudaGetLastError());
}

static void launch_give(unsigned value)
{
	give<<<1, 1, 0, stream[B]>>>(flag, value);
	MUST(cudaGetLastError());
}

static void set_gate(unsigned value)
{
	*(volatile unsigned *)&page->gate = value;
	__sync_synchronize();
}

/* Launches no kernel: a flag is cleared by a copy. */
static void open_device()
{
	const unsigned zero = 0;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	for (int i = 0; i < STREAMS; i++)
		MUST(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
	MUST(cudaHostAlloc((void **)&page, sizeof(*page), cudaHostAllocMapped));
	memset(page, 0, sizeof(*page));
	MUST(cudaMalloc((void **)&sink, sizeof(*sink)));
	MUST(cudaMalloc((void **)&flag, SHARED_BYTES));
	MUST(cudaMemcpy(flag, &zero, sizeof(zero), cudaMemcpyHostToDevice));
	MUST(cudaMemcpy(flag + FLAG_STRIDE, &zero, sizeof(zero), cudaMemcpyHostToDevice));
	if (driver)
		stream_wait_value =
			(decltype(stream_wait_value))dlsym(driver, "cuStreamWaitValue32_v2");
	if (!stream_wait_value)
		fail("no cuStreamWaitValue32_v2", -1);
}

/* Runs each kernel once: to load one needs an idle device. */
static void warm()
{
	launch_work(stream[A], 1);
	launch_give(0);
	launch_wait(0, page->spun);
	meet<<<1, 1, 0, stream[A]>>>(flag, flag + FLAG_STRIDE, 0, &page->gave_up);
	MUST(cudaGetLastError());
	MUST(cudaDeviceSynchronize());
	for (int i = 0; i < STREAMS; i++) {
		for (int k = 0; k < 10; k++)
			launch_work(stream[i], KERNEL_US);
		MUST(cudaStreamSynchronize(stream[i]));
	}
}

static void wait_for_word(cudaStream_t s, unsigned value)
{
	CUdeviceptr word = (CUdeviceptr)(uintptr_t)&page->gate;
	CUresult e = stream_wait_value((CUstream)s, word, value, CU_STREAM_WAIT_VALUE_GEQ);

	if (e)
		fail("cuStreamWaitValue32", (int)e);
}

/* --- calibrate -------------------------------------------------------------------------------- */

/* Returns how long a kernel of so many loops takes, in us, in a row of them. */
static double kernel_us(double loops)
{
	const int count = 50;
	cudaEvent_t from, to;
	float ms;

	MUST(cudaEventCreate(&from));
	MUST(cudaEventCreate(&to));
	loops_per_us = loops;
	launch_work(stream[A], 1); /* the device is busy while the row is launched */
	MUST(cudaEventRecord(from, stream[A]));
	for (int i = 0; i < count; i++)
		launch_work(stream[A], 1);
	MUST(cudaEventRecord(to, stream[A]));
	MUST(cudaStreamSynchronize(stream[A]));
	MUST(cudaEventElapsedTime(&ms, from, to));
	return ms * 1e3 / count;
}

static void calibrate()
{
	double loops = 100000, speed;

	loops_per_us = 100;
	warm();
	for (int i = 0; i < 20; i++) /* until the clock is at its full speed */
		speed = loops / kernel_us(loops);
	loops = speed * KERNEL_US;
	speed = loops / kernel_us(loops);
	printf("{\"stage\": \"calibrated\", \"loops_per_us\": %.6f, \"kernel_us\": %.3f}\n", speed,
	       kernel_us(speed * KERNEL_US));
}

/* --- pair ------------------------------------------------------------------------------------- */

/*
 * In ms, of each pair or round: what its kernels spun on the device, what it took the host, both
 * without the pause, and for how long the launch of the waiter was held.
 */
struct pairs {
	unsigned n;
	std::vector<double> spun, whole, held;
};

static double spun_ms(const struct spun *first, const struct spun *last)
{
	return (double)(last->to_ns - first->from_ns) / 1e6;
}

static double pause_for(unsigned us)
{
	double from_ms = now_ms();

	if (us)
		usleep(us);
	return us ? now_ms() - from_ms : 0;
}

static void one_pair(struct pairs *p, unsigned pause_us)
{
	double from_ms = now_ms(), launched_ms, pause_ms;

	launch_wait(++p->n, page->spun);
	launched_ms = now_ms();
	pause_ms = pause_for(pause_us);
	launch_give(p->n);
	MUST(cudaStreamSynchronize(stream[A]));
	p->whole.push_back(now_ms() - from_ms - pause_ms);
	p->held.push_back(launched_ms - from_ms);
	p->spun.push_back(std::max(0.0, spun_ms(page->spun, page->spun) - pause_ms));
}

/* Several kernels wait, of which one runs; another thread gives to all of them. */
static void several(struct pairs *p)
{
	double from_ms = now_ms(), pause_ms = 0;

	for (int i = 0; i < IN_FLIGHT; i++)
		launch_wait(p->n + 1 + i, &page->spun[i]);
	p->held.push_back(now_ms() - from_ms);
	std::thread giver([&] {
		MUST(cudaSetDevice(0));
		pause_ms = pause_for(IN_FLIGHT_PAUSE);
		for (int i = 0; i < IN_FLIGHT; i++)
			launch_give(p->n + 1 + i);
	});
	giver.join();
	MUST(cudaStreamSynchronize(stream[A]));
	p->n += IN_FLIGHT;
	p->whole.push_back(now_ms() - from_ms - pause_ms);
	p->spun.push_back(
		std::max(0.0, spun_ms(page->spun, &page->spun[IN_FLIGHT - 1]) - pause_ms));
}

static void pair(double seconds)
{
	static const unsigned pauses_us[] = {0, 3000, 30000};
	struct pairs p = {}, many = {};
	std::vector<double> by_pause[3];
	double from_ms;

	warm();
	ready();
	from_ms = now_ms();
	for (int i = 0; now_ms() - from_ms < seconds * 1e3 && !page->gave_up; i++) {
		one_pair(&p, pauses_us[i % 3]);
		by_pause[i % 3].push_back(p.spun.back());
	}
	many.n = p.n;
	from_ms = now_ms();
	for (int i = 0; i < IN_FLIGHT_ROUNDS && !page->gave_up; i++) {
		if (now_ms() - from_ms > IN_FLIGHT_S * 1e3)
			break;
		several(&many);
	}
	MUST(cudaDeviceSynchronize());
	printf("{\"stage\": \"paired\", \"pairs\": %zu, \"rounds\": %zu, \"gave_up\": %u",
	       p.whole.size(), many.whole.size(), page->gave_up);
	print_spread("spun_ms", p.spun);
	print_spread("whole_ms", p.whole);
	print_spread("held_ms", p.held);
	print_spread("no_pause_ms", by_pause[0]);
	print_spread("short_pause_ms", by_pause[1]);
	print_spread("long_pause_ms", by_pause[2]);
	print_spread("round_spun_ms", many.spun);
	print_spread("round_whole_ms", many.whole);
	print_spread("round_held_ms", many.held);
	printf("}\n");
}

/* --- procs ------------------------------------------------------------------------------------ */

static void send_bytes(int fd, const void *data, size_t bytes)
{
	if (write(fd, data, bytes) != (ssize_t)bytes)
		fail("write to the other process", -1);
}

/* Does not return if the other process is gone. */
static void receive_bytes(int fd, void *data, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t n = read(fd, (char *)data + got, bytes - got);

		if (n <= 0)
			fail("read from the other process", -1);
		got += (size_t)n;
	}
}

/* Returns how long each step took. */
static std::vector<double> steps(unsigned *own, unsigned *other)
{
	std::vector<double> ms;

	for (unsigned i = 1; i <= STEPS && !page->gave_up; i++) {
		double from_ms = now_ms();

		launch_work(stream[A], STEP_US);
		meet<<<1, 1, 0, stream[A]>>>(own, other, i, &page->gave_up);
		MUST(cudaGetLastError());
		MUST(cudaStreamSynchronize(stream[A]));
		ms.push_back(now_ms() - from_ms);
	}
	return ms;
}

static void procs_other(int in, int out)
{
	cudaIpcMemHandle_t handle;
	void *flags;
	char c = 0;

	warm();
	receive_bytes(in, &handle, sizeof(handle));
	MUST(cudaIpcOpenMemHandle(&flags, handle, cudaIpcMemLazyEnablePeerAccess));
	send_bytes(out, &c, 1);
	receive_bytes(in, &c, 1);
	steps((unsigned *)flags + FLAG_STRIDE, (unsigned *)flags);
	c = (char)page->gave_up;
	MUST(cudaIpcCloseMemHandle(flags));
	send_bytes(out, &c, 1);
	_exit(0);
}

/* Starts the other process, which is none of CUDA's yet. Its ends of the pipes are its arguments.
 */
static void start_other(char **argv, int *in, int *out)
{
	int down[2], up[2];
	char from[16], to[16], name[] = "procs-other";

	if (pipe(down) || pipe(up))
		fail("pipe", -1);
	snprintf(from, sizeof(from), "%d", down[0]);
	snprintf(to, sizeof(to), "%d", up[1]);
	pid_t pid = fork();
	if (pid < 0)
		fail("fork", -1);
	if (!pid) {
		char *args[] = {argv[0], name, argv[2], from, to, NULL};

		close(down[1]);
		close(up[0]);
		execv("/proc/self/exe", args);
		_exit(1);
	}
	close(down[0]);
	close(up[1]);
	*in = up[0];
	*out = down[1];
}

static void procs(int in, int out)
{
	cudaIpcMemHandle_t handle;
	std::vector<double> ms;
	double from_ms, total_ms;
	char c = 0;

	warm();
	MUST(cudaIpcGetMemHandle(&handle, flag));
	send_bytes(out, &handle, sizeof(handle));
	receive_bytes(in, &c, 1);
	ready();
	send_bytes(out, &c, 1);
	from_ms = now_ms();
	ms = steps(flag, flag + FLAG_STRIDE);
	total_ms = now_ms() - from_ms;
	receive_bytes(in, &c, 1);
	printf("{\"stage\": \"met\", \"steps\": %zu, \"total_ms\": %.3f, \"gave_up\": %d",
	       ms.size(), total_ms, page->gave_up || c);
	print_spread("step_ms", ms);
	printf("}\n");
}

/* --- capture ---------------------------------------------------------------------------------- */

static std::atomic<int> refused, round_wanted, round_done;
static char first_refused[160];

/* Notes a call that failed. */
static void note(cudaError_t e, const char *mode, const char *what)
{
	if (!e)
		return;
	cudaGetLastError();
	if (!refused++)
		snprintf(first_refused, sizeof(first_refused), "%s, %s: %s", mode, what,
			 cudaGetErrorName(e));
}

/* Waits of other streams, in each round for which the capturing thread asks. */
static void wait_beside(int rounds)
{
	cudaEvent_t event;

	MUST(cudaSetDevice(0));
	MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (int i = 1; i <= rounds; i++) {
		while (round_wanted < i)
			usleep(50);
		for (int k = 0; k < CAPTURE_WAITS; k++) {
			work<<<1, 32, 0, stream[B]>>>((unsigned long long)loops_per_us, sink);
			note(cudaGetLastError(), "other thread", "launch");
			note(cudaEventRecord(event, stream[B]), "other thread", "record");
			note(cudaStreamWaitEvent(stream[A], event, 0), "other thread", "wait");
		}
		round_done = i;
	}
}

static void capture_once(const char *name, cudaStreamCaptureMode mode, cudaEvent_t *event)
{
	cudaEvent_t outside = event[0], there = event[1], back = event[2];
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec;

	launch_work(stream[A], CAPTURE_WORK_US);
	MUST(cudaEventRecord(outside, stream[A]));
	note(cudaStreamBeginCapture(stream[C], mode), name, "begin");
	round_wanted++;
	work<<<1, 32, 0, stream[C]>>>((unsigned long long)loops_per_us, sink);
	note(cudaGetLastError(), name, "launch");
	note(cudaStreamWaitEvent(stream[C], outside, cudaEventWaitExternal), name, "node");
	note(cudaStreamWaitEvent(stream[B], outside, 0), name, "wait of another stream");
	note(cudaEventRecord(there, stream[C]), name, "record");
	note(cudaStreamWaitEvent(stream[D], there, 0), name, "wait of a stream that joins");
	work<<<1, 32, 0, stream[D]>>>((unsigned long long)loops_per_us, sink);
	note(cudaGetLastError(), name, "launch of a stream that joined");
	note(cudaEventRecord(back, stream[D]), name, "record of a stream that joined");
	note(cudaStreamWaitEvent(stream[C], back, 0), name, "wait for a stream that joined");
	while (round_done < round_wanted)
		usleep(50);
	note(cudaStreamEndCapture(stream[C], &graph), name, "end");
	if (graph) {
		cudaError_t e = cudaGraphInstantiate(&exec, graph, 0);

		note(e, name, "instantiate");
		if (!e) {
			note(cudaGraphLaunch(exec, stream[C]), name, "launch of the graph");
			note(cudaStreamSynchronize(stream[C]), name, "graph");
			cudaGraphExecDestroy(exec);
		}
		cudaGraphDestroy(graph);
	}
	note(cudaDeviceSynchronize(), name, "synchronize");
}

static void capture()
{
	static const struct {
		const char *name;
		cudaStreamCaptureMode mode;
	} modes[] = {{"global", cudaStreamCaptureModeGlobal},
		     {"thread-local", cudaStreamCaptureModeThreadLocal}};
	const int rounds = CAPTURES * 2;
	cudaEvent_t event[3];
	double from_ms;

	warm();
	for (cudaEvent_t &e : event)
		MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	/* The first round is none of a capture: it has the thread ready. */
	std::thread other(wait_beside, rounds + 1);
	round_wanted = 1;
	while (round_done < 1)
		usleep(50);
	MUST(cudaDeviceSynchronize());
	ready();
	from_ms = now_ms();
	for (const auto &m : modes)
		for (int i = 0; i < CAPTURES; i++)
			capture_once(m.name, m.mode, event);
	other.join();
	printf("{\"stage\": \"captured\", \"captures\": %d, \"ms\": %.3f, \"refused\": %d, "
	       "\"first\": \"%s\"}\n",
	       rounds, now_ms() - from_ms, refused.load(), first_refused);
}

/* --- cold ------------------------------------------------------------------------------------- */

static void CUDART_CB nap(void *us)
{
	usleep((useconds_t)(uintptr_t)us);
}

static void cold()
{
	double from_ms, waited_ms;

	ready();
	from_ms = now_ms();
	MUST(cudaLaunchHostFunc(stream[A], nap, (void *)COLD_NAP_US));
	for (int i = 0; i < COLD_KERNELS; i++)
		launch_work(stream[A], KERNEL_US);
	MUST(cudaStreamSynchronize(stream[A]));
	waited_ms = now_ms();
	launch_work(stream[A], KERNEL_US);
	MUST(cudaStreamSynchronize(stream[A]));
	printf("{\"stage\": \"done\", \"kernels\": %d, \"waited_ms\": %.3f, \"next_ms\": %.3f}\n",
	       COLD_KERNELS + 1, waited_ms - from_ms, now_ms() - waited_ms);
}

/* --- graph ------------------------------------------------------------------------------------ */

/* A kernel, a wait for what is recorded outside of the graph or for a host function, a kernel. */
static cudaGraph_t graph_that_waits(cudaEvent_t event)
{
	cudaGraph_t graph;

	MUST(cudaStreamBeginCapture(stream[C], cudaStreamCaptureModeThreadLocal));
	launch_work(stream[C], KERNEL_US);
	if (event)
		MUST(cudaStreamWaitEvent(stream[C], event, cudaEventWaitExternal));
	else
		MUST(cudaLaunchHostFunc(stream[C], nap, (void *)GRAPH_NAP_US));
	launch_work(stream[C], KERNEL_US);
	MUST(cudaStreamEndCapture(stream[C], &graph));
	return graph;
}

static cudaGraphNode_t graph_middle(cudaGraph_t graph, cudaGraphNodeType is)
{
	cudaGraphNode_t node[8];
	cudaGraphNodeType type;
	size_t n = 8, edges = 0;

	MUST(cudaGraphGetNodes(graph, node, &n));
#if CUDART_VERSION >= 13000
	MUST(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
#else
	MUST(cudaGraphGetEdges(graph, NULL, NULL, &edges));
#endif
	if (n != 3 || edges != 2)
		fail("the graph is not as it was captured", (int)n);
	for (size_t i = 0; i < n; i++) {
		MUST(cudaGraphNodeGetType(node[i], &type));
		if (type == is)
			return node[i];
	}
	fail("the graph's wait is gone", (int)n);
}

static void graph_launch(cudaGraphExec_t exec, cudaEvent_t event)
{
	static unsigned round;

	if (event) {
		wait_for_word(stream[B], ++round);
		MUST(cudaEventRecord(event, stream[B]));
	}
	MUST(cudaGraphLaunch(exec, stream[A]));
	if (event) {
		usleep(GRAPH_NAP_US);
		set_gate(round);
	}
}

static void graph_update(cudaGraphExec_t exec, cudaGraph_t graph)
{
	cudaGraphExecUpdateResultInfo info;

	MUST(cudaGraphExecUpdate(exec, graph, &info));
	if (info.result != cudaGraphExecUpdateSuccess)
		fail("cudaGraphExecUpdate", (int)info.result);
}

/* Answers how many kernels ran. */
static int graph_rounds(cudaEvent_t first, cudaEvent_t second)
{
	cudaGraphNodeType type = first ? cudaGraphNodeTypeWaitEvent : cudaGraphNodeTypeHost;
	cudaGraph_t graph = graph_that_waits(first), other = graph_that_waits(second);
	cudaGraphNode_t middle = graph_middle(graph, type);
	cudaGraphExec_t exec;

	MUST(cudaGraphInstantiate(&exec, graph, 0));
	graph_middle(graph, type);
	for (int i = 0; i < GRAPH_ROUNDS; i++) {
		graph_launch(exec, first);
		MUST(cudaStreamSynchronize(stream[A]));
	}
	if (first) {
		MUST(cudaGraphExecEventWaitNodeSetEvent(exec, middle, second));
		graph_launch(exec, second);
		MUST(cudaStreamSynchronize(stream[A]));
	}
	/* A host function that comes with an update is not seen: what that takes is billed. */
	if (first) {
		graph_update(exec, other);
		graph_middle(other, type);
		graph_launch(exec, second);
		MUST(cudaStreamSynchronize(stream[A]));
		graph_update(exec, graph);
	}
	MUST(cudaGraphDestroy(other));
	graph_launch(exec, first);
	/* It runs still. */
	MUST(cudaGraphExecDestroy(exec));
	MUST(cudaGraphDestroy(graph));
	MUST(cudaStreamSynchronize(stream[A]));
	return 2 * (GRAPH_ROUNDS + (first ? 3 : 1));
}

static void graph()
{
	cudaEvent_t event[2];
	double from_ms;
	int kernels;

	for (int i = 0; i < 2; i++)
		MUST(cudaEventCreateWithFlags(&event[i], cudaEventDisableTiming));
	ready();
	from_ms = now_ms();
	kernels = graph_rounds(event[0], event[1]);
	printf("{\"stage\": \"event\", \"kernels\": %d, \"ms\": %.3f}\n", kernels,
	       now_ms() - from_ms);
	while (getchar() != '\n')
		;
	from_ms = now_ms();
	kernels = graph_rounds(NULL, NULL);
	printf("{\"stage\": \"host\", \"kernels\": %d, \"ms\": %.3f}\n", kernels,
	       now_ms() - from_ms);
}

/* --- behind ----------------------------------------------------------------------------------- */

static void CUDART_CB wait_for_gate(void *)
{
	while (!*(volatile unsigned *)&page->gate)
		usleep(50);
}

/* Prints how long the launches took, and from the opening of the gate to the end of the work. */
static void behind_once(const char *way, int count, cudaEvent_t *event)
{
	double from_ms, launched_ms;
	int n = 0;
	float device_ms = 0;

	set_gate(0);
	from_ms = now_ms();
	if (!strcmp(way, "host"))
		MUST(cudaLaunchHostFunc(stream[A], wait_for_gate, NULL));
	else
		wait_for_word(stream[A], 1);
	if (event)
		MUST(cudaEventRecord(event[0], stream[A]));
	for (; n < count && now_ms() - from_ms < LAUNCH_MOST_MS; n++)
		launch_work(stream[A], KERNEL_US);
	if (event)
		MUST(cudaEventRecord(event[1], stream[A]));
	launched_ms = now_ms();
	set_gate(1);
	MUST(cudaStreamSynchronize(stream[A]));
	printf("{\"stage\": \"round\", \"launched\": %d, \"launch_ms\": %.3f, \"done_ms\": %.3f", n,
	       launched_ms - from_ms, now_ms() - launched_ms);
	if (event) {
		MUST(cudaEventElapsedTime(&device_ms, event[0], event[1]));
		printf(", \"device_ms\": %.3f", device_ms);
	}
	printf("}\n");
}

/* Each line has a way, a number of kernels, and 1 if events measure them. */
static void behind()
{
	cudaEvent_t event[2];

	warm();
	for (cudaEvent_t &e : event)
		MUST(cudaEventCreate(&e));
	for (const char *line = ready();; line = told()) {
		char way[16];
		int count, timed;

		if (sscanf(line, "%15s %d %d", way, &count, &timed) != 3)
			fail("a line that it does not know", -1);
		behind_once(way, count, timed ? event : NULL);
	}
}

/* --- blocked ---------------------------------------------------------------------------------- */

static void blocked()
{
	double from_ms, launch_ms;

	warm();
	ready();
	from_ms = now_ms();
	wait_for_word(stream[A], 1);
	for (int i = 0; i < BLOCKED_KERNELS; i++)
		launch_work(stream[A], KERNEL_US);
	launch_ms = now_ms() - from_ms;
	printf("{\"stage\": \"waiting\"}\n");
	told();
	from_ms = now_ms();
	set_gate(1);
	MUST(cudaStreamSynchronize(stream[A]));
	printf("{\"stage\": \"opened\", \"kernels\": %d, \"launch_ms\": %.3f, \"done_ms\": %.3f}\n",
	       BLOCKED_KERNELS, launch_ms, now_ms() - from_ms);
}

/* --- cost ------------------------------------------------------------------------------------- */

static void CUDART_CB nothing(void *)
{
}

/* Prints the medians over batches of what a call behind a launch takes, and that launch itself. */
static void cost_of(const char *name, const std::function<void()> &call)
{
	std::vector<double> calls, launches;

	for (int i = 0; i < COST_BATCHES; i++) {
		double call_ms = 0, launch_ms = 0;

		for (int k = 0; k < COST_CALLS; k++) {
			double from_ms = now_ms(), launched_ms;

			launch_work(stream[A], COST_KERNEL_US);
			launched_ms = now_ms();
			call();
			call_ms += now_ms() - launched_ms;
			launch_ms += launched_ms - from_ms;
		}
		MUST(cudaStreamSynchronize(stream[A]));
		calls.push_back(call_ms * 1e6 / COST_CALLS);
		launches.push_back(launch_ms * 1e6 / COST_CALLS);
	}
	printf(", \"%s\": [%.0f, %.0f]", name, percentile(calls, 0.5), percentile(launches, 0.5));
}

static void cost()
{
	cudaEvent_t other, own;

	warm();
	MUST(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
	MUST(cudaEventCreateWithFlags(&own, cudaEventDisableTiming));
	MUST(cudaEventRecord(other, stream[B]));
	MUST(cudaDeviceSynchronize());
	set_gate(1);
	ready();
	printf("{\"stage\": \"costs\"");
	cost_of("nothing", [] {});
	cost_of("wait event", [=] { MUST(cudaStreamWaitEvent(stream[A], other, 0)); });
	cost_of("record", [=] { MUST(cudaEventRecord(own, stream[A])); });
	cost_of("host function", [] { MUST(cudaLaunchHostFunc(stream[A], nothing, NULL)); });
	cost_of("wait word", [] { wait_for_word(stream[A], 1); });
	printf("}\n");
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	int in = -1, out = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(ALARM_S);
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* A kernel is not loaded while another one spins for it. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	if (argc > 2)
		loops_per_us = atof(argv[2]);
	if (!strcmp(word, "procs") && argc > 2)
		start_other(argv, &in, &out);
	open_device();
	if (!strcmp(word, "calibrate"))
		calibrate();
	else if (!strcmp(word, "pair") && argc > 3)
		pair(atof(argv[3]));
	else if (!strcmp(word, "procs"))
		procs(in, out);
	else if (!strcmp(word, "procs-other") && argc > 4)
		procs_other(atoi(argv[3]), atoi(argv[4]));
	else if (!strcmp(word, "capture"))
		capture();
	else if (!strcmp(word, "cold"))
		cold();
	else if (!strcmp(word, "graph"))
		graph();
	else if (!strcmp(word, "behind"))
		behind();
	else if (!strcmp(word, "blocked"))
		blocked();
	else if (!strcmp(word, "cost"))
		cost();
	else
		fail("no such word", -1);
	while (getchar() != EOF)
		;
	fflush(stdout);
	_exit(0);
}
