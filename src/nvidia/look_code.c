/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/look_code.h"

/*
 * Four steps at once: a thread has four loads under way, of 16 bytes, so that the memory is what
 * limits it. Numbers of registers: %w<step><word>, %k<word of the key, of this round>.
 */
#define LOAD(n, offset)                                                                            \
	"	ld.global.v4.u32 {%w" n "0, %w" n "1, %w" n "2, %w" n "3}, [%at+" offset "];\n"

#define KEY4(offset, a, b, c, d)                                                                   \
	"	ld.shared.v4.u32 {%k" a ", %k" b ", %k" c ", %k" d "}, [%key+" offset "];\n"

/* sum += (u + a) * (v + b) */
#define PAIR(sum, u, a, v, b)                                                                      \
	"	add.u32 %u, %w" u ", %k" a ";\n"                                                   \
	"	add.u32 %v, %w" v ", %k" b ";\n"                                                   \
	"	mad.wide.u32 " sum ", %u, %v, " sum ";\n"

#define DIFFER(w)                                                                                  \
	"	xor.b32 %u, %w" w ", %word;\n"                                                     \
	"	or.b32 %differs, %differs, %u;\n"

/* a to f: the words of the key from that of the step on. */
#define STEP(n, a, b, c, d, e, f)                                                                  \
	PAIR("%sum0", n "0", a, n "1", b)                                                          \
	PAIR("%sum0", n "2", c, n "3", d)                                                          \
	PAIR("%sum1", n "0", c, n "1", d)                                                          \
	PAIR("%sum1", n "2", e, n "3", f)                                                          \
	DIFFER(n "0") DIFFER(n "1") DIFFER(n "2") DIFFER(n "3")

/* From the sum of a thread to its part of the hash. */
#define FOLD(sum, a, b)                                                                            \
	"	mov.b64 {%u, %v}, " sum ";\n"                                                      \
	"	add.u32 %u, %u, %s" a ";\n"                                                        \
	"	add.u32 %v, %v, %s" b ";\n"                                                        \
	"	mul.wide.u32 " sum ", %u, %v;\n"

/* Adds what the thread that is %half further on has. */
#define GATHER(array, sum)                                                                         \
	"	mad.wide.u32 %other, %i, 8, " array ";\n"                                          \
	"	ld.shared.u64 %more, [%other];\n"                                                  \
	"	add.u64 " sum ", " sum ", %more;\n"

#define SHOW(array, sum)                                                                           \
	"	mad.wide.u32 %own, %t, 8, " array ";\n"                                            \
	"	st.shared.u64 [%own], " sum ";\n"

/* Words of the key from there on, for all threads of the block. */
#define FETCH(offset)                                                                              \
	"	ld.global.v4.u32 {%k0, %k1, %k2, %k3}, [%other+" offset "];\n"                     \
	"	st.shared.v4.u32 [%own+" offset "], {%k0, %k1, %k2, %k3};\n"

