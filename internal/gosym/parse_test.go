package gosym

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReceiver(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"net/http.(*conn).serve":                                        "*net/http.conn",
		"time.Time.String":                                              "time.Time",
		"time.Time.String-fm":                                           "time.Time",
		"sync/atomic.(*Pointer[go.shape.int]).Load":                     "*sync/atomic.Pointer[go.shape.int]",
		"a.b/c%2ed.T[a.b/x.Y].M":                                        "a.b/c%2ed.T[a.b/x.Y]",
		"gopkg.in/yaml%2ev3.(*Node).Decode":                             "*gopkg.in/yaml%2ev3.Node",
		"main.(*K[struct { main.a int },func(int) net/http.Request]).M": "*main.K[struct { main.a int },func(int) net/http.Request]",
		"main.T·1.M":                                                    "main.T·1",
		"go:struct { main.V; main.x [3]net/http.Request }.M":            "struct { main.V; main.x [3]net/http.Request }",
		"go:(*struct { *main.V }).M":                                    "*struct { *main.V }",
		"go:(*struct { *main.V }).main.m":                               "*struct { *main.V }",
		"go.struct { main.V; main.x [3]net/http.Request }.M":            "struct { main.V; main.x [3]net/http.Request }", // Go 1.18, 1.19
		"go.(*struct { *main.V }).M":                                    "*struct { *main.V }",
		"go.T.M":                                                        "go.T", // of a package that is named go
		"type..eq.main.T":                                               "",
		"type..hash.struct { a.b }":                                     "",
		"type:.eq.main.T":                                               "",
		"type:.eq.[2]string":                                            "",
		"type:.hash.struct { a.b }":                                     "",
		"main.main":                                                     "",
		"main.main.func1":                                               "",
		"main.main.func1.2":                                             "",
		"main.main.gowrap1":                                             "",
		"main.main.deferwrap12":                                         "",
		"main.init.0":                                                   "",
		"main.walk-range1":                                              "",
		"main.T.walk-range1":                                            "",
		"main.(*T).run.func1":                                           "",
		"main.T.run.func1":                                              "",
		"main.Map[go.shape.int,main.T]":                                 "",
		"main.Map[a.b/c.D].func1":                                       "",
		"memmove":                                                       "",
		"go:buildid":                                                    "",
		"":                                                              "",
		".":                                                             "",
		"a.(*":                                                          "",
		"a.(*b.c":                                                       "",
	} {
		if got := receiver(name); got != want {
			t.Errorf("receiver of %q: %q, want %q", name, got, want)
		}
	}
}

func TestParseMaps(t *testing.T) {
	t.Parallel()
	const text = `00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a program
7ffe2b7a4000-7ffe2b7a6000 r-xp 00000000 00:00 0                          [vdso]
35b1800000-35b1820000 rw-p 00000000 00:00 0
not a mapping
00500000-00400000 r-xp 00000000 00:00 0 /backwards
7f0000000000-7f0000001000 r--p 00000000 08:02 5 /a\012b (deleted)
`
	want := space{
		{start: 0x400000, end: 0x452000, offset: 0x1000, read: true, exec: true, device: 0x802, inode: 173521, path: "/usr/bin/a program"},
		{start: 0x7ffe2b7a4000, end: 0x7ffe2b7a6000, read: true, exec: true, path: "[vdso]"},
		{start: 0x35b1800000, end: 0x35b1820000, read: true, write: true},
		{start: 0x7f0000000000, end: 0x7f0000001000, read: true, device: 0x802, inode: 5, path: "/a\nb (deleted)"},
	}
	got, err := parseMaps(testBudget(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}

func TestCovered(t *testing.T) {
	t.Parallel()
	s := space{
		{start: 10, end: 20, read: true}, {start: 20, end: 30, read: true, exec: true},
		{start: 30, end: 40, exec: true}, {start: 50, end: 60, read: true},
	}
	for _, c := range []struct {
		addr, want uint64
		ok         func(mapping) bool
	}{{10, 20, readable}, {15, 15, readable}, {20, 20, executable}, {5, 0, readable}, {45, 0, readable}, {55, 5, readable}, {60, 0, readable}} {
		l := &load{budget: testBudget(), maps: s}
		if got := l.covered(c.addr, 1<<20, c.ok); got != c.want {
			t.Errorf("covered(%d) = %d, want %d", c.addr, got, c.want)
		}
	}
}

func TestMinorVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"go1.26.8": 26, "go1.20": 20, "go1.19.8": 19, "go1.27-devel_4e3d": 27, "devel go1.25-abc Mon": 25,
		"go1.22.0 X:rangefunc": 22, "": 0, "go2.1": 0, "go1.": 0, "go1.99999999999999999999": 0,
	} {
		if got := minorVersion(version); got != want {
			t.Errorf("minor version of %q: %d, want %d", version, got, want)
		}
	}
}

