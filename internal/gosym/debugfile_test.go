package gosym

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

const (
	madeID  = "ab0102030405060708090a0b0c0d0e0f10111213"
	otherID = "cd0102030405060708090a0b0c0d0e0f10111213"
)

// stringsPart is a section of texts.
func stringsPart(s string) elfPart {
	return elfPart{elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte(s)}
}

// notePart is a section with a build id in hex.
func notePart(id string) elfPart {
	raw := make([]byte, len(id)/2)
	for i := range raw {
		raw[i] = unhex(id[2*i])<<4 | unhex(id[2*i+1])
	}
	note := binary.LittleEndian.AppendUint32(nil, 4)
	note = binary.LittleEndian.AppendUint32(note, uint32(len(raw)))
	note = binary.LittleEndian.AppendUint32(note, noteGNUBuildID)
	return elfPart{elf.Section64{Type: uint32(elf.SHT_NOTE)}, append(append(note, "GNU\x00"...), raw...)}
}

func unhex(c byte) byte { return byte(strings.IndexByte("0123456789abcdef", c)) }

// packed compresses a section as objcopy does.
func packed(p elfPart) elfPart {
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: uint64(len(p.content)), Addralign: 1})
	z := zlib.NewWriter(&out)
	z.Write(p.content)
	z.Close()
	p.header.Flags |= uint64(elf.SHF_COMPRESSED)
	p.content = out.Bytes()
	return p
}

// tablePart is a symbol table with one function at 0x1000, whose name is in the section after it.
func tablePart(typ elf.SectionType, names uint32) elfPart {
	return elfPart{elf.Section64{Type: uint32(typ), Link: names}, rawSymbol(1, elf.STT_FUNC, 1, 0x1000, 16)}
}

// debugFileOf returns a debug file with a build id and one function.
func debugFileOf(id, name string) []byte {
	return elfWith(stringsPart("\x00"), notePart(id), tablePart(elf.SHT_SYMTAB, 3), stringsPart("\x00"+name+"\x00"))
}

// strippedFile returns a library that exports one function. An id or a link that is empty is missing.
func strippedFile(id, link string, sum uint32) []byte {
	parts := []elfPart{stringsPart("\x00.gnu_debuglink\x00"), tablePart(elf.SHT_DYNSYM, 2), stringsPart("\x00exported\x00")}
	if id != "" {
		parts = append(parts, notePart(id))
	}
	if link != "" {
		raw := append([]byte(link), make([]byte, 4-len(link)%4)...)
		raw = binary.LittleEndian.AppendUint32(raw, sum)
		parts = append(parts, elfPart{elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS)}, raw})
	}
	return elfWith(parts...)
}

