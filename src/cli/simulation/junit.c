/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulation/junit.h"

#include <inttypes.h>

#include "text/units.h"

/* Within an attribute. The texts are printable already. */
static void junit_put(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
}

static void junit_begin_case(const struct outcome_process *process, const char *name, FILE *out)
{
	fputs("    <testcase classname=\"", out);
	junit_put(out, process->was.command);
	fprintf(out, "\" name=\"%s (process %d)\">\n", name, (int)process->was.pid);
}

static void junit_put_left(const struct outcome_process *process, FILE *out)
{
	struct outcome_left left;
	unsigned int at = 0;

	junit_begin_case(process, "its CUDA memory is freed", out);
	if (outcome_has_left(process)) {
		fputs("      <failure type=\"leak\" message=\"", out);
		for (const char *and = ""; outcome_next_left(process, &at, &left); and = "; ")
			fprintf(out, "%sGPU %u: %s of %s, %s, never freed", and, left.device,
				units_count(left.n, "allocation", "allocations").s, left.call,
				units_bytes(left.bytes).s);
		fputs("\"/>\n", out);
	}
	fputs("    </testcase>\n", out);
}

static void junit_put_faults(const struct outcome_process *process, FILE *out)
{
	const struct sim_report_error *error;
	const char *and = "";
	unsigned int at = 0;

	junit_begin_case(process, "its CUDA calls succeed", out);
	if (outcome_has_faults(process)) {
		fputs("      <failure type=\"error\" message=\"", out);
		while ((error = outcome_next_error(process, &at))) {
			if (!outcome_is_fault(error))
				continue;
			fputs(and, out);
			junit_put(out, error->call);
			fputs(": ", out);
			junit_put(out, error->result);
			fprintf(out, ", %" PRIu64 " time%s", error->n, error->n == 1 ? "" : "s");
			and = "; ";
		}
		if (process->was.more_errors)
			fprintf(out, "%s%" PRIu64 " calls more", and, process->was.more_errors);
		fputs("\"/>\n", out);
	}
	fputs("    </testcase>\n", out);
}

static void junit_put_figures(const struct outcome_process *process, FILE *out)
{
	for (unsigned int d = 0; d < SIM_MAX_DEVICES; d++)
		if (process->was.device[d].peak_bytes)
			fprintf(out, "      <property name=\"peak_bytes.%d.GPU%u\" value=\"%" PRIu64 "\"/>\n",
				(int)process->was.pid, d, process->was.device[d].peak_bytes);
	fprintf(out, "      <property name=\"allocations.%d\" value=\"%" PRIu64 "\"/>\n",
		(int)process->was.pid, outcome_made(process));
}

void junit_write(const struct outcome *outcome, FILE *out)
{
	size_t failures = 0;

	for (size_t i = 0; i < outcome->n; i++)
		failures += (size_t)outcome_has_left(&outcome->process[i]) +
			    (size_t)outcome_has_faults(&outcome->process[i]);
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		"  <testsuite name=\"allot sim\" tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n"
		"    <properties>\n",
		2 * outcome->n, failures);
	for (size_t i = 0; i < outcome->n; i++)
		junit_put_figures(&outcome->process[i], out);
	fputs("    </properties>\n", out);
	for (size_t i = 0; i < outcome->n; i++) {
		junit_put_left(&outcome->process[i], out);
		junit_put_faults(&outcome->process[i], out);
	}
	fputs("  </testsuite>\n</testsuites>\n", out);
}
