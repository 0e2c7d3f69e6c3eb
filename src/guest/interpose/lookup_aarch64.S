/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym, dlvsym, dlmopen, dlopen: see lookup.h. */

	.macro	entry name
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	hint	#34 /* bti c */
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	add	x0, sp, #16
	mov	x1, x30
	bl	lookup_\name
	mov	x16, x1
	cbnz	x16, 1f
	ldp	x29, x30, [sp], #48
	.cfi_remember_state
	.cfi_restore x29
	.cfi_restore x30
	.cfi_def_cfa_offset 0
	ret
	.cfi_restore_state
1:	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_restore x29
	.cfi_restore x30
	.cfi_def_cfa_offset 0
	br	x16
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	entry	dlsym
	entry	dlvsym
	entry	dlmopen
	entry	dlopen

	.section .note.GNU-stack, "", %progbits
