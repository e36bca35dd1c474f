// Package symbols tells what the functions of a WebAssembly module are called, and
// which source line a position in one is on.
//
//		module ─▶ sections ─┬▶ imports, types, "name" ─▶ names for people ─────▶ Function
//		                    └▶ code, ".debug_*" ─▶ units ─▶ functions, lines ─▶ File, StartLine, Line
//
//	 1. [Read] scans the sections once, and reads names and types. A name that C++
//	    or Rust has mangled is demangled; of Go, whose linker leaves out what tells names
//	    apart, the names are those in the runtime's own table; functions that then share
//	    a name and a type get numbers.
//	 2. Package debuginfo reads DWARF on demand, a compilation unit at a time: a compiler
//	    that was built with -g has tens of megabytes of it, and a profile needs little. Its addresses are those of "DWARF for WebAssembly"
//	    (https://yurydelendik.github.io/webassembly-dwarf/): bytes from the beginning of
//	    the code section's content.
//
// Everything is read of the module as its compiler made it, before it is rewritten.
//
// A module may come from anywhere. What is wrong with its names or its DWARF costs
// those that are wrong, never more than a time and a memory that are linear in its
// size, and no panic.
package symbols
