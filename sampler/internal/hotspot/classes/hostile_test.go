package classes

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// layout17 is the layout of OpenJDK 17.0.15.
var layout17 = layout{
	head: base, loaderNext: 112, loaderClasses: 56, loaderSize: 152, loaderName: 128,
	classShape: 8, className: 24, classSuper: 120, classLoader: 152, classNext: 144, classSize: 464, baseSize: 208,
	classMethods: 408, classDefaults: 416,
	methodConst: 8, methodData: 16, methodCode: 72, methodAccess: 40, methodSize: 88,
	constPool: 8, constSize: 24, constFlags: 28, constCodeSize: 32, constName: 34, constSignature: 36, constHeader: 48,
	hasLines: 1, poolHolder: 24, poolCache: 16, poolLength: 60, poolSource: 54, poolHeader: 72,
	symbolLength: 4, symbolBody: 6, arrayLength: 0, arrayData: 8,
	calls: callLayout{cacheHeader: 40, entrySize: 32},
	body: bodyLayout{
		known: true, tags: 8, operands: 32, references: 24, bytesData: 4, shortsData: 4,
		fields: callLayout{cacheHeader: 40, entrySize: 32}, dynamic: callLayout{cacheHeader: 40, entrySize: 32},
	},
	fields: fieldLayout{known: true, pool: 232, list: 456, data: 4, count: 310},
}

// base is where the memory of tests begins.
const base = 0x10000

// forged is memory that somebody has written: all of it is mapped up to its end.
type forged []byte

var errUnmapped = errors.New("not mapped")

func (f forged) Read(addr uint64, buf []byte) error {
	if addr < base || addr-base > uint64(len(f)) || uint64(len(buf)) > uint64(len(f))-(addr-base) {
		return errUnmapped
	}
	copy(buf, f[addr-base:])
	return nil
}

func (f forged) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i, addr := range addrs {
		if err := f.Read(addr, bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// FuzzMemory reads classes and methods of memory that holds anything.
func FuzzMemory(f *testing.F) {
	f.Add([]byte(strings.Repeat("\x00\x00\x01\x00\x00\x00\x00\x00", 100)), uint64(base)) // each word leads to the begin
	f.Add([]byte(strings.Repeat("\x08\x00\x01\x00\x00\x00\x00\x00", 100)), uint64(base+8))
	f.Add([]byte(strings.Repeat("(", 1000)), uint64(base))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		table := &Table{vm: &vmstructs.VM{Memory: forged(data)}, l: layout17}
		table.forget()
		if m, err := table.Method(addr); err == nil {
			if m.Name == "" || m.Descriptor == "" || m.Class == nil {
				t.Errorf("method %+v", m)
			}
			for i := range m.CodeSize {
				if c, ok := table.Callee(m, i); ok {
					table.Find(m.Class, c)
				}
			}
			m.Line(m.CodeSize)
			if hash, cost := table.Body(m); hash == 1<<64-1 || cost <= 0 {
				t.Errorf("the body %#x costs %d", hash, cost)
			}
		}
		if err := table.Walk(func(c *Class) bool {
			table.Recheck(table.Headers(nil, c))
			return true
		}); err != nil && len(data) >= 8 {
			t.Errorf("walk: %v", err)
		}
		table.Refresh()
	})
}

// FuzzBytecode: any bytes are instructions up to some point, one after the other.
func FuzzBytecode(f *testing.F) {
	f.Add([]byte{42, 180, 0, 1, 172})
	f.Add([]byte{opTableSwitch, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 9, 177})
	f.Add([]byte{228, 0, 0, 0, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2})
	f.Add([]byte{opWide, opIinc, 0, 1, 0, 1, 202, 255})
	f.Fuzz(func(t *testing.T, code []byte) {
		for at := 0; at < len(code); {
			i, next, ok := nextInstruction(code, at)
			if !ok {
				return
			}
			if next <= at || next > len(code) || len(i.rest) != next-at-1 || i.op > lastOp || lengths[i.op] != 0 && int(lengths[i.op]) != next-at {
				t.Fatalf("at %d: %+v, next at %d", at, i, next)
			}
			at = next
		}
	})
}

