/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym, dlvsym, dlmopen, dlopen: see lookup.h. */

	.macro	entry name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	/* Three argument words; 8 (mod 16) + 24 aligns the stack. */
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rsp, %rdi
	movq	24(%rsp), %rsi
	call	lookup_\name
	movq	%rdx, %r11
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	testq	%r11, %r11
	jnz	1f
	ret
1:	jmp	*%r11
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	entry	dlsym
	entry	dlvsym
	entry	dlmopen
	entry	dlopen

	.section .note.GNU-stack, "", @progbits
