package gosym

import (
	"bytes"
	"debug/elf"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
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
	table.late.parts = time.Hour // on a slow machine, too
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
		for table.Renew(time.Second) == nil {
		}
		if !find() {
			t.Error("no symbol of a file that is fast again")
		}
	})
}

// TestLacks: a table says which file has no call frame information, and which one it had to do without, also once that
// has been read.
func TestLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bare, slow, sound := imageOf(t, withSymbols(1, "spin")), imageOf(t, withSymbols(1, "gets")), imageOf(t, withSymbols(1, "puts"))
		bare.path, slow.path = "/bare.so", "/slow.so"
		reader := &slowReader{slow.file.r, maxWait}
		slow.file.r = reader
		table := lateTable(bare, slow, sound)
		table.late.parts = time.Hour
		table.row(bare, 0x1000)
		table.lookup(sound, 0x1000)
		table.lookup(slow, 0x1000)
		reader.takes = 0
		for table.Renew(time.Second) == nil {
		}
		if _, _, ok := table.lookup(slow, 0x1000); !ok {
			t.Error("no symbol of a file that is fast again")
		}
		if got, want := table.Lacks(), []string{ccmap.CommentNoFrames + "/bare.so", ccmap.CommentUnread + "/slow.so"}; !slices.Equal(got, want) {
			t.Errorf("lacks %q, want %q", got, want)
		}
	})
}

// TestBusyMachineCostsNoFile: a load that waits for a processor, in a read or at any other moment, as one does on a
// busy machine, takes no time from other files. Without those files, stacks of a JVM's own threads had no root for a
// minute.
func TestBusyMachineCostsNoFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large, libc := imageOf(t, withSymbols(1, "JVM_Halt")), imageOf(t, withSymbols(1, "start_thread"))
		lacked := time.Hour
		busy := &slowReader{large.file.r, maxLate}
		large.file.r = readerFunc(func(p []byte, off int64) (int, error) {
			lacked += busy.takes
			return busy.ReadAt(p, off)
		})
		table := lateTable(large, libc)
		table.delay = func() (time.Duration, bool) { return lacked, true }
		if _, _, ok := table.lookup(large, 0x1000); !ok {
			t.Error("no symbol of a file that was read while the machine was busy")
		}
		table.loadLate(large, &large.unwindPart, func(*budget) { time.Sleep(maxLate) })
		if _, _, ok := table.lookup(libc, 0x1000); !ok {
			t.Error("no symbol of the next file")
		}
		if took := table.LoadTime(); took > time.Second {
			t.Errorf("loading took %v, nearly all of it waits for a processor", took)
		}
	})
}

// readerFunc is a file.
type readerFunc func(p []byte, off int64) (int, error)

func (f readerFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

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

// TestRenewKeepsGoodAnswers: a file that can be loaded again costs no answer that did not
// lack it.
func TestRenewKeepsGoodAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sound, slow, names := imageOf(t, withSymbols(1, "puts")), imageOf(t, withSymbols(1, "gets")), ccmap.NewNames()
		slow.file.r = &slowReader{slow.file.r, maxWait}
		slow.path, slow.bias = "/slow.so", 0x100000
		table := lateTable(sound, slow)
		table.areas = []area{{0x1000, 0x2000, sound}, {0x101000, 0x102000, slow}}
		for _, pc := range []uint64{0x1000, 0x101000, 0x500} {
			table.Stack([]uint64{pc}, names, nil)
			table.SPDelta(pc)
		}
		stale := table.Renew(maxLate)
		if stale == nil || stale(0x1000) || !stale(0x101000) || stale(0x500) {
			t.Fatalf("stale: %t", stale != nil)
		}
		if _, kept := table.frames[frameKey{pc: 0x1000}]; !kept || len(table.frames) != 2 || table.cached != 2 || len(table.deltas) != 3 {
			t.Errorf("frames of %d addresses are kept (%d), want 2; %d deltas, want 3", len(table.frames), table.cached, len(table.deltas))
		}
		if table.Renew(maxLate) != nil {
			t.Error("stale again, before the next look-up")
		}
	})
}

// TestPartsAndPagesShare: neither parts of files nor pages of tables wait for the other, and
// together they have no more time than is given.
func TestPartsAndPagesShare(t *testing.T) {
	t.Parallel()
	const most = maxLate / 2
	for name, c := range map[string]struct{ before, more, after late }{
		"slow parts":        {late{parts: -time.Hour, pages: 0}, late{parts: time.Second, pages: time.Second}, late{parts: -time.Hour + time.Second, pages: time.Second}},
		"slow pages":        {late{parts: 0, pages: -time.Hour}, late{parts: time.Second, pages: time.Second}, late{parts: time.Second, pages: -time.Hour + time.Second}},
		"pages need little": {late{parts: 0, pages: most}, late{parts: time.Second, pages: time.Second}, late{parts: 2 * time.Second, pages: most}},
		"parts need little": {late{parts: most, pages: 0}, late{parts: time.Second, pages: time.Second}, late{parts: most, pages: 2 * time.Second}},
		"a long pause":      {late{}, late{parts: time.Hour, pages: time.Hour}, late{parts: most, pages: most}},
	} {
		got := c.before
		if got.renew(c.more.parts + c.more.pages); got != c.after {
			t.Errorf("%s: %v and %v, want %v and %v", name, got.parts, got.pages, c.after.parts, c.after.pages)
		}
	}
	im := imageOf(t, withSymbols(1, "puts"))
	table := lateTable(im)
	table.Limit(1 << 30)
	table.late.pages = 0
	if _, _, ok := table.lookup(im, 0x1000); !ok {
		t.Error("pages have taken all the time: no symbol")
	}
	table.late.parts, table.late.pages = -time.Hour, most
	if n, err := table.readPage(strings.NewReader("page"), make([]byte, 4), 0); n != 4 || err != nil {
		t.Errorf("parts have taken all the time: a page has %d bytes, %v", n, err)
	}
}
