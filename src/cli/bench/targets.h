/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promised accuracy of shares of compute, which `allot bench` prints beside its results.
 * tests/gpu/run holds a device to the same numbers, over longer measurements.
 */
#ifndef ALLOT_CLI_BENCH_TARGETS_H
#define ALLOT_CLI_BENCH_TARGETS_H

/* A tenant alone, in points off its cap: each measurement, all on average, each whole second. */
#define BENCH_CAP_POINTS    1.5
#define BENCH_MEAN_POINTS   1.0
#define BENCH_SECOND_POINTS 3.0

/* Tenants by weight, in points and percent of a load that is alone. */
#define BENCH_WEIGHT_POINTS    2.0
#define BENCH_TOGETHER_PERCENT 97.0

/* A request of high priority beside kernels of 1 and of 0.2 ms: 99 % within, in us. */
#define BENCH_REQUEST_LONG_US	2200.0
#define BENCH_REQUEST_SHORT_US	1700.0
/* One of equal weight: beyond its latency, its own kernel, one of the neighbour's and 1 ms. */
#define BENCH_REQUEST_BEYOND_US 3000.0
#define BENCH_NEIGHBOUR_PERCENT 85.0 /* is left to the neighbour of 1 ms */

/* Of a processor, under a limit, with kernels of 1 ms. */
#define BENCH_PROCESSOR_PERCENT 2.0

/* How much longer a launch of a tenant takes, without and with a limit of compute, in us. */
#define BENCH_LAUNCH_US	 0.020
#define BENCH_LIMITED_US 0.150

#endif
