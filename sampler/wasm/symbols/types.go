package symbols

import (
	"fmt"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// maxSignature bounds the text of a type in bytes: each of the functions that have a name
// and a type in common gets a copy of it.
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

// shorten cuts off what is too long to be read.
func shorten(text string) string {
	const ellipsis = "…"
	if len(text) <= maxSignature {
		return text
	}
	return text[:maxSignature-len(ellipsis)] + ellipsis
}

// valueTypes reads a list of types, of which each takes a byte or more.
func valueTypes(d *cursor.Cursor) []string {
	var types []string
	for n := d.Index(); n > 0 && d.Err == nil; n-- {
		types = append(types, valueType(d))
	}
	return types
}

// Value types, of the binary format, section 5.3, and of the proposals for typed
// function references, which have a heap type behind them.
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