// place writes a file below a directory, for all users to read.
func place(t *testing.T, directory, name string, content []byte) {
	t.Helper()
	name = filepath.Join(directory, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestDebugFiles looks for the debug files of a stripped library, which exports one function. The library is
// /lib/made.so.
func TestDebugFiles(t *testing.T) {
	t.Parallel()
	const byID = ".build-id/ab/0102030405060708090a0b0c0d0e0f10111213.debug"
	const inCache = madeID + "/debuginfo"
	sound, other, plain := debugFileOf(madeID, "static"), debugFileOf(otherID, "static"), debugFileOf("", "static")
	sum := crc32.ChecksumIEEE
	for name, test := range map[string]struct {
		library []byte
		install func(t *testing.T, own, cache string)
		want    string
	}{
		"nothing installed": {strippedFile(madeID, "", 0), func(*testing.T, string, string) {}, "exported"},
		"by build id":       {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) { place(t, own, byID, sound) }, "static"},
		"in the cache":      {strippedFile(madeID, "", 0), func(t *testing.T, _, cache string) { place(t, cache, inCache, sound) }, "static"},
		"by link":           {strippedFile(madeID, "x.debug", sum(sound)), func(t *testing.T, own, _ string) { place(t, own, "lib/x.debug", sound) }, "static"},
		"by link, without a build id": {
			strippedFile("", "x.debug", sum(plain)), func(t *testing.T, own, _ string) { place(t, own, "lib/x.debug", plain) }, "static",
		},
		"another build":            {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) { place(t, own, byID, other) }, "exported"},
		"another build's in cache": {strippedFile(madeID, "", 0), func(t *testing.T, _, cache string) { place(t, cache, inCache, other) }, "exported"},
		"another build's by link": {
			strippedFile(madeID, "x.debug", sum(other)), func(t *testing.T, own, _ string) { place(t, own, "lib/x.debug", other) }, "exported",
		},
		"another checksum": {
			strippedFile("", "x.debug", sum(plain)+1), func(t *testing.T, own, _ string) { place(t, own, "lib/x.debug", plain) }, "exported",
		},
		"another build, then the cache": {strippedFile(madeID, "", 0), func(t *testing.T, own, cache string) {
			place(t, own, byID, other)
			place(t, cache, inCache, sound)
		}, "static"},
		"not for all users": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, byID, sound)
			os.Chmod(filepath.Join(own, byID), 0o640)
		}, "exported"},
		"the caller's alone, in the cache": {strippedFile(madeID, "", 0), func(t *testing.T, _, cache string) {
			place(t, cache, inCache, sound)
			os.Chmod(filepath.Join(cache, inCache), 0o400)
		}, "static"},
		"a pipe": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, byID, nil)
			name := filepath.Join(own, byID)
			if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o644)); err != nil {
				t.Fatal(err)
			}
		}, "exported"},
		"a link within": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, "lib/x.debug", sound)
			place(t, own, ".build-id/ab/other", nil)
			os.Symlink("../../lib/x.debug", filepath.Join(own, byID))
		}, "static"},
		"a link out of the directory": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, "../x.debug", sound)
			place(t, own, ".build-id/ab/other", nil)
			os.Symlink("../../../x.debug", filepath.Join(own, byID))
		}, "exported"},
		"a link by a path": {
			strippedFile("", "../x.debug", sum(plain)), func(t *testing.T, own, _ string) { place(t, own, "x.debug", plain) }, "exported",
		},
		"a short build id": {strippedFile("ab01", "", 0), func(t *testing.T, own, _ string) {
			place(t, own, ".build-id/ab/01.debug", debugFileOf("ab01", "static"))
		}, "exported"},
		"a compressed table": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, byID, elfWith(stringsPart("\x00"), notePart(madeID), packed(tablePart(elf.SHT_SYMTAB, 3)), packed(stringsPart("\x00static\x00"))))
		}, "static"},
		"a versioned symbol": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			place(t, own, byID, debugFileOf(madeID, "static@@MADE_1.0"))
		}, "static"},
		"too many symbols": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) {
			many := tablePart(elf.SHT_SYMTAB, 3)
			many.content = bytes.Repeat(many.content, 2<<20)
			place(t, own, byID, elfWith(stringsPart("\x00"), notePart(madeID), many, stringsPart("\x00static\x00")))
		}, "exported"},
		"not an ELF file": {strippedFile(madeID, "", 0), func(t *testing.T, own, _ string) { place(t, own, byID, []byte("static")) }, "exported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, cache := filepath.Join(t.TempDir(), "own"), t.TempDir()
			test.install(t, own, cache)
			im := imageOf(t, test.library)
			im.path = "/lib/made.so"
			table := lateTable(im)
			table.debug = debugFiles{directory: own, cache: cache}
			table.late.parts = math.MaxInt64 // on a slow machine, too
			if got, _, _ := table.lookup(im, 0x1008); got != test.want {
				t.Errorf("symbol %q, want %q", got, test.want)
			}
			if table.held != im.held {
				t.Errorf("the table holds %d bytes, its image %d", table.held, im.held)
			}
		})
	}
}