// FuzzFields: any bytes are fields up to some point, and no field lies outside of an object.
func FuzzFields(f *testing.F) {
	f.Add([]byte{2, 0, 1, 0, 2, 0, 0, 0, 0x31, 0, 0, 0}, uint64(base), uint16(1))
	f.Add([]byte{3, 1, 8, 9, 13, 3, 1, 8, 9, 17, 9, 6, 4, 5, 6}, uint64(base), uint16(2))
	f.Add([]byte(strings.Repeat("\xff", 100)), uint64(base+8), uint16(0xffff))
	f.Add([]byte(strings.Repeat("\x08\x00\x01\x00\x00\x00\x00\x00", 100)), uint64(base+8), uint16(7))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64, count uint16) {
		if n := len(plainFields(data, int(count))); n > int(count) || n > len(data)/12 {
			t.Fatalf("%d fields of %d in %d bytes", n, count, len(data))
		}
		for _, offset := range []byte{0, 1} {
			declared, added := compressedFields(data, offset)
			if n := len(declared) + len(added); max(len(declared), len(added)) > maxFields || n > len(data)/5 {
				t.Fatalf("%d fields in %d bytes", n, len(data))
			}
		}
		for _, compressed := range []bool{false, true} {
			table := &Table{vm: &vmstructs.VM{Memory: forged(data)}, l: layout17}
			table.l.fields.compressed = compressed
			table.forget()
			if at, err := table.Field(&Class{Address: addr}, "", ""); err == nil && (at == 0 || at > maxOffset) {
				t.Fatalf("a field at %d", at)
			}
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0x0a, 0xff, 2, 4, 0}, uint16(40), false)
	f.Add([]byte{0xff, 200, 200, 200, 200, 200, 200}, uint16(9), true)
	f.Add([]byte{0xff, 0, 0}, uint16(9), true)
	f.Fuzz(func(t *testing.T, data []byte, size uint16, noNulls bool) {
		offset := byte(0)
		if noNulls {
			offset = 1
		}
		m := Method{CodeSize: int(size), Lines: decodeLines(data, int(size), offset)}
		for i, l := range m.Lines {
			if int(l.Index) >= m.CodeSize || i > 0 && m.Lines[i-1].Index > l.Index {
				t.Fatalf("lines %v of %d bytes", m.Lines, size)
			}
		}
		for i := range m.CodeSize {
			if n := m.Line(i); n < 0 || n > 0xffff {
				t.Fatalf("line %d at %d", n, i)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"(I[Ljava/lang/String;)V", "java/util/Map$Entry", "[[I", "[", "[L", "$", " @", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range []string{javaName(s), loaderName(s)} {
			if len(name) > 3*len(s)+2*maxDimensions {
				t.Fatalf("%q gives %q", s, name)
			}
		}
		parameters := ccmap.Method{Signature: s, Coordinate: ccmap.CoordinateBytecode}.Parameters()
		if parameters != "" && (parameters[0] != '(' || len(parameters) > 9*len(s)+2) {
			t.Fatalf("%q takes %q", s, parameters)
		}
	})
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"java/util/Map$Entry":               "java.util.Map$Entry",
		"[[I":                               "int[][]",
		"[Ljava/lang/String;":               "java.lang.String[]",
		"Foo$$Lambda$45+0x00007f861c06f1c8": "Foo$$Lambda",
		"":                                  "",
		"[":                                 "[]",
	} {
		if got := javaName(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"app": "", "platform": "", "bootstrap": "", "'plugin-7' @1b2c": "plugin-7", "org.X$L @7f": "org.X$L", "'a @b' @1": "a @b", "'": "'",
	} {
		if got := loaderName(in); got != want {
			t.Errorf("loader %q is %q, want %q", in, got, want)
		}
	}
}