// rawSymbol encodes an Elf64_Sym.
func rawSymbol(name uint32, typ elf.SymType, section uint16, addr, size uint64) []byte {
	b := make([]byte, symbolSize)
	binary.LittleEndian.PutUint32(b, name)
	b[4] = byte(typ)
	binary.LittleEndian.PutUint16(b[6:], section)
	binary.LittleEndian.PutUint64(b[8:], addr)
	binary.LittleEndian.PutUint64(b[16:], size)
	return b
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	const names = "\x00__libc_malloc\x00malloc\x00start\x00variable\x00imported\x00"
	at := func(name string) uint32 { return uint32(strings.Index(names, "\x00"+name+"\x00") + 1) }
	var raw []byte
	raw = append(raw, rawSymbol(at("__libc_malloc"), elf.STT_FUNC, 1, 0x100, 0x20)...)
	raw = append(raw, rawSymbol(at("malloc"), elf.STT_FUNC, 1, 0x100, 0x20)...)
	raw = append(raw, rawSymbol(at("variable"), elf.STT_OBJECT, 1, 0x110, 8)...)
	raw = append(raw, rawSymbol(at("imported"), elf.STT_FUNC, 0, 0x118, 8)...)
	raw = append(raw, rawSymbol(at("start"), elf.STT_FUNC, 1, 0x200, 0)...)
	raw = append(raw, rawSymbol(1<<30, elf.STT_FUNC, 1, 0x300, 0)...)
	s := symbols{names: names}
	if err := errors.Join(s.add(testBudget(), append(raw, 1, 2, 3)), s.sort(testBudget())); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{
		0xff: "", 0x100: "malloc", 0x11f: "malloc", 0x120: "", 0x1ff: "", 0x200: "start", 0x2ff: "start", 0x300: "",
	} {
		if name, entry, ok := s.find(addr); name != want || ok != (want != "") || entry > addr {
			t.Errorf("symbol at %#x: %q from %#x, want %q", addr, name, entry, want)
		}
	}
}

// TestLayoutIsDWARFs compares the table of layouts with the debug information
// of a program of this Go version.
func TestLayoutIsDWARFs(t *testing.T) {
	t.Parallel()
	table, err := OpenFile(t.Context(), plain.binary(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	want, err := layoutFromDWARF(testBudget(), table.images[0].file)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := table.layout, table.hasLayout
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("layout (-DWARF +table):\n%s", diff)
	}
}

// zeros is memory that was never written.
type zeros struct{}

func (zeros) readAt(p []byte, _ uint64) error {
	clear(p)
	return nil
}

// TestZerosAreNoTrees: the moduledata of a running program has words that lead to
// variables, too, which may all be zero.
func TestZerosAreNoTrees(t *testing.T) {
	t.Parallel()
	m := &module{names: "first\x00second\x00"}
	if m.areTrees(&load{budget: testBudget(), mem: zeros{}}, 0x1000, []tree{{off: 0, size: 64}, {off: 32, size: 64}}) {
		t.Error("zeros were taken for inline trees")
	}
}