// TestDebugFilesInTarget looks in the root of a process in a root of its own, where a link to an absolute path
// leads to a file of that root.
func TestDebugFilesInTarget(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root may change the root of a process")
	}
	root := programtest.PublicDir(t, 0o755)
	const name = "/usr/lib/debug/.build-id/ab/0102030405060708090a0b0c0d0e0f10111213.debug"
	place(t, root, "/usr/lib/x.debug", debugFileOf(madeID, "static"))
	place(t, root, filepath.Dir(name)+"/other", nil)
	if err := os.Symlink("/usr/lib/x.debug", root+name); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(plain.binary(t))
	if err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, filepath.Join(root, "target"), content)
	cmd := exec.Command("/target")
	cmd.SysProcAttr = &unix.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if own := debugFilesOf(os.Getpid(), ""); own.inTarget != "" {
		t.Errorf("this process: %+v", own)
	}
	im := imageOf(t, strippedFile(madeID, "", 0))
	table := lateTable(im)
	table.debug = debugFilesOf(cmd.Process.Pid, "")
	if got, _, _ := table.lookup(im, 0x1008); got != "static" {
		t.Errorf("symbol %q", got)
	}
}

// TestDebugFileOfProgram takes the symbols of a stripped cgo program out of a debug file that objcopy has made.
func TestDebugFileOfProgram(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("objcopy"); err != nil {
		testrun.Lacks(t, "no objcopy: install binutils")
	}
	dir := t.TempDir()
	stripped := filepath.Join(dir, "stripped")
	id := gnuBuildID(t, withCgo.binary(t))
	debug := filepath.Join(dir, id, "debuginfo")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--only-keep-debug", "--compress-debug-sections", withCgo.binary(t), debug},
		{"--strip-all", withCgo.binary(t), stripped},
	} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	p := start(t, stripped)
	var at cReport
	p.read(t, &at)
	for cache, own := range map[string]string{dir: "own_function", "": ccmap.UnknownName} {
		table, err := Open(t.Context(), p.Process.Pid, Options{SymbolCache: cache})
		if err != nil {
			t.Fatal(err)
		}
		want := []symbolAt{{KindGo, "main.main"}, {KindC, own}}
		if diff := cmp.Diff(want, symbolsAt(table, at.Go, at.Own)); diff != "" {
			t.Errorf("cache %q (-want +got):\n%s", cache, diff)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHalfOfABudget: what fails may take half, and leaves the memory.
func TestHalfOfABudget(t *testing.T) {
	t.Parallel()
	b := &budget{read: 100, hold: 100, steps: 1 << 20}
	if err := b.half(func(b *budget) error { return b.holding(60) }); !errors.Is(err, ErrTooMuch) || b.hold != 100 || b.spent != nil {
		t.Errorf("%v, %d bytes are left, %v", err, b.hold, b.spent)
	}
	if err := b.half(func(b *budget) error { return errors.Join(b.holding(20), b.reading(20)) }); err != nil || b.hold != 80 || b.read != 80 {
		t.Errorf("%v, %d bytes are left, %d to read", err, b.hold, b.read)
	}
	if err := b.half(func(b *budget) error { b.holding(20); return fs.ErrInvalid }); !errors.Is(err, fs.ErrInvalid) || b.hold != 80 {
		t.Errorf("%v, %d bytes are left", err, b.hold)
	}
}

// FuzzDebugFile takes any bytes for a debug file, and for the link to it.
func FuzzDebugFile(f *testing.F) {
	f.Add(debugFileOf(madeID, "static"), []byte("x.debug\x00\x01\x02\x03\x04"))
	f.Add(elfWith(stringsPart("\x00"), notePart(madeID), packed(tablePart(elf.SHT_SYMTAB, 3)), packed(stringsPart("\x00static\x00"))), []byte("\x00"))
	f.Fuzz(func(t *testing.T, file, link []byte) {
		if name, _, ok := parseDebugLink(link); ok && filepath.Base(name) != name {
			t.Errorf("a link to %q", name)
		}
		b := testBudget()
		debugFile{checked: true, sum: crc32.ChecksumIEEE(file)}.read(b, bytes.NewReader(file), "")
		s, err := debugFile{}.read(b, bytes.NewReader(file), madeID)
		if err != nil {
			return
		}
		for _, sym := range s.list {
			if name, entry, ok := s.find(sym.addr); ok && (name == "" || entry > sym.addr) {
				t.Errorf("symbol %q at %#x for %#x", name, entry, sym.addr)
			}
		}
	})
}
