package symbols

import (
	"cmp"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

// Table has the names and lines of a module's functions. Any goroutine may use it.
type Table struct {
	identities []identity
	functions  []function
	imports    int
	lines      *lineInfo
}

// Function describes one. Name and Signature together are its own: no other function
// of the module has both.
type Function struct {
	// Name is for people: demangled, as Go's runtime has it, or as the compiler gave it;
	// "module.name" of an import; "$7" of function 7 where it has no name. Never empty.
	Name      string
	Linkage   string // in the module's "name" section; empty where it has none
	Signature string // its type, for example "(i32, i64) f64", and " #2" behind it where that takes to be unique
	File      string // of its declaration, as the compiler named it; empty where unknown
	StartLine int32  // of its declaration, from 1; 0 where unknown
	Imported  bool   // it has no code in the module
}

// Read reads a WebAssembly module, which the Table then refers to: nobody may change
// it. An error means that it is no module, or a malformed one. Names and DWARF that
// are malformed are left out. Reading the DWARF spends the budget that all readers of the
// module's DWARF share; nil: the table has one of its own.
func Read(data []byte, b *debuginfo.Budget) (*Table, error) {
	m, err := readModule(data)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	m.readNames()
	m.readGoNames()
	identities, err := m.identify()
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	return &Table{identities, m.functions, m.imports, newLineInfo(m, cmp.Or(b, debuginfo.NewBudget(len(data))))}, nil
}

// Len returns the number of functions, those that are imported included. They come
// first, as in the index space of the module.
func (t *Table) Len() int { return len(t.functions) }

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

// Line returns the line in the file of function i, from 0 to Len, that an instruction
// is on; 0 where that is unknown. The offset is in bytes from the beginning of the
// function's body, where its locals are declared, behind its size. For code that was
// inlined into the function it is the line of the call, as for any other call. Code that
// the compiler has no line for is on the last line before it, or that of the declaration.
func (t *Table) Line(i int, offset uint32) int32 {
	f := &t.functions[i]
	if i < t.imports || int64(offset) >= int64(f.end-f.begin) {
		return 0
	}
	return t.lines.line(f, uint64(f.begin)+uint64(offset))
}
