// Package ehframe unwinds the stacks of C code by the call frame information
// that compilers leave in an ELF file's section .eh_frame: for every instruction
// it tells where the caller's registers are. C that is compiled by gcc -O2 keeps
// no frame pointer, so nothing else leads to its callers.
//
//  1. [New] indexes a section: one entry a function.
//  2. [Table.Row] runs the program of a function up to one instruction. The
//     [Row] that results holds a rule for each register, and can be kept.
//  3. [Row.Up] applies the rules to the registers of a frame, reads the saved
//     ones from the stack, and leaves the registers of the caller.
//
// The section is untrusted. Reading it never panics, every loop consumes input,
// the index takes time in proportion to the section, and a row takes at most
// maxSteps instructions, fewer if the caller says so. A rule that this package
// does not know, such as a branch in an expression, has no row.
//
// Sources: DWARF 5, sections 6.4 and 2.5; Linux Standard Base Core 5.0, 10.6
// (the section's form and augmentations); System V ABI, AMD64, 3.6.2 (register
// numbers). Tested on the output of gcc 12 and clang 14, glibc 2.36, and the
// vDSO of Linux 6.18.
package ehframe
