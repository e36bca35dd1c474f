package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

func compressed(t testing.TB, c Compression, data string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := compress(&b, c)
	if err == nil {
		_, err = io.WriteString(z, data)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadErrorsSayWhatAndWhere(t *testing.T) {
	t.Parallel()
	const (
		xmlHead  = `<ccmap version="1"><methods><method name="m"/></methods><nodes>`
		wasmHead = `<ccmap version="1"><methods><method name="m" coordinate="bytecode"/><method name="n"/></methods><lines>`
		codeHead = `<ccmap version="1"><methods><method name="m"/></methods>`
		jsonHead = `{"ccmap_version":1,"methods":[{"name":"m"}],"nodes":[`
	)
	for _, test := range []struct {
		name, in string
		is       error // or nil
		says     string
	}{
		{"empty", "", ErrEmpty, "empty file"},
		{"empty gzip", compressed(t, Gzip, ""), ErrEmpty, "empty file"},
		{"empty zstd", compressed(t, Zstd, ""), nil, "empty file"},
		{"elf", "\x7fELF\x02\x01\x01\x00", ErrFormat, "7f 45 4c 46"},
		{"png", "\x89PNG\r\n\x1a\n\x00", ErrFormat, fmt.Sprintf("like none of %v, jfr, gzip and zstd", Formats())},
		{"gzip header alone", "\x1f\x8b", io.ErrUnexpectedEOF, "decompress gzip"},
		{"zstd header alone", "\x28\xb5\x2f\xfd", io.ErrUnexpectedEOF, "decompress zstd"},
		{"gzip, cut", compressed(t, Gzip, strings.Repeat("a 1\n", 100))[:20], io.ErrUnexpectedEOF, "decompress gzip"},
		{"gzip, then garbage", compressed(t, Gzip, "a 1\n") + "more than a header", gzip.ErrHeader, "decompress gzip"},
		{"zstd, corrupt", compressed(t, Zstd, "a 1\n") + "garbage", zstd.ErrMagicMismatch, "decompress zstd"},

		{"html", "<!DOCTYPE html><html></html>", ErrFormat, "<html>"},
		{"xml of nothing", "<!-- -->", io.ErrUnexpectedEOF, "line 1: the file is cut short"},
		{"xml newer", `<ccmap version="2">`, ErrVersion, "version 2, and this ccmapd reads up to 1"},
		{"xml without version", `<ccmap>`, ErrVersion, "no valid version"},
		{"xml, version", `<ccmap version="one">`, nil, `attribute version of <ccmap>`},
		{"xml, cut", xmlHead + "\n<node parent=", io.ErrUnexpectedEOF, "line 2: the file is cut short"},
		{"xml, mismatch", "<ccmap version=\"1\">\n</map>", nil, "line 2: element <ccmap> closed by </map>"},
		{"xml, number", xmlHead + `<node parent="x"/>`, nil, `<node>: parent is "x", want a whole number`},
		{"xml, no parent", xmlHead + `<node method="0"/>`, nil, "node 1: parent -1"},
		{"xml, parent", xmlHead + `<node parent="1" method="0"/>`, nil, "node 1: parent 1 does not come before it"},
		{"xml, method", xmlHead + `<node parent="0" method="1"/>`, nil, "node 1: method 1 of 1"},
		{"xml, offset", xmlHead + `<node parent="0" offset="2147483648" method="0"/>`, nil, "offset 2147483648 is outside 32 bits"},
		{"xml, outermost", xmlHead + `<node parent="0" offset="0" method="0"/>`, nil, "outermost frame with an offset"},
		{"xml, position", xmlHead + `<node parent="0" offset="0"/>`, nil, "position without a method above it"},
		{"xml, below position", xmlHead + `<node parent="0" method="0"/><node parent="1" offset="3"/><node parent="2" offset="1" method="0"/>`, nil, "node 3: parent 2 is a position"},
		{"xml, negative", xmlHead + `<node parent="0" method="0" samples="-1"/>`, nil, "node 1: negative count"},
		{"xml, overflow", xmlHead + strings.Repeat(`<node parent="0" method="0" time_ns="9223372036854775807"/>`, 2), nil, "node 2: the counts add up"},
		{"xml, no name", `<ccmap version="1"><methods><method/>`, nil, "method 0: method without a name"},
		{"xml, escape", `<ccmap version="1"><methods><method name="\q"/>`, nil, "bad escape"},
		{"xml, start", `<ccmap version="1"><meta start="yesterday"/>`, nil, "start time"},
		{"xml, two", `<ccmap version="1"></ccmap><ccmap/>`, nil, "second root"},
		{"xml, charset", `<?xml version="1.0" encoding="latin1"?><ccmap version="1"/>`, nil, "latin1"},

		{"xml, recent", xmlHead + `<node parent="0" method="0" samples="2" recent_samples="1"/>`, nil, "node 1: recent counts without a window"},
		{"xml, recent of nothing", `<ccmap version="1"><meta window_ns="1000000"/><methods><method name="m"/></methods><nodes><node parent="0" method="0" recent_samples="1"/>`, nil, "node 1: recent counts of what was never sampled"},
		{"xml, recent overflow", `<ccmap version="1"><meta window_ns="1000000"/><methods><method name="m"/></methods><nodes>` + strings.Repeat(`<node parent="0" method="0" samples="1" recent_samples="9223372036854775807"/>`, 2), nil, "node 2: the counts add up"},
		{"xml, window", `<ccmap version="1"><meta window_ns="5"/>`, nil, "a window of 5ns, want 1ms or more"},
		{"xml, clock", `<ccmap version="1"><meta><loss clock_ns="-1"/></meta>`, nil, "a CPU time of -1ns in ticks of 0s"},
		{"xml, unaccounted", `<ccmap version="1"><meta><loss clock_ns="1" unaccounted_ns="2"/></meta>`, nil, "2ns of CPU time unaccounted for, more than all 1ns"},
		{"xml, unaccounted for too little", `<ccmap version="1"><meta><loss clock_ns="1" unaccounted_ns="-900000000"/></meta>`, nil, "-900ms of CPU time unaccounted for, of 1ns"},
		{"xml, settled", `<ccmap version="1"><meta><settled edges="NaN"/></meta>`, nil, "settled to NaN percent"},
		{"xml, pruned method unknown", xmlHead + `</nodes><pruned_methods><method method="1"/>`, nil, "pruned method 0: method 1 of 1"},
		{"xml, pruned method missing", xmlHead + `</nodes><pruned_methods><method/>`, nil, "pruned method 0: no method"},
		{"xml, pruned method twice", xmlHead + `</nodes><pruned_methods><method method="0"/><method method="0"/>`, nil, "pruned method 1: it stands twice"},
		{"xml, pruned method negative", xmlHead + `</nodes><pruned_methods><method method="0" cumulative_time_ns="-1"/>`, nil, "pruned method 0: negative count"},
		{"xml, pruned edge unknown", xmlHead + `</nodes><pruned_edges><edge callee="7"/>`, nil, "pruned edge 0: method 7 of 1"},
		{"xml, pruned edge of nothing", xmlHead + `</nodes><pruned_edges><edge offset="1"/>`, nil, "pruned edge 0: neither a caller nor a callee"},
		{"xml, pruned edge twice", xmlHead + `</nodes><pruned_edges><edge callee="0"/><edge callee="0"/>`, nil, "pruned edge 1: it stands twice"},
		{"xml, pruned edge offset", xmlHead + `</nodes><pruned_edges><edge callee="0" offset="2147483648"/>`, nil, "pruned edge 0: offset 2147483648 is outside 32 bits"},
		{"xml, pruned edge overflow", xmlHead + `<node parent="0" method="0" activations="1"/></nodes><pruned_edges><edge callee="0" activations="9223372036854775807"/>`, nil, "pruned edge 0: the counts add up"},
		{"xml, pruned edge recent", xmlHead + `</nodes><pruned_edges><edge callee="0" recent_time_ns="1"/>`, nil, "pruned edge 0: recent counts without a window"},

		{"xml, coordinate", `<ccmap version="1"><methods><method name="m" coordinate="furlong"/>`, nil, `method 0: coordinate "furlong" is unknown`},
		{"xml, line of no method", wasmHead + `<line offset="1" line="1"/>`, nil, "line 0: it is that of no position"},
		{"xml, line of no position", wasmHead + `<line method="0" line="1"/>`, nil, "line 0: it is that of no position"},
		{"xml, line of another method", wasmHead + `<line method="2" offset="1" line="1"/>`, nil, "line 0: method 2 of 2"},
		{"xml, line of a line", wasmHead + `<line method="1" offset="1" line="1"/>`, nil, "line 0: positions of method 1 are lines"},
		{"xml, line 0", wasmHead + `<line method="0" offset="1" line="0"/>`, nil, "line 0: it is 0, want 1 or more"},
		{"xml, line of 32 bits", wasmHead + `<line method="0" offset="1" line="2147483648"/>`, nil, "line 0: it is 2147483648"},
		{"xml, line twice", wasmHead + `<line method="0" offset="1" line="1"/><line method="0" offset="1" line="2"/>`, nil, "line 1: its position has one"},
		{"xml, line offset", wasmHead + `<line method="0" offset="4294967296" line="1"/>`, nil, "line 0: offset 4294967296 is outside 32 bits"},
		{"xml, mapping of nothing", codeHead + `<mappings><mapping start="0x1" limit="0x2"/>`, nil, "mapping 0: it is that of no module"},
		{"xml, mapping backwards", codeHead + `<mappings><mapping module="m" start="0x2" limit="0x1"/>`, nil, "mapping 0: it ends at 0x1, and begins at 0x2"},
		{"xml, mapping twice", codeHead + `<mappings>` + strings.Repeat(`<mapping module="m" limit="0x1"/>`, 2), nil, "mapping 1: its module has one"},
		{"xml, mapping over 64 bits", codeHead + `<mappings><mapping module="m" limit="0x10000000000000000"/>`, nil, `"0x10000000000000000" is no number`},
		{"xml, mapping in decimals", codeHead + `<mappings><mapping module="m" limit="1"/>`, nil, `"1" is no number`},
		{"xml, mapping with a control character", codeHead + strings.Repeat("\n", 4096) + "<mappings><mapping module=\"m\" file=\"\x01\" limit=\"0x1\"/>", nil, "illegal character code"},
		{"xml, address of nothing", codeHead + `<addresses><address offset="1" file_offset="0x1"/>`, nil, "address 0: no method"},
		{"xml, address of another method", codeHead + `<addresses><address method="1" offset="1" file_offset="0x1"/>`, nil, "address 0: method 1 of 1"},
		{"xml, address of no position", codeHead + `<addresses><address method="0" file_offset="0x1"/>`, nil, "address 0: its position is unknown"},
		{"xml, address offset", codeHead + `<addresses><address method="0" offset="2147483648" file_offset="0x1"/>`, nil, "address 0: offset 2147483648 is outside 32 bits"},
		{"xml, address nowhere", codeHead + `<addresses><address method="0" offset="1"/>`, nil, "address 0: it has no place in its file"},
		{"xml, address in no caller", codeHead + `<addresses><address method="0" offset="1" file_offset="0x1"><caller method="7"/></address>`, nil, "address 0: caller 0: method 7 of 1"},
		{"xml, address twice", codeHead + `<addresses>` + strings.Repeat(`<address method="0" offset="1" file_offset="0x1"/>`, 2), nil, "address 1: it stands twice"},
		{"xml, addresses", codeHead + `<addresses><address method="0" offset="1" file_offset="0x1">` + strings.Repeat(`<caller method="0"/>`, ccmap.MaxAddresses) + `</address>`, ErrTooMany, "address 0: "},
		{"json, mapping", `{"ccmap_version":1,"mappings":[{"module":"m","start":"0x2"}]}`, nil, `"mappings": mapping 0: it ends at 0x0`},
		{"json, mapping as a number", `{"ccmap_version":1,"mappings":[{"start":2}]}`, nil, "cannot unmarshal number"},
		{"json, address", `{"ccmap_version":1,"addresses":[{"method":0}]}`, nil, `"addresses": address 0: method 0 of 0`},
		{"json, line", `{"ccmap_version":1,"lines":[{"method":0}]}`, nil, `"lines": line 0: method 0 of 0`},
		{"json, pruned", `{"ccmap_version":1,"pruned_edges":[{"callee":3}]}`, nil, `"pruned_edges": pruned edge 0: method 3 of 0`},
		{"json, pruned methods", `{"ccmap_version":1,"pruned_methods":[{"samples":"x"}]}`, nil, `"pruned_methods": samples is`},
		{"json of others", `{"name":"x","version":"1.0"}`, ErrFormat, "without ccmap_version"},
		{"json newer", `{"ccmap_version":2,"x":`, ErrVersion, "version 2"},
		{"json, cut", jsonHead + `{"parent":0`, io.ErrUnexpectedEOF, "the file is cut short"},
		{"json, syntax", jsonHead + `{]`, nil, "byte "},
		{"json, node", jsonHead + `{"parent":0,"method":5}`, nil, `"nodes": node 1: method 5 of 1`},
		{"json, type", jsonHead + `{"parent":"a"}`, nil, `"nodes": parent is`},
		{"json, list", `{"ccmap_version":1,"nodes":{}}`, nil, "want [, found {"},
		{"json, trailing", `{"ccmap_version":1}{}`, nil, "something follows"},
		{"json, nested", `{"x":` + strings.Repeat("[", 20000), nil, "exceeded max depth"},

		{"folded, no count", "a;b\n", nil, "line 1: want frame;frame;… count"},
		{"folded, count", "a 1\na x\n", nil, `line 2: want frame;frame;… count: "x"`},
		{"folded, fraction", "a 1.5\n", nil, `"1.5" is no whole number`},
		{"folded, negative", "a -1\n", nil, "line 1: negative count"},
		{"folded, blank", "\n\n \n", ErrEmpty, "no line holds a stack"},

		{"pprof, cut", encode(t, Pprof, small().Snapshot())[:100], nil, "parse profile of 100 bytes"},
		{"pprof, other", "\x0a\x02\x08\xff", nil, "parse profile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Read(strings.NewReader(test.in), ReadOptions{})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v, want %q", err, test.says)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
		})
	}
}

