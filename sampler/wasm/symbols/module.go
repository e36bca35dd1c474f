package symbols

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

// Ids of sections, of the binary format of core WebAssembly 2.0, section 5.5.
const (
	customSection   = 0
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	codeSection     = 10
	dataSection     = 11
)

var (
	magic   = []byte("\x00asm")
	version = []byte{1, 0, 0, 0}
)

// module is what is used of a WebAssembly module.
type module struct {
	types     []string   // of functions, as text
	functions []function // those that are imported come first
	imports   int        // how many those are
	names     []byte     // the content of the "name" section
	data      []byte     // the content of the data section
	madeByGo  bool       // by Go's own linker
	code      int        // bytes of the code section's content
	debug     debuginfo.Sections
}

// function is one, imported or not.
type function struct {
	typeIndex uint32
	from      *Import // nil where the module defines it
	name      string  // in the "name" section; empty where it has none
	goName    string  // in Go; empty where it has none
	begin     int     // of its body, from the beginning of the code section's content
	end       int
}

// readModule scans the sections. What the names and the DWARF consist of is not
// looked at.
func readModule(data []byte) (*module, error) {
	d := &cursor.Cursor{Data: data}
	if !bytes.Equal(d.Bytes(4), magic) {
		return nil, errors.New("it does not begin with \\0asm")
	}
	if v := d.Bytes(4); !bytes.Equal(v, version) {
		return nil, fmt.Errorf("version % x, want % x: a component, or of a later WebAssembly", v, version)
	}
	m := &module{debug: debuginfo.Sections{}}
	for !d.Empty() {
		at := len(data) - len(d.Data)
		id := d.Byte()
		content := &cursor.Cursor{Data: d.Vector()}
		m.section(id, content)
		if err := errors.Join(d.Err, content.Err); err != nil {
			return nil, fmt.Errorf("section at byte %d: %w", at, err)
		}
	}
	if missing := m.withoutBody(); missing > 0 {
		return nil, fmt.Errorf("%d functions without code", missing)
	}
	return m, nil
}

// Import is a function that a module imports.
type Import struct{ Module, Name string }

// Imports returns the functions that a module imports. It reads no further than their
// section, so that this takes no time even where compiling takes half a minute.
func Imports(binary []byte) ([]Import, error) {
	m, header := &module{}, len(magic)+len(version)
	if len(binary) < header {
		return nil, io.ErrUnexpectedEOF
	}
	for d := (&cursor.Cursor{Data: binary[header:]}); !d.Empty(); {
		id := d.Byte()
		content := &cursor.Cursor{Data: d.Vector()}
		if id == importSection {
			m.readImports(content)
		}
		if err := errors.Join(d.Err, content.Err); err != nil {
			return nil, fmt.Errorf("read imports: %w", err)
		}
		if id == importSection {
			break
		}
	}
	list := make([]Import, m.imports)
	for i := range list {
		list[i] = *m.functions[i].from
	}
	return list, nil
}

func (m *module) section(id byte, d *cursor.Cursor) {
	switch id {
	case customSection:
		m.custom(d)
	case typeSection:
		m.readTypes(d)
	case importSection:
		m.readImports(d)
	case functionSection:
		for n := d.Index(); n > 0 && d.Err == nil; n-- {
			m.functions = append(m.functions, function{typeIndex: d.Index()})
		}
	case codeSection:
		m.readCode(d)
	case dataSection:
		m.data = d.Data
	}
}

func (m *module) custom(d *cursor.Cursor) {
	switch name := string(d.Vector()); {
	case name == "name":
		m.names = d.Data
	case name == goBuildID:
		m.madeByGo = true
	case strings.HasPrefix(name, debuginfo.Prefix):
		m.debug[strings.TrimPrefix(name, debuginfo.Prefix)] = d.Data
	}
}

// readImports reads those of functions, and skips the others.
func (m *module) readImports(d *cursor.Cursor) {
	for n := d.Index(); n > 0 && d.Err == nil; n-- {
		from, name := d.Vector(), d.Vector()
		switch kind := d.Byte(); kind {
		case 0: // function
			m.functions = append(m.functions, function{typeIndex: d.Index(), from: &Import{string(from), string(name)}})
			m.imports++
		case 1: // table
			skipReferenceType(d)
			skipLimits(d)
		case 2: // memory
			skipLimits(d)
		case 3: // global
			skipValueType(d)
			d.Byte()
		case 4: // tag, of the exception handling proposal
			d.Byte()
			d.Index()
		default:
			d.Fail(fmt.Errorf("an import of unknown kind %d", kind))
		}
	}
}

func skipReferenceType(d *cursor.Cursor) { skipValueType(d) }

// skipLimits skips those of a table or memory, of 64 bits or less.
func skipLimits(d *cursor.Cursor) {
	const hasMaximum, hasPageSize = 1, 8
	flags := d.Byte()
	d.Uleb()
	if flags&hasMaximum != 0 {
		d.Uleb()
	}
	if flags&hasPageSize != 0 {
		d.Uleb()
	}
}

// readCode finds where the bodies are.
func (m *module) readCode(d *cursor.Cursor) {
	m.code = len(d.Data)
	size := len(d.Data)
	bodies := m.functions[min(m.imports, len(m.functions)):]
	if n := int(d.Index()); n > len(bodies) {
		d.Fail(fmt.Errorf("code of %d functions, where %d are declared", n, len(bodies)))
	} else {
		bodies = bodies[:n]
	}
	for i := range bodies {
		body := d.Vector()
		bodies[i].end = size - len(d.Data)
		bodies[i].begin = bodies[i].end - len(body)
	}
}

// withoutBody counts the functions that are neither imported nor have code.
func (m *module) withoutBody() int {
	n := 0
	for _, f := range m.functions[m.imports:] {
		if f.end == 0 {
			n++
		}
	}
	return n
}
