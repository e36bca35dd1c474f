package symbols

import (
	"fmt"
	"math"
	"strings"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// module holds the parts of a WebAssembly module that symbols need.
type module struct {
	types     []string      // of functions, as text
	functions []function    // imported ones first
	imports   int           // number of imported functions
	names     format.Reader // of the content of the "name" section
	data      []byte        // the content of the data section
	madeByGo  bool          // Go's own linker made it
	code      int           // bytes of the code section's content
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
	m := &module{debug: debuginfo.Sections{}}
	r := format.Open(data)
	for r.More() {
		s := r.Section()
		if m.section(&s); s.Err != nil {
			return nil, s.Err
		}
	}
	if r.Err != nil {
		return nil, r.Err
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
	var m module
	r := format.Open(binary)
	for found := false; r.More() && !found; {
		s := r.Section()
		if found = s.ID == format.SectionImport; found {
			m.readImports(&s, math.MaxInt)
		}
		if s.Err != nil {
			return nil, fmt.Errorf("read imports: %w", s.Err)
		}
	}
	if r.Err != nil {
		return nil, fmt.Errorf("read imports: %w", r.Err)
	}
	list := make([]Import, m.imports)
	for i := range list {
		list[i] = *m.functions[i].from
	}
	return list, nil
}

func (m *module) section(s *format.Section) {
	switch s.ID {
	case format.SectionCustom:
		m.custom(s)
	case format.SectionType:
		for n := s.Count(3); n > 0 && s.Err == nil; n-- {
			m.types = append(m.types, shorten(typeText(s.FunctionType())))
		}
	case format.SectionImport:
		m.readImports(s, len(m.types))
	case format.SectionFunction:
		for n := s.Count(1); n > 0 && s.Err == nil; n-- {
			m.functions = append(m.functions, function{typeIndex: s.Index(len(m.types), "type")})
		}
	case format.SectionCode:
		m.readCode(s)
	case format.SectionData:
		m.data = s.Data[s.At:]
	}
}

func (m *module) custom(s *format.Section) {
	switch name := string(s.Vector()); {
	case name == "name":
		m.names = s.Reader
	case name == goBuildID:
		m.madeByGo = true
	case strings.HasPrefix(name, debuginfo.Prefix):
		m.debug[strings.TrimPrefix(name, debuginfo.Prefix)] = s.Data[s.At:]
	}
}

// readImports reads imported functions, and skips other imports.
func (m *module) readImports(s *format.Section, types int) {
	for n := s.Count(4); n > 0 && s.Err == nil; n-- {
		if i := s.Import(types); i.Kind == format.KindFunction {
			m.functions = append(m.functions, function{typeIndex: i.Type, from: &Import{i.Module, i.Name}})
			m.imports++
		}
	}
}

// readCode finds the bodies.
func (m *module) readCode(s *format.Section) {
	start := s.At
	m.code = len(s.Data) - start
	bodies := m.functions[min(m.imports, len(m.functions)):]
	if n := s.Count(1); n > len(bodies) {
		s.Fail(start, "code of %d functions, where %d are declared", n, len(bodies))
	} else {
		bodies = bodies[:n]
	}
	for i := range bodies {
		body := s.Part()
		bodies[i].begin, bodies[i].end = body.At-start, len(body.Data)-start
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

// typeText returns a type of functions as text, for example "(i32, i64) f64".
func typeText(parameters, results []byte) string {
	text := "(" + typeNames(parameters) + ")"
	switch len(results) {
	case 0:
		return text
	case 1:
		return text + " " + typeNames(results)
	}
	return text + " (" + typeNames(results) + ")"
}

func typeNames(types []byte) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = valueTypeNames[t]
	}
	return strings.Join(names, ", ")
}

// shorten cuts text that is too long.
func shorten(text string) string {
	const ellipsis = "…"
	if len(text) <= maxSignature {
		return text
	}
	return text[:maxSignature-len(ellipsis)] + ellipsis
}

// Value types: section 5.3.
var valueTypeNames = map[byte]string{
	0x7f: "i32", 0x7e: "i64", 0x7d: "f32", 0x7c: "f64", 0x7b: "v128", 0x70: "funcref", 0x6f: "externref",
}