// A document has as many mappings and addresses as a map can have, and no more.
func TestReadBoundsAddresses(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	var mappings, addresses strings.Builder
	for i := range ccmap.MaxAddresses + 1 {
		fmt.Fprintf(&mappings, `<mapping module="%d" limit="0x1"/>`, i)
		fmt.Fprintf(&addresses, `<address method="0" offset="%d" file_offset="0x1"/>`, i)
	}
	for _, list := range []string{"<mappings>" + mappings.String(), "<addresses>" + addresses.String()} {
		_, _, err := Read(strings.NewReader(`<ccmap version="1"><methods><method name="m"/></methods>`+list), ReadOptions{})
		if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), " 262144: ") {
			t.Errorf("%.12s…: %v", list, err)
		}
	}
}

// Every cut of a document is an error, or has lost no more than its last line end.
func TestCutFilesAreNoticed(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	for _, f := range []Format{XML, JSON} {
		whole := encode(t, f, points().Snapshot())
		for cut := range len(whole) - 1 {
			if _, _, err := Read(strings.NewReader(whole[:cut]), ReadOptions{}); err == nil {
				t.Fatalf("%v: cut at %d of %d went unnoticed", f, cut, len(whole))
			}
		}
	}
}

func TestReadPassesOnTheReadersError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	for _, f := range Formats() {
		whole := encode(t, f, chain(100).Snapshot())
		for _, at := range []int{0, 10, len(whole) - 10} {
			r := io.MultiReader(strings.NewReader(whole[:at]), iotest.ErrReader(broken))
			if _, _, err := Read(r, ReadOptions{}); !errors.Is(err, broken) {
				t.Errorf("%v, byte %d: %v", f, at, err)
			}
		}
	}
}

