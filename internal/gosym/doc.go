// Package gosym gives the symbols of a running Go process, read from outside:
// functions, inlined calls, source lines, stack depths, and the C code beside
// them. It reads Go's program counter table itself, because debug/gosym knows
// no inlining and needs an ELF file whose addresses are final.
//
// [Open] goes through these steps:
//
//  1. /proc/PID/maps says which files are mapped where; each ELF file becomes
//     an image, opened in the target's mount namespace and compared with the
//     memory it is mapped to. The vDSO is an image read from memory.
//  2. An image with Go code holds a runtime.moduledata. It is found by its ELF
//     section .go.module (Go 1.26 and later; survives -s -w and PIE), else by the
//     symbol runtime.firstmoduledata, else by looking for a pointer to the header
//     of the program counter table in writable data. Read from memory its pointers
//     are relocated; before the program runs, the answer is [ErrNotReady].
//  3. The fields of the moduledata, which differ from one Go version to the next,
//     are found by their values: by the header that the program counter table
//     begins with, and by the tables that were found before. Each is checked
//     against the memory map, and the tables against each other; what does not fit
//     is [ErrUnsupported]. The tables are copied. From here on the
//     target can change or end: names and lines stay. Where a program's tables take
//     more than 48 MiB, the two largest stay in its file, and look-ups read its pages.
//  4. A program counter is looked up in the function table (ftab), and its
//     physical function expanded into the logical calls that were inlined
//     there, by PCDATA 2 and the inline tree of FUNCDATA 3.
//  5. Wrappers that the compiler generated are left out and callers are looked
//     up at pc-1, both as runtime/pprof does, so that profiles agree.
//  6. Addresses outside Go are looked up in the ELF symbols of their image,
//     loaded when the first of them is asked for.
//
// For an unwinder, [Table.SPDelta] gives the distance from SP to the return
// address, [Table.Func] the function's role in the runtime, [Table.Layout] the
// fields of the runtime's g and m, and [Table.CallFrame] where C code keeps the
// registers of its callers (package ehframe).
//
// Of functions that are asked for, [Table.Calls] gives the calls, out of their code and inline trees, and [Table.Code]
// what tells whether a profile of an earlier build still fits.
//
// Facts hold for Go 1.18 to 1.27: src/runtime/symtab.go, symtabinl.go,
// runtime2.go and src/cmd/link/internal/ld/{pcln,symtab}.go of each release.
// Nothing that is read from the target is trusted: every offset is checked, and all
// of a load draws from one budget of bytes read, bytes held, steps and time, because
// walks that are bounded each are not bounded together. Look-ups of a sample have
// a budget of their own ([Table.Limit]), and so have the loads of C that they start.
// Only regular files of the target are read, and never by package debug/elf, which
// believes the sizes in headers.
package gosym
