package rewrite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// withDebug is a module with a function f, which traps, and with sections of DWARF:
// abbrev, info, line, ranges, str.
func withDebug(debug map[string]string) []byte {
	parts := [][]byte{
		section(1, 1, 0x60, 0, 0),
		section(3, 1, 0),
		section(7, 1, 1, 'f', 0, 0),
		section(10, 1, 3, 0, 0, 0x0b),
	}
	for name, content := range debug {
		name = ".debug_" + name
		parts = append(parts, section(0, append(append([]byte{byte(len(name))}, name...), content...)...))
	}
	return build(parts...)
}

func word32(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

// debugUnit is a unit of DWARF 4 with the abbreviations at 0.
func debugUnit(entries string) string {
	body := "\x04\x00" + word32(0) + "\x04" + entries
	return word32(len(body)) + body
}

// lineTable4 is a table of a program.
func lineTable4(files, program string) string {
	header := "\x01\x01\x01\xfb\x0e\x0d" + "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01" + "\x00" + files + "\x00"
	body := "\x04\x00" + word32(len(header)) + header + program
	return word32(len(body)) + body
}

// TestHostileDebugIsBounded: hostile DWARF costs no more time and memory than the
// module's size allows, and no panic.
func TestHostileDebugIsBounded(t *testing.T) {
	t.Parallel()
	const (
		abbrev  = "\x01\x11\x01\x10\x17\x55\x17\x00\x00\x02\x1d\x00\x55\x17\x00\x00\x00" // a unit of lines and ranges; an inlined call
		cut     = "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
		hugeLEB = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
		huge    = "\x01\x01\x1f" + hugeLEB + "\x01\x01\x08" + hugeLEB
	)
	unit := debugUnit("\x01" + word32(0) + word32(0))
	header5 := "\x01\x01\x01\xfb\x0e\x01" + huge
	table5 := "\x05\x00\x04\x00" + word32(len(header5)) + header5
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for name, debug := range map[string]map[string]string{
		"entries that end inside a number":       {"abbrev": abbrev, "info": debugUnit("\x01" + word32(0) + word32(0) + cut)},
		"abbreviations that end inside a number": {"abbrev": "\x01\x11\x01\x10\x17" + cut, "info": unit},
		"a table of 2⁶² files":                   {"abbrev": abbrev, "info": unit, "line": word32(len(table5)) + table5},
		"a range for every call":                 {"abbrev": abbrev, "info": debugUnit("\x01" + word32(0) + word32(0) + many(200_000, "\x02"+word32(0))), "ranges": many(50_000, word32(-1)+word32(1))},
		"a long name in every table": {
			"abbrev": abbrev, "info": many(5_000, unit),
			"line": lineTable4(many(1<<20, "n")+"\x00\x00\x00\x00", "\x01"),
		},
		"a table for every byte":   {"abbrev": abbrev, "info": tableEverywhere(100_000), "line": many(100_000, "\x00\x00\x00\x20")},
		"abbreviations everywhere": {"abbrev": many(300_000, "\x01\x11\x01\x10\x17\x00\x00"), "info": abbreviationsEverywhere(300_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			module := withDebug(debug)
			done := make(chan *rewrite.Module)
			go func() {
				m, err := rewrite.Rewrite(module, rewrite.Options{MultiValue: true})
				if err != nil {
					t.Error(err)
				}
				done <- m
			}()
			select {
			case m := <-done:
				if limit := 64*len(module) + 1<<20; m != nil && len(m.Binary) > limit {
					t.Errorf("%d bytes became %d", len(module), len(m.Binary))
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("the rewriting of %d bytes does not end", len(module))
			}
		})
	}
}

// tableEverywhere has a unit for each of n offsets of line tables.
func tableEverywhere(n int) string {
	var b bytes.Buffer
	for i := range n {
		b.WriteString(debugUnit("\x01" + word32(i) + word32(0)))
	}
	return b.String()
}

// abbreviationsEverywhere has a unit for each of n/7 tables of abbreviations. Each table
// has all that follow.
func abbreviationsEverywhere(n int) string {
	var b bytes.Buffer
	for i := range n / 7 {
		body := "\x04\x00" + word32(7*i) + "\x04\x01" + word32(0) + word32(0)
		b.WriteString(word32(len(body)) + body)
	}
	return b.String()
}

// located are abbreviations of a unit with lines and addresses, and of an inlined call in
// file 0.
const located = "\x01\x11\x01\x10\x17\x11\x01\x12\x06\x00\x00" + "\x02\x1d\x00\x11\x01\x12\x06\x58\x0b\x59\x0b\x00\x00\x00"

// withoutFiles is DWARF whose rows and calls name no file.
func withoutFiles() map[string]string {
	at := word32(1) + word32(100)
	return map[string]string{
		"abbrev": located, "info": debugUnit("\x01" + word32(0) + at + "\x02" + at + "\x00\x07" + "\x00"),
		"line": lineTable4("", "\x00\x05\x02"+word32(1)+"\x01"+"\x02\x40"+"\x00\x01\x01"),
	}
}

// TestTraceWithoutFiles: wazero v1.12.0 panics over rows and inlined calls that name no
// file, so the rewriter gives them one.
func TestTraceWithoutFiles(t *testing.T) {
	t.Parallel()
	m := rewritten(t, withDebug(withoutFiles()), quiet)
	if trace := callF(t, m.Binary); !strings.Contains(trace, "unreachable") || !strings.Contains(trace, "?:1") {
		t.Errorf("trace:\n%s", trace)
	}
}

// callF calls the function of a rewritten module, and returns the trace of its trap.
func callF(tb testing.TB, module []byte) string {
	tb.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer r.Close(ctx)
	addHost(tb, r)
	m, err := r.Instantiate(ctx, module)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = m.ExportedFunction("f").Call(ctx)
	if err == nil {
		tb.Fatal("f does not trap")
	}
	return err.Error()
}

// FuzzDebug: any DWARF is rewritten, and wazero makes a trace with the result.
func FuzzDebug(f *testing.F) {
	w := withoutFiles()
	f.Add(w["abbrev"], w["info"], w["line"], word32(1)+word32(9), "s")
	f.Add(w["abbrev"], w["info"], w["line"], "", "") // an empty section at the end
	f.Fuzz(func(t *testing.T, abbrev, info, line, ranges, str string) {
		module := withDebug(map[string]string{"abbrev": abbrev, "info": info, "line": line, "ranges": ranges, "str": str})
		m, err := rewrite.Rewrite(module, quiet)
		if err != nil && !compiles(module) {
			return // it ends with an empty section
		}
		if err != nil {
			t.Fatal(err)
		}
		if limit := 64*len(module) + 1<<20; len(m.Binary) > limit {
			t.Fatalf("%d bytes became %d", len(module), len(m.Binary))
		}
		if trace := callF(t, m.Binary); !strings.Contains(trace, "unreachable") {
			t.Fatalf("trace:\n%s", trace)
		}
	})
}
