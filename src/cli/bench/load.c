/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/now.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"

#define HALF_S 0.5

static volatile sig_atomic_t stopped;

static void load_note_signal(int sig)
{
	stopped = sig;
}

void bench_stop_on_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = load_note_signal};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN); /* a load that ended is met as an error of a write */
}

bool bench_stopped(void)
{
	return stopped;
}

int bench_sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
	return stopped ? -EINTR : 0;
}

void bench_words_add(struct bench_words *words, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (words->n == BENCH_WORDS || vasprintf(&words->word[words->n], fmt, ap) < 0)
		words->incomplete = true;
	else
		words->n++;
	va_end(ap);
	words->word[words->n] = NULL;
}

void bench_words_free(struct bench_words *words)
{
	for (unsigned int i = 0; i < words->n; i++)
		free(words->word[i]);
	words->n = 0;
}

double bench_result_share(const struct bench_result *result, double from_s, double to_s)
{
	unsigned int first = (unsigned int)(from_s / result->bin_s + 0.999);
	unsigned int last = (unsigned int)(to_s / result->bin_s + 0.001);
	double sum = 0;

	if (last > result->nbins)
		last = result->nbins;
	for (unsigned int i = first; i < last; i++)
		sum += result->bin[i];
	return last > first ? sum / (last - first) : 0;
}

static double load_sum_shares(const struct bench_result *result, unsigned int n, double from_s,
			      double to_s)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += bench_result_share(&result[i], from_s, to_s);
	return sum;
}

void bench_result_interval(const struct bench_result *result, unsigned int n, double from_s,
			   double to_s, double alone, struct bench_interval *ret)
{
	double value = load_sum_shares(result, n, from_s, to_s) / alone, width = result->bin_s;

	*ret = (struct bench_interval){value, value, value};
	for (double at = from_s; width > 0 && at + HALF_S <= to_s + width / 2; at += width)
		bench_interval_set(ret, load_sum_shares(result, n, at, at + HALF_S) / alone);
	ret->value = value;
}

/*
 * Starts the command with these descriptors as its input and output; -1 keeps ours. Returns its
 * pid, or -errno after a message.
 */
static pid_t load_spawn(const struct bench_words *words, int in, int out)
{
	pid_t parent = getpid(), pid;

	if (words->incomplete)
		return say_error("no memory for a command line"), -ENOMEM;
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		int r = err_errno();

		return say_fail(r, "cannot start \"%s\": %s", words->word[0], say_errno(-r));
	}
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_ALLOT);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	if (out >= 0)
		dup2(out, STDOUT_FILENO);
	execv(words->word[0], words->word);
	say_error("cannot run \"%s\": %s", words->word[0], say_errno(errno));
	_exit(EXIT_ALLOT);
}

static int load_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		say_error("a load was killed: where allotd ends what is in no tenant (--outside), root "
			  "alone measures");
	return status ? -EIO : 0;
}

/* The next line, of whatever length; NULL at the end. */
static char *load_read_line(FILE *from)
{
	char *line = NULL;
	size_t size = 0;

	if (getline(&line, &size, from) < 0) {
		free(line);
		return NULL;
	}
	return line;
}

int bench_load_open(struct bench_load *ret, const struct bench_words *words)
{
	struct bench_load load;
	int to[2], from[2];
	char *line;

	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
		int r = err_errno();

		return say_fail(r, "cannot make a pipe: %s", say_errno(-r));
	}
	load.pid = load_spawn(words, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	load.to = fdopen(to[1], "w");
	load.from = fdopen(from[0], "r");
	if (load.pid < 0)
		return load.pid;
	if (!load.to || !load.from)
		return -ENOMEM;
	line = load_read_line(load.from);
	if (line) {
		free(line);
		*ret = load;
		return 0;
	}
	bench_load_close(&load, NULL);
	if (!stopped)
		say_error("a load could not start (see above); \"allot doctor\" says what is wrong "
			  "with this machine");
	return -EIO;
}

int bench_load_go(struct bench_load *load, uint64_t at_ns)
{
	if (fprintf(load->to, "%llu\n", (unsigned long long)at_ns) < 0 || fflush(load->to))
		return -EIO;
	return 0;
}

/*
 * The text behind `"name": `, from `at` on; NULL when it is not there. allot-load always writes it
 * so.
 */
static const char *load_find_value(const char *at, const char *name)
{
	char key[64];

	snprintf(key, sizeof(key), "\"%s\": ", name);
	at = at ? strstr(at, key) : NULL;
	return at ? at + strlen(key) : NULL;
}

static double load_read_number(const char *at, const char *name)
{
	at = load_find_value(at, name);
	return at ? strtod(at, NULL) : 0;
}

static void load_read_interval(const char *at, const char *name, struct bench_interval *ret)
{
	char low[32], high[32];

	snprintf(low, sizeof(low), "%s_low", name);
	snprintf(high, sizeof(high), "%s_high", name);
	ret->low = load_read_number(at, low);
	ret->high = load_read_number(at, high);
	bench_interval_set(ret, load_read_number(at, name));
}

static void load_parse_result(const char *line, struct bench_result *ret)
{
	const char *launch = load_find_value(line, "launch_us"),
		   *latency = load_find_value(line, "latency_us");
	const char *bins = load_find_value(line, "bins");
	char *end;

	*ret = (struct bench_result){
		.share = load_read_number(line, "share"),
		.loops_per_us = load_read_number(line, "loops_per_us"),
		.cpu_seconds = load_read_number(line, "cpu_seconds"),
		.late_ms = load_read_number(line, "late_ms"),
		.launch_p50_us = load_read_number(launch, "p50"),
		.launch_p99_us = load_read_number(launch, "p99"),
		.bin_s = load_read_number(line, "bin_ms") / 1e3,
	};
	load_read_interval(latency, "p50", &ret->latency_p50_us);
	load_read_interval(latency, "p99", &ret->latency_p99_us);
	for (bins = bins ? bins + 1 : ""; ret->nbins < BENCH_BINS; bins = end + (*end == ',')) {
		double value = strtod(bins, &end);

		if (end == bins)
			break;
		ret->bin[ret->nbins++] = value;
	}
}

int bench_load_close(struct bench_load *load, struct bench_result *ret)
{
	char *line = NULL;
	int r;

	if (ret)
		line = load_read_line(load->from);
	else
		kill(load->pid, SIGKILL);
	fclose(load->to);
	fclose(load->from);
	r = load_wait(load->pid);
	if (ret && (!line || r < 0)) {
		if (!stopped)
			say_error("a load ended before it could say what it measured");
		r = -EIO;
	}
	if (ret && !r)
		load_parse_result(line, ret);
	free(line);
	return ret ? r : 0;
}

int bench_call(const struct bench_words *words)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t pid = load_spawn(words, -1, null);

	if (null >= 0)
		close(null);
	return pid < 0 ? pid : load_wait(pid);
}