const char look_code[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry " LOOK_NAME "(.param .u64 granules, .param .u64 seen, .param .u64 key, "
	".param .u32 n)\n"
	".maxntid 256, 1, 1\n"
	"{\n"
	"	.reg .pred %is;\n"
	"	.reg .b32 %t, %g, %n, %blocks, %word, %differs, %u, %v, %i, %half;\n"
	"	.reg .b32 %w00, %w01, %w02, %w03, %w10, %w11, %w12, %w13;\n"
	"	.reg .b32 %w20, %w21, %w22, %w23, %w30, %w31, %w32, %w33;\n"
	"	.reg .b32 %k0, %k1, %k2, %k3, %k4, %k5, %k6, %k7, %k8, %k9;\n"
	"	.reg .b32 %k10, %k11, %k12, %k13, %k14, %k15, %k16, %k17, %s0, %s1, %s2, %s3;\n"
	"	.reg .b64 %granules, %seen, %at, %key, %sum0, %sum1, %bits, %own, %other, %more;\n"
	"	.reg .b64 %words, %sums0, %sums1, %sums2;\n"
	"	.shared .align 16 .b32 words[2052];\n"
	"	.shared .align 8 .b64 sums0[256];\n"
	"	.shared .align 8 .b64 sums1[256];\n"
	"	.shared .align 8 .b64 sums2[256];\n"
	"	mov.u64 %words, words;\n"
	"	mov.u64 %sums0, sums0;\n"
	"	mov.u64 %sums1, sums1;\n"
	"	mov.u64 %sums2, sums2;\n"
	"	mov.u32 %t, %tid.x;\n"
	"	mov.u32 %g, %ctaid.x;\n"
	"	mov.u32 %blocks, %nctaid.x;\n"
	"	ld.param.u64 %granules, [granules];\n"
	"	ld.param.u64 %seen, [seen];\n"
	"	ld.param.u32 %n, [n];\n"

	/* The key: 32 bytes a thread, the two words behind them, and what is a thread's own. */
	"	ld.param.u64 %key, [key];\n"
	"	mad.wide.u32 %other, %t, 32, %key;\n"
	"	mad.wide.u32 %own, %t, 32, %words;\n"
	FETCH("0") FETCH("16")
	"	setp.ne.u32 %is, %t, 255;\n"
	"	@%is bra fetched;\n"
	FETCH("32")
	"fetched:\n"
	"	mad.wide.u32 %other, %t, 16, %key;\n"
	"	ld.global.v4.u32 {%s0, %s1, %s2, %s3}, [%other+8208];\n"

	"next:\n"
	"	setp.ge.u32 %is, %g, %n;\n"
	"	@%is bra end;\n"
	"	bar.sync 0;\n" /* the key is there; what was gathered before is no longer read */
	"	mad.wide.u32 %own, %g, 8, %granules;\n"
	"	ld.global.u64 %at, [%own];\n"
	"	ld.global.u32 %word, [%at];\n"
	"	mad.wide.u32 %at, %t, 16, %at;\n"
	"	mov.u64 %key, %words;\n"
	"	mov.u64 %sum0, 0;\n"
	"	mov.u64 %sum1, 0;\n"
	"	mov.u32 %differs, 0;\n"
	"	mov.u32 %i, 0;\n"
	"steps:\n"
	LOAD("0", "0") LOAD("1", "4096") LOAD("2", "8192") LOAD("3", "12288")
	KEY4("0", "0", "1", "2", "3") KEY4("16", "4", "5", "6", "7")
	KEY4("32", "8", "9", "10", "11") KEY4("48", "12", "13", "14", "15")
	"	ld.shared.v2.u32 {%k16, %k17}, [%key+64];\n"
	STEP("0", "0", "1", "2", "3", "4", "5")
	STEP("1", "4", "5", "6", "7", "8", "9")
	STEP("2", "8", "9", "10", "11", "12", "13")
	STEP("3", "12", "13", "14", "15", "16", "17")
	"	add.u64 %at, %at, 16384;\n"
	"	add.u64 %key, %key, 64;\n"
	"	add.u32 %i, %i, 4;\n"
	"	setp.lt.u32 %is, %i, 512;\n"
	"	@%is bra steps;\n"

	FOLD("%sum0", "0", "1")
	FOLD("%sum1", "2", "3")
	"	cvt.u64.u32 %bits, %differs;\n"
	SHOW("%sums0", "%sum0")
	SHOW("%sums1", "%sum1")
	SHOW("%sums2", "%bits")
	"	mov.u32 %half, 128;\n"
	"halves:\n"
	"	bar.sync 0;\n"
	"	setp.ge.u32 %is, %t, %half;\n"
	"	@%is bra gathered;\n"
	"	add.u32 %i, %t, %half;\n"
	GATHER("%sums0", "%sum0")
	GATHER("%sums1", "%sum1")
	"	mad.wide.u32 %other, %i, 8, %sums2;\n"
	"	ld.shared.u64 %more, [%other];\n"
	"	or.b64 %bits, %bits, %more;\n"
	SHOW("%sums0", "%sum0")
	SHOW("%sums1", "%sum1")
	SHOW("%sums2", "%bits")
	"gathered:\n"
	"	shr.u32 %half, %half, 1;\n"
	"	setp.ne.u32 %is, %half, 0;\n"
	"	@%is bra halves;\n"

	"	setp.ne.u32 %is, %t, 0;\n"
	"	@%is bra seen_it;\n"
	"	mad.wide.u32 %own, %g, 24, %seen;\n"
	"	cvt.u32.u64 %differs, %bits;\n"
	"	st.global.u64 [%own], %sum0;\n"
	"	st.global.u64 [%own+8], %sum1;\n"
	"	st.global.v2.u32 [%own+16], {%word, %differs};\n"
	"seen_it:\n"
	"	add.u32 %g, %g, %blocks;\n"
	"	bra next;\n"
	"end:\n"
	"	ret;\n"
	"}\n";
