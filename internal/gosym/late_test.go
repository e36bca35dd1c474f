package gosym

import (
	"bytes"
	"debug/elf"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// imageOf returns an image of an ELF file.
func imageOf(t *testing.T, file []byte) *image {
	t.Helper()
	f, err := readELF(testBudget(), bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return &image{path: "/made.so", file: f}
}

// withSymbols returns an ELF file with n functions of one name at an address.
func withSymbols(n int, name string) []byte {
	strtab := func(s string) elfPart {
		return elfPart{elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte(s)}
	}
	symbols := elfPart{elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 2}, bytes.Repeat(rawSymbol(1, elf.STT_FUNC, 1, 0x1000, 16), n)}
	return elfWith(strtab("\x00"), symbols, strtab("\x00"+name+"\x00"))
}

// lateTable returns a table of images.
func lateTable(images ...*image) *Table {
	t := newTable(0, bytesMemory{}, "", Options{})
	t.images = images
	return t
}

// TestBudgetOfEachFile: a file whose symbols take too much leaves the others theirs.
func TestBudgetOfEachFile(t *testing.T) {
	t.Parallel()
	hostile, sound := imageOf(t, withSymbols(3<<20, strings.Repeat("_", maxAlias))), imageOf(t, withSymbols(1, "puts"))
	table := lateTable(hostile, sound)
	if name, _, ok := table.lookup(hostile, 0x1000); ok {
		t.Errorf("symbol %.10q of a file with too many", name)
	}
	if name, _, ok := table.lookup(sound, 0x1000); !ok || name != "puts" {
		t.Errorf("symbol %q, %v after a hostile file, want puts", name, ok)
	}
	if table.held != sound.held {
		t.Errorf("%d bytes are held, of them %d by the sound file", table.held, sound.held)
	}
}

// slowReader takes its time for each read.
type slowReader struct {
	io.ReaderAt
	takes time.Duration
}

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(r.takes)
	return r.ReaderAt.ReadAt(p, off)
}

// TestSlowFileIsTriedAgain: symbols that took too long to read are there once the disk is
// fast again.
func TestSlowFileIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		im := imageOf(t, withSymbols(1, "puts"))
		slow := &slowReader{im.file.r, maxWait}
		im.file.r = slow
		table := lateTable(im)
		find := func() bool { _, _, ok := table.lookup(im, 0x1000); return ok }
		if find() {
			t.Error("a symbol of a file that is too slow")
		}
		slow.takes = 0
		if find() {
			t.Error("the file is tried again at once")
		}
		for !table.Renew(time.Second) {
		}
		if !find() {
			t.Error("no symbol of a file that is fast again")
		}
	})
}

// TestHostileFilesGetAShare: however often the time of look-ups is renewed, files whose
// symbols always take too long do not get more than that.
func TestHostileFilesGetAShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const share, seconds = 20, 10_000
		var images []*image
		for range 100 {
			im := imageOf(t, withSymbols(1, "puts"))
			im.file.r = &slowReader{im.file.r, maxWait}
			images = append(images, im)
		}
		table := lateTable(images...)
		for range seconds {
			for _, im := range images {
				table.lookup(im, 0x1000)
			}
			table.Renew(time.Second / share)
		}
		const longest = 2 * maxWait // a load has two reads
		if most := maxLate + longest + seconds*time.Second/share; table.LoadTime() > most || table.LoadTime() < most/4 {
			t.Errorf("loading took %v, want at most %v, and not far less", table.LoadTime(), most)
		}
	})
}
