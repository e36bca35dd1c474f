package symbols

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadErrors(t *testing.T) {
	t.Parallel()
	const head = "\x00asm\x01\x00\x00\x00"
	for in, want := range map[string]string{
		"":                                    `read module: at offset 0x0: not a WebAssembly 1 binary`,
		"\x7fELF\x02\x01":                     `not a WebAssembly 1 binary`,
		"\x00asm":                             "a component or a later version",
		"\x00asm\x0d\x00\x01\x00":             "a component or a later version",
		head + "\x01":                         "read module: at offset 0x9: unexpected end",
		head + "\x01\x05\x01":                 "vector of 5 elements exceeds its section",
		head + "\x01\x04\x01\x5f\x00\x00":     "at offset 0xb: type form 0x5f",
		head + "\x01\x04\x01\x60\x01\x01":     "value type 0x01",
		head + "\x02\x05\x01\x00\x00\x07\x00": "import of kind 7",
		head + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00": "1 functions without code",
		head + "\x0a\x04\x01\x02\x00\x0b":                 "code of 1 functions, where 0 are declared",
		head + "\x03\x02\x01\x00":                         "type 0 of 0",
	} {
		_, err := Read([]byte(in), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%q): %v, want an error with %q", in, err, want)
		}
	}
}

// Names that are cut leave the others, and the functions without names have numbers.
func TestMalformedNames(t *testing.T) {
	t.Parallel()
	const module = "\x00asm\x01\x00\x00\x00" +
		"\x01\x05\x01\x60\x00\x01\x7f" + // a type () i32
		"\x03\x03\x02\x00\x00" + // two functions
		"\x0a\x0b\x02\x04\x00\x41\x00\x0b\x04\x00\x41\x01\x0b"
	names := "\x04name\x01\x06\x02\x00\x01a\x01\x09"
	table := mustRead(t, []byte(module+"\x00"+string(rune(len(names)))+names))
	for i, want := range []string{"a", "$1"} {
		if f := table.Function(i); f.Name != want || f.Signature != "() i32" {
			t.Errorf("function %d is %q %q, want %q", i, f.Name, f.Signature, want)
		}
	}
}

// Functions with the same name and long type do not each take a copy of the type.
func TestLongTypes(t *testing.T) {
	t.Parallel()
	const parameters = 1000
	types := "\x01\x60\xe8\x07" + strings.Repeat("\x6f", parameters) + "\x00"
	imports := "\x02" + strings.Repeat("\x00\x00\x00\x00", 2)
	table := mustRead(t, []byte("\x00asm\x01\x00\x00\x00"+
		"\x01"+string([]byte{byte(len(types)) | 0x80, byte(len(types) >> 7)})+types+
		"\x02"+string(rune(len(imports)))+imports))
	first, second := table.Function(0), table.Function(1)
	if want := first.Signature + " #2"; second.Signature != want || len(first.Signature) > maxSignature {
		t.Errorf("signatures %q and %q", first.Signature, second.Signature)
	}
}

// A module that is cut, or has changed bytes, is refused or read as far as it is valid.
func TestImports(t *testing.T) {
	t.Parallel()
	const header = "\x00asm\x01\x00\x00\x00"
	for data, want := range map[string][]Import{
		header: {},
		header + "\x01\x04\x01\x60\x00\x00\x02\x09\x01\x03env\x01f\x00\x00\xff": {{"env", "f"}}, // no further
		header[:5]:              nil,
		header + "\x02\x09\x01": nil,
	} {
		got, err := Imports([]byte(data))
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", data, got, err, want)
		}
	}
}

func FuzzSymbols(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.wasm")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no modules in testdata: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		imports, _ := Imports(data) // Read reports the error
		table, err := Read(data, nil)
		if err != nil {
			return
		}
		for i, f := range imports {
			if got := table.Function(i); !got.Imported {
				t.Fatalf("import %d is %+v, want %v", i, got, f)
			}
		}
		met := make(map[identity]bool)
		for i := range min(table.Len(), 1000) {
			f := table.Function(i)
			id := identity{f.Name, f.Signature}
			if f.Name == "" || f.StartLine < 0 || met[id] {
				t.Fatalf("function %d is %+v", i, f)
			}
			met[id] = true
			for _, offset := range []uint32{0, 1, 10, 100, 1000} {
				if line := table.Line(i, offset); line < 0 {
					t.Fatalf("offset %d of function %d is on line %d", offset, i, line)
				}
			}
		}
	})
}

// BenchmarkRead times the start of a guest, and the first sample of a unit. CCMAPD_MODULE
// names a module in place of testdata's.
func BenchmarkRead(b *testing.B) {
	path := os.Getenv("CCMAPD_MODULE")
	if path == "" {
		path = "testdata/dwarf5.wasm"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("dwarf=false", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			mustRead(b, data)
		}
	})
	b.Run("dwarf=true", func(b *testing.B) {
		for b.Loop() {
			table := mustRead(b, data)
			table.Function(table.Len() / 2)
		}
	})
}

// BenchmarkLine times one more position of a function whose unit is read.
func BenchmarkLine(b *testing.B) {
	table := read(b, "dwarf5.wasm")
	last := table.Len() - 1
	for b.Loop() {
		table.Line(last, 3)
	}
}
