package symbols

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
	"github.com/ccmapd/ccmapd/internal/wasm/debuginfo"
)

// Ids of sections: core WebAssembly 2.0, section 5.5.
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

// module holds the parts of a WebAssembly module that symbols need.
type module struct {
	types     []string   // of functions, as text
	functions []function // imported ones first
	imports   int        // number of imported functions
	names     []byte     // the content of the "name" section
	data      []byte     // the content of the data section
	madeByGo  bool       // Go's own linker made it
	code      int        // bytes of the code section's content
	debug     debuginfo.Sections
}

// function is a function of the module, imported or defined.
type function struct {
	typeIndex uint32
	from      *Import // nil: defined
	name      string  // in the "name" section, or empty
	goName    string  // in Go, or empty
	begin     int     // of its body, from the beginning of the code section's content
	end       int
}

// readModule scans the sections. It does not look into the names and the DWARF.
func readModule(data []byte) (*module, error) {
	d := &cursor.Cursor{Data: data}
	if !bytes.Equal(d.Bytes(4), magic) {
		return nil, errors.New("the first bytes are not \\0asm")
	}
	if v := d.Bytes(4); !bytes.Equal(v, version) {
		return nil, fmt.Errorf("version % x, want % x: a component, or a later version of WebAssembly", v, version)
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
// section, so it is fast even if compiling takes half a minute.
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

// readImports reads imported functions, and skips other imports.
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

// skipLimits skips the limits of a table or memory, of 32 or 64 bits.
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

// readCode finds the bodies.
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

// maxSignature bounds the text of a type in bytes: functions with equal names and types
// each get a copy of it.
const maxSignature = 256

// readTypes reads the types of functions as text, for example "(i32, i64) f64".
func (m *module) readTypes(d *cursor.Cursor) {
	const functionType = 0x60
	for n := d.Index(); n > 0 && d.Err == nil; n-- {
		if form := d.Byte(); form != functionType {
			d.Fail(fmt.Errorf("a type of unknown form %#x", form))
			return
		}
		parameters, results := valueTypes(d), valueTypes(d)
		m.types = append(m.types, shorten(typeText(parameters, results)))
	}
}

func typeText(parameters, results []string) string {
	text := "(" + strings.Join(parameters, ", ") + ")"
	switch len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	}
	return text + " (" + strings.Join(results, ", ") + ")"
}

// shorten cuts text that is too long.
func shorten(text string) string {
	const ellipsis = "…"
	if len(text) <= maxSignature {
		return text
	}
	return text[:maxSignature-len(ellipsis)] + ellipsis
}

// valueTypes reads a list of types. Each takes a byte or more.
func valueTypes(d *cursor.Cursor) []string {
	var types []string
	for n := d.Index(); n > 0 && d.Err == nil; n-- {
		types = append(types, valueType(d))
	}
	return types
}

// Value types: section 5.3, and the proposal for typed function references. Those
// references have a heap type after them.
var valueTypeNames = map[byte]string{
	0x7f: "i32", 0x7e: "i64", 0x7d: "f32", 0x7c: "f64", 0x7b: "v128",
	0x70: "funcref", 0x6f: "externref", 0x69: "exnref",
	0x64: "ref", 0x63: "ref null",
}

func valueType(d *cursor.Cursor) string {
	const ref, refNull = 0x64, 0x63
	b := d.Byte()
	name, known := valueTypeNames[b]
	switch {
	case !known:
		d.Fail(fmt.Errorf("unknown value type %#x", b))
	case b == ref || b == refNull:
		return fmt.Sprintf("(%s %d)", name, d.Sleb())
	}
	return name
}

func skipValueType(d *cursor.Cursor) { valueType(d) }
