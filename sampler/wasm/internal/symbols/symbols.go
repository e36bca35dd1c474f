// Package symbols gives the names of a WebAssembly module's functions, and the source
// lines of positions in them.
//
//		module ─▶ sections ─┬▶ imports, types, "name" ─▶ names for people ─────▶ Function
//		                    └▶ code, ".debug_*" ─▶ units ─▶ functions, lines ─▶ File, StartLine, Line
//
//	 1. [Read] scans the sections once, and reads names and types. It demangles names of C++
//	    and Rust. Go's linker makes names ambiguous, so Go functions get their names from the
//	    runtime's own table. Functions that then share a name and a type get numbers.
//	 2. Package debuginfo reads DWARF on demand, a compilation unit at a time: a compiler
//	    that was built with -g has tens of megabytes of it, and a profile needs little. Its
//	    addresses are bytes from the beginning of the code section's content, as "DWARF for
//	    WebAssembly" says (https://yurydelendik.github.io/webassembly-dwarf/).
//
// Read needs the module as its compiler made it, before it is rewritten.
//
// A module may come from anywhere. A defect in its names or its DWARF costs the defective
// names and lines. Time and memory are linear in the module's size, and nothing panics.
package symbols

import (
	"cmp"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
)

// Table has the names and lines of a module's functions. Any goroutine may use it.
type Table struct {
	identities []identity
	functions  []function
	imports    int
	lines      *lineInfo
}

// Function describes a function. No other function of the module has both its Name and
// its Signature.
type Function struct {
	// Name is demangled, or Go's, or the compiler's; "module.name" for an import; "$7"
	// for function 7 without a name. Never empty.
	Name      string
	Linkage   string // in the module's "name" section, or empty
	Signature string // its type, for example "(i32, i64) f64", with " #2" after it if it would not be unique
	File      string // of its declaration, as the compiler named it, or empty
	StartLine int32  // of its declaration, from 1; 0: unknown
	Imported  bool   // it has no code in the module
}

// Read reads a WebAssembly module. The Table refers to data, so data must not change. An
// error means that data is not a module, or malformed, or has parts that the rewriting
// refuses, too (see package format). Malformed names and DWARF are left
// out. Reading the DWARF spends b, a budget that all readers of the module's DWARF share;
// nil: the table has its own budget.
func Read(data []byte, b *debuginfo.Budget) (*Table, error) {
	m, err := readModule(data)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	m.readNames()
	m.readGoNames()
	return &Table{m.identify(), m.functions, m.imports, newLineInfo(m, cmp.Or(b, debuginfo.NewBudget(len(data))))}, nil
}

// Len returns the number of functions. Imported ones come first, as in the module's index
// space.
func (t *Table) Len() int { return len(t.functions) }

// Name returns the Name and Signature of function i, from 0 to Len, as one text.
func (t *Table) Name(i uint32) string { return t.identities[i].name + t.identities[i].signature }

// Function describes function i, from 0 to Len.
func (t *Table) Function(i int) Function {
	f := &t.functions[i]
	d := Function{
		Name: t.identities[i].name, Signature: t.identities[i].signature,
		Linkage: f.name, Imported: i < t.imports,
	}
	if !d.Imported {
		d.File, d.StartLine = t.lines.declaration(f)
	}
	return d
}

// Line returns the line of an instruction in the file of function i, from 0 to Len; 0 if
// unknown. The offset is in bytes from the beginning of the function's body, where its
// locals are declared, after its size. Code that was inlined into the function is on the
// line of the call. Code without a line is on the last line before it, or on the line of
// the declaration.
func (t *Table) Line(i int, offset uint32) int32 {
	f := &t.functions[i]
	if i < t.imports || int64(offset) >= int64(f.end-f.begin) {
		return 0
	}
	return t.lines.line(f, uint64(f.begin)+uint64(offset))
}
