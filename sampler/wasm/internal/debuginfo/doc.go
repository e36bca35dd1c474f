// Package debuginfo reads the DWARF of a WebAssembly module, versions 2 to 5: the code
// ranges of functions and of inlined calls, and source lines.
//
//	Sections ─▶ Units ─▶ Entries ─▶ Ranges
//	                └──▶ Lines ─▶ EachRow, FileName
//
// It is for modules from anywhere. Malformed DWARF is read up to the defect. A [Budget]
// bounds the time and the memory that all readers of one module spend together: entries
// may share ranges, units may share tables, and tables may overlap, so that a small
// module can describe any amount of work. Nothing panics.
//
// Package debug/dwarf is not hardened against hostile input, by its own documentation: it
// makes as many file names as a header claims, and reads entries without end from a
// number that is cut (Go 1.26).
package debuginfo

// Prefix begins the names of the sections.
const Prefix = ".debug_"

// Sections are the contents of the sections of DWARF, by their names without [Prefix].
// Missing ones are empty.
type Sections map[string][]byte

// from returns the bytes of a section from an offset on.
func from(section []byte, offset uint64) []byte {
	return section[min(offset, uint64(len(section))):]
}

// Budget bounds the further cost of reading the DWARF of a module. All readers of a module
// share one, and use it one after the other.
type Budget struct {
	steps int64 // numbers and bytes of names to be read
	bytes int64 // to be kept
}

// NewBudget returns several times the needs of compilers' output, for a module of size
// bytes. Guests in Rust and C take 0.3 to 0.6 steps and 1.4 to 4 bytes for each of their
// bytes.
func NewBudget(size int) *Budget {
	const steps, bytes, least = 8, 16, 1 << 20
	return &Budget{steps: steps*int64(size) + least, bytes: bytes*int64(size) + least}
}

// Spent reports whether the budget is used up. Then nothing more is read.
func (b *Budget) Spent() bool { return b.steps < 0 || b.bytes < 0 }

// Keep takes memory from the budget, in bytes, and reports whether there was enough.
func (b *Budget) Keep(n int) bool {
	b.bytes -= int64(n)
	return !b.Spent()
}

// Step takes work from the budget, and reports whether there was enough.
func (b *Budget) Step(n int) bool {
	b.steps -= int64(n)
	return !b.Spent()
}