func TestReadUnwraps(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		plain := encode(t, f, small().Snapshot())
		for name, data := range map[string]string{
			"gzip":         compressed(t, Gzip, plain),
			"zstd":         compressed(t, Zstd, plain),
			"gzip in zstd": compressed(t, Zstd, compressed(t, Gzip, plain)),
			"gzip members": compressed(t, Gzip, plain[:99]) + compressed(t, Gzip, plain[99:]),
			"zstd frames":  compressed(t, Zstd, plain[:99]) + compressed(t, Zstd, plain[99:]),
		} {
			m, got, err := Read(iotest.OneByteReader(strings.NewReader(data)), ReadOptions{})
			if err != nil || got != f {
				t.Errorf("%v in %s: %v, %v", f, name, got, err)
			} else if encode(t, f, m.Snapshot()) != plain {
				t.Errorf("%v in %s: not the same map", f, name)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	bomb := compressed(t, Gzip, strings.Repeat("\n", 1<<20))
	nested := "a 1\n"
	for range maxLayers + 1 {
		nested = compressed(t, Gzip, nested)
	}
	type read struct {
		in     string
		limits ReadOptions
	}
	tests := map[string]read{
		"bytes":         {strings.Repeat("a 1\n", 100), ReadOptions{MaxBytes: 399}},
		"bomb":          {bomb, ReadOptions{MaxBytes: 1 << 19}},
		"bomb in bomb":  {compressed(t, Zstd, bomb), ReadOptions{MaxBytes: 1 << 19}},
		"pprof":         {"\x32\x00" + strings.Repeat("\x80\x01\x01", 100), ReadOptions{MaxBytes: 300 * 16}},
		"expansion":     {bomb, ReadOptions{MaxBytes: 4 << 20}},
		"inner bomb":    {compressed(t, Zstd, bomb), ReadOptions{MaxBytes: 4 << 20}},
		"layers":        {nested, ReadOptions{}},
		"steps":         {bomb, ReadOptions{MaxSteps: 1 << 19}},
		"layers' steps": {compressed(t, Gzip, bomb), ReadOptions{MaxSteps: 1<<20 + 100}},
		"line":          {strings.Repeat("a", 1<<20), ReadOptions{MaxElement: 1 << 19}},
		"attributes":    {"<ccmap " + strings.Repeat(`a="" `, 1<<18), ReadOptions{MaxElement: 1 << 19}},
		"nesting":       {`<ccmap version="1">` + strings.Repeat("<a>", maxNesting), ReadOptions{}},
		"value":         {`{"ccmap_version":1,"meta":{"intervals":[` + strings.Repeat("{},", 1<<18), ReadOptions{MaxElement: 1 << 19}},
	}
	for _, f := range Formats() {
		whole := encode(t, f, chain(300).Snapshot())
		tests[fmt.Sprint(f, " nodes")] = read{whole, ReadOptions{MaxNodes: 299}}
		tests[fmt.Sprint(f, " depth")] = read{whole, ReadOptions{MaxDepth: 299}}
		if f == Pprof {
			tests["frames' steps"] = read{whole, ReadOptions{MaxSteps: int64(len(whole)) + 300*301/2 - 1}}
			tests["frames"] = read{whole, ReadOptions{MaxFrames: 300*301/2 - 1}}
		}
		if f.Holds().Points != holdsNone {
			tests[fmt.Sprint(f, " points")] = read{encode(t, f, points().Snapshot()), ReadOptions{MaxPoints: 4}}
		}
		tests[fmt.Sprint(f, " methods")] = read{encode(t, f, small().Snapshot()), ReadOptions{MaxMethods: 4}}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := Read(strings.NewReader(test.in), test.limits); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestExpansion: a file may expand a hundred times, and a small one more.
func TestExpansion(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&lines, "a;b;c;d;e;%d 1\n", i)
	}
	for name, in := range map[string]string{
		"small":    compressed(t, Gzip, strings.Repeat("\n", 100<<10)+"a 1\n"),
		"profile":  compressed(t, Zstd, compressed(t, Gzip, lines.String())),
		"expanded": strings.Repeat("\n", 1<<19) + "a 1\n",
	} {
		if _, _, err := Read(strings.NewReader(in), ReadOptions{MaxBytes: 1 << 20}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMemoryRaisesBounds: a larger MaxMemory is enough to read a larger profile.
func TestMemoryRaisesBounds(t *testing.T) {
	t.Parallel()
	usual := ReadOptions{MaxMemory: 512 << 20}.WithDefaults()
	if small := (ReadOptions{MaxMemory: 1}).WithDefaults(); small.MaxBytes != 2<<30 || small.MaxNodes != usual.MaxNodes {
		t.Errorf("of a byte: %+v", small)
	}
	want := ReadOptions{
		MaxMemory: 2 << 30, MaxDepth: usual.MaxDepth, MaxBytes: 8 << 30, MaxMethods: 4 * usual.MaxMethods, MaxNodes: 4 * usual.MaxNodes,
		MaxPoints: 4 * usual.MaxPoints, MaxFrames: 4 * usual.MaxFrames, MaxElement: 4 * usual.MaxElement,
	}
	if got := (ReadOptions{MaxMemory: 2 << 30}).WithDefaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("of 2 GiB: %+v, want %+v", got, want)
	}
	if got := (ReadOptions{MaxMemory: 768 << 20}).WithDefaults(); got.MaxNodes != usual.MaxNodes/2*3 || got.MaxBytes != 3<<30 || got.MaxElement != usual.MaxElement/2*3 {
		t.Errorf("of 768 MiB: %+v, want one and a half of %+v", got, usual)
	}
	if got := (ReadOptions{MaxMemory: 1<<30 - 1}).WithDefaults(); got.MaxNodes != 2*usual.MaxNodes-1 {
		t.Errorf("of a byte less than 1 GiB: %+v", got)
	}
	if got := (ReadOptions{MaxMemory: 2 << 30, MaxNodes: 7}).WithDefaults(); got.MaxNodes != 7 {
		t.Errorf("a bound that was given is %d", got.MaxNodes)
	}
	all := ReadOptions{MaxMemory: math.MaxInt64}.WithDefaults()
	if all.MaxBytes != math.MaxInt64 || all.MaxNodes != math.MaxUint32-1 || all.MaxElement < 1<<50 || all.MaxDepth != usual.MaxDepth {
		t.Errorf("without a limit: %+v", all)
	}
	for _, f := range Formats() {
		whole := compressed(t, Gzip, encode(t, f, chain(300).Snapshot()))
		if _, _, err := Read(strings.NewReader(whole), ReadOptions{MaxMemory: math.MaxInt64}); err != nil {
			t.Errorf("%v without a limit: %v", f, err)
		}
	}
}

// Only what is held at once is bounded by MaxElement, not the document.
func TestElementsAreBoundedOneByOne(t *testing.T) {
	t.Parallel()
	for _, f := range []Format{XML, JSON} {
		deep := chain(3000)
		for i := range uint32(3000) {
			deep.AddPoint(ccmap.Point{Offset: i, Count: 1})
		}
		whole := encode(t, f, deep.Snapshot())
		m, _, err := Read(strings.NewReader(whole), ReadOptions{MaxElement: 16 << 10, MaxPoints: 3000})
		if err != nil || m.Len() != 3001 || len(m.Snapshot().Points()) != 3000 {
			t.Errorf("%v of %d bytes: %v", f, len(whole), err)
		}
	}
}

// What is at a limit, is within it.
func TestLimitsAreInclusive(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		whole := encode(t, f, chain(300).Snapshot())
		o := ReadOptions{MaxBytes: int64(len(whole)), MaxMethods: 1, MaxNodes: 300, MaxDepth: 300}
		if f == Pprof {
			o.MaxBytes *= pprofShare
		}
		if _, _, err := Read(strings.NewReader(whole), o); err != nil {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// Readers skip what they do not know, so that later versions can add to it.
func TestUnknownPartsAreSkipped(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`<?xml version="1.0"?><!-- c --><ccmap xmlns:x="u" version="1" x:new="1"><new><node/></new><meta new="1"><new/></meta>` +
			`<methods><new/><method name="m" new="1"><new/></method></methods><nodes><new/><node parent="0" method="0" samples="2" new="x"><new/></node></nodes></ccmap>`,
		"\ufeff" + ` {"$schema":"u","ccmap_version":1,"new":{"nodes":[1]},"meta":{"new":1},"methods":[{"name":"m","new":1}],"nodes":[{"parent":0,"method":0,"samples":2,"new":"x"}]} `,
	} {
		s := decode(t, in)
		if s.Len() != 2 || s.Total().Samples != 2 || s.ActivationsExact() {
			t.Errorf("%d nodes, %v, exact %t", s.Len(), s.Total(), s.ActivationsExact())
		}
	}
}

func TestFoldedOfOtherTools(t *testing.T) {
	t.Parallel()
	s := decode(t, "java;Main::run_[j];libc.so`malloc 12\r\n"+`C:\dir\app.exe;a+3 5`+"\n\na;;b\t7")
	want := map[string]ccmap.Counters{
		`/-1 "java" ""/-1 "Main::run_[j]" ""/-1 "libc.so` + "`" + `malloc" ""`: {Samples: 12, Time: 12},
		`/-1 "C:\\dir\\app.exe" ""/-1 "a+3" ""`:                                {Samples: 5, Time: 5},
		`/-1 "a" ""/-1 "[unknown]" ""/-1 "b" ""`:                               {Samples: 7, Time: 7},
	}
	got := contentOf(s).counted(func(c ccmap.Counters) ccmap.Counters { return c })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Frames may begin as XML and JSON do.
func TestFoldedInBrackets(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"<module> (a.py:1);f 12\n", "<main>;f 12\n", "<lambda> 12\n", "{main};f 12\n", "\ufeffmain;f 12\n",
	} {
		m, format, err := Read(strings.NewReader(in), ReadOptions{})
		if err != nil || format != Folded {
			t.Errorf("%q: %v, %v", in, format, err)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(in, "\ufeff"), ";")
		name = strings.TrimSuffix(name, " 12\n")
		if _, found := m.Names().Lookup(name, ""); !found || m.Snapshot().Total().Samples != 12 {
			t.Errorf("%q: %v without %q", in, m.Snapshot().Total(), name)
		}
	}
	for _, in := range []string{"<?xml version='1.0'?> ", "<!-- --> ", `<ccmap version="1"> `, "<html>", "<", "{", "{ }", `{"`} {
		if _, format, err := Read(strings.NewReader(in), ReadOptions{}); err == nil || format == Folded {
			t.Errorf("%q: %v, %v", in, format, err)
		}
	}
}

// A stack that is sampled at every depth has d²/2 frames in pprof.
func TestWriteBoundsFrames(t *testing.T) {
	t.Parallel()
	s := chain(12_000).Snapshot()
	if err := Write(io.Discard, Pprof, s); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "72006000 frames") {
		t.Error(err)
	}
	if err := Write(io.Discard, JSON, s); err != nil {
		t.Error(err)
	}
}

func TestWriteRefusesUnknownFormat(t *testing.T) {
	t.Parallel()
	if err := Write(io.Discard, 99, small().Snapshot()); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "format 99") {
		t.Error(err)
	}
}

func TestWriteRefusesTimesBeyondRFC3339(t *testing.T) {
	t.Parallel()
	m := small()
	m.Meta().Start = time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range []Format{XML, JSON, Pprof} {
		if err := Write(io.Discard, f, m.Snapshot()); err == nil || !strings.Contains(err.Error(), "start time") {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// Outputs of one session are written side by side, from one snapshot.
func TestWriteConcurrently(t *testing.T) {
	t.Parallel()
	s := small().Snapshot()
	var wg sync.WaitGroup
	for _, f := range Formats() {
		for range 4 {
			wg.Go(func() {
				if err := Write(io.Discard, f, s); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// TestProgress: of a file, each format tells parts that grow from 0 to 1, compressed or not. Of what has no size it tells
// that it does not know.
func TestProgress(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	for i := range 20_000 {
		m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: fmt.Sprint("f", i%3000), Signature: fmt.Sprint(i / 3000)})), ccmap.Counters{Samples: 1, Time: 1})
	}
	for _, f := range Formats() {
		var plain strings.Builder
		if err := Write(&plain, f, m.Snapshot()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []Compression{Plain, Gzip, Zstd} {
			data := plain.String()
			if c != Plain {
				data = compressed(t, c, data)
			}
			told := []float64{0}
			tell := func(part float64) {
				if last := told[len(told)-1]; part < last || part > 1 {
					t.Errorf("%v, compression %d: %v after %v", f, c, part, last)
				}
				told = append(told, part)
			}
			if _, _, err := Read(strings.NewReader(data), ReadOptions{Progress: tell, Ahead: true}); err != nil {
				t.Fatal(err)
			}
			if last := told[len(told)-1]; len(told) < 3 || last < 0.9 {
				t.Errorf("%v, compression %d: told %d times, at last %v", f, c, len(told)-1, last)
			}
			unknown := 0
			if _, _, err := Read(struct{ io.Reader }{strings.NewReader(data)}, ReadOptions{Progress: func(part float64) {
				if part < 0 {
					unknown++
				}
			}}); err != nil || unknown == 0 {
				t.Errorf("%v, compression %d, of no size: %v, told %d times", f, c, err, unknown)
			}
		}
	}
}

// TestLongPprof: a profile that is read in several pieces is read as a whole, and cut, it is not.
func TestLongPprof(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	for i := range 160 {
		name := fmt.Sprintf("%03d", i) + strings.Repeat("x", 256<<10)
		m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name})), ccmap.Counters{Samples: int64(i), Time: 1})
	}
	var plain strings.Builder
	if err := Write(&plain, Pprof, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if plain.Len() < 2*pieceBytes {
		t.Fatalf("%d bytes", plain.Len())
	}
	for _, c := range []Compression{Plain, Gzip} {
		data := plain.String()
		if c != Plain {
			data = compressed(t, c, data)
		}
		got, _, err := Read(strings.NewReader(data), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 160 {
			name := fmt.Sprintf("%03d", i) + strings.Repeat("x", 256<<10)
			id, known := got.Names().Lookup(name, "")
			if m, sampled := got.Snapshot().Method(id); !known || sampled && m.Self().Samples != int64(i) || !sampled && i > 0 {
				t.Fatalf("method %d is not there, or has other samples", i)
			}
		}
		if _, _, err := Read(struct{ io.Reader }{strings.NewReader(data[:len(data)/2])}, ReadOptions{}); err == nil {
			t.Error("half a profile is read")
		}
	}
}
