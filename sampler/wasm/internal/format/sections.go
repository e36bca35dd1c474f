package format

import "bytes"

// Section ids: core WebAssembly 2.0, section 5.5.
const (
	SectionCustom    = 0
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
	SectionTag       = 13
	Sections         = 14
)

// Header begins every module: the magic number, and version 1.
var Header = []byte("\x00asm\x01\x00\x00\x00")

// Open returns a reader of a module's sections.
func Open(data []byte) Reader {
	r := Reader{Data: data}
	switch magic := Header[:4]; {
	case !bytes.HasPrefix(data, magic):
		r.Fail(0, "not a WebAssembly 1 binary")
	case !bytes.HasPrefix(data, Header):
		r.Fail(0, "not a WebAssembly 1 binary, but a component or a later version")
	default:
		r.At = len(Header)
	}
	return r
}

// Section is a section of a module, and a reader of its content.
type Section struct {
	ID    byte
	Start int // offset of the section
	Reader
}

// Section reads a section.
func (r *Reader) Section() Section {
	s := Section{Start: r.At}
	s.ID = r.Byte()
	s.Reader = r.Part()
	return s
}

// FunctionType reads a type of functions: the types of its parameters and results.
func (r *Reader) FunctionType() (params, results []byte) {
	at := r.At
	if form := r.Byte(); form != 0x60 {
		r.Fail(at, "type form %#02x: only function types are known", form)
	}
	return r.valueTypes(), r.valueTypes()
}

// maxValues bounds a type's parameters and its results, because code that passes
// parameters on lists them all. It is the limit of the WebAssembly JavaScript Interface,
// section 7.
const maxValues = 1000

// valueTypes reads a vector of value types, and returns their bytes.
func (r *Reader) valueTypes() []byte {
	n := r.Count(1)
	start := r.At
	if n > maxValues {
		r.Fail(start, "%d parameters or results, more than %d", n, maxValues)
	}
	for range n {
		r.ValueType()
	}
	if r.Err != nil {
		return nil
	}
	return r.Data[start:r.At]
}

// Kinds of imports and exports.
const (
	KindFunction = 0
	KindTable    = 1
	KindMemory   = 2
	KindGlobal   = 3
)

// Import is an import of a module.
type Import struct {
	Module, Name string
	Kind         byte
	Type         uint32 // of a function
}

// Import reads an import. types is the number of types that a function may have.
func (r *Reader) Import(types int) Import {
	at := r.At
	i := Import{Module: string(r.Vector()), Name: string(r.Vector()), Kind: r.Byte()}
	switch i.Kind {
	case KindFunction:
		i.Type = r.Index(types, "type")
	case KindTable:
		r.Table()
	case KindMemory:
		r.limits()
	case KindGlobal:
		r.GlobalType()
	default:
		r.Fail(at, "import of kind %d", i.Kind)
	}
	return i
}

// limits reads the limits of a table or memory and returns the lower one.
func (r *Reader) limits() uint32 {
	at := r.At
	flags := r.Byte()
	if flags > 3 {
		r.Fail(at, "limits of kind %d", flags)
	}
	least := r.U32()
	if flags&1 != 0 {
		r.U32()
	}
	return least
}

// maxTable bounds the elements of a table: wazero allocates memory for them when the
// module is instantiated. It is the limit of the WebAssembly JavaScript Interface,
// section 7.
const maxTable = 10_000_000

// Table reads the type of a table.
func (r *Reader) Table() {
	at := r.At
	r.ValueType()
	if n := r.limits(); n > maxTable {
		r.Fail(at, "table of %d elements, more than %d", n, maxTable)
	}
}

// GlobalType reads the type of a global.
func (r *Reader) GlobalType() {
	r.ValueType()
	r.Skip(1)
}

// HeapType reads a heap type.
func (r *Reader) HeapType() {
	at := r.At
	if b := r.Byte(); b != 0x70 && b != 0x6f {
		r.Fail(at, "heap type %#02x", b)
	}
}

// ValueType reads a value type.
func (r *Reader) ValueType() {
	at := r.At
	if b := r.Byte(); !IsValueType(b) {
		r.Fail(at, "value type %#02x", b)
	}
}

// IsValueType: i32, i64, f32, f64, v128, funcref, externref.
func IsValueType(b byte) bool {
	return b >= 0x7b && b <= 0x7f || b == 0x70 || b == 0x6f
}
