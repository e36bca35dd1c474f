package symbols

import (
	"os"
	"testing"
)

// BenchmarkRead measures what starting a guest costs, and what the first sample of a
// unit does. CCMAPD_MODULE names another module than that of testdata.
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

// BenchmarkLine measures one more position of a function whose unit is read.
func BenchmarkLine(b *testing.B) {
	table := read(b, "dwarf5.wasm")
	last := table.Len() - 1
	for b.Loop() {
		table.Line(last, 3)
	}
}
