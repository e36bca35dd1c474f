package gosym

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// sparse is memory of which some pages are written, and all others are zero, as
// memory is that a target has mapped and not touched: it costs the target nothing.
type sparse struct {
	bytesMemory
	end uint64
}

func (m sparse) readAt(p []byte, addr uint64) error {
	if addr < m.base || addr > m.end || uint64(len(p)) > m.end-addr {
		return errors.New("not mapped")
	}
	clear(p)
	if at := addr - m.base; at < uint64(len(m.b)) {
		copy(p, m.b[at:])
	}
	return nil
}

// TestTablesOverNothing loads a chain of modules whose tables are 1 GiB of pages
// that were never written.
func TestTablesOverNothing(t *testing.T) {
	t.Parallel()
	const size = 1 << 29
	m := madeModule()
	put := binary.LittleEndian
	for _, at := range []int{8, 16} { // of the function records: a length
		put.PutUint64(m.b[104+at:], size)
	}
	mem := sparse{m, madeBase + 1<<31}
	l := &load{budget: testBudget(), mem: mem, maps: space{{start: m.base, end: mem.end, read: true, write: true, exec: true, path: "/made"}}}
	table := newTable(0, mem, "/made", Options{})
	table.images = groupImages(l.maps)
	if err := table.loadChain(l, madeBase); !errors.Is(err, ErrTooMuch) {
		t.Errorf("error %v, want ErrTooMuch", err)
	}
	if l.hold < 0 || l.read < 0 || l.steps < 0 {
		t.Errorf("the budget was exceeded: %+v", l.budget)
	}
}

// TestBudgetIsOne: reading, holding and steps of one load end together, and stay so.
func TestBudgetIsOne(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(*budget) error{
		"read":             func(b *budget) error { return b.reading(maxRead + 1) },
		"hold":             func(b *budget) error { return b.holding(maxHeld + 1) },
		"steps":            func(b *budget) error { return b.work(maxWork + 1) },
		"more than an int": func(b *budget) error { return b.holding(bounded(math.MaxUint64)) },
	} {
		b := testBudget()
		if err := draw(b); !errors.Is(err, ErrTooMuch) {
			t.Errorf("%s: error %v, want ErrTooMuch", name, err)
		}
		if b.work(1) == nil || b.reading(1) == nil || b.holding(1) == nil {
			t.Errorf("%s: something is left", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, os.Getpid(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a context that is done: %v", err)
	}
}

// slowMemory takes its time for each read.
type slowMemory struct{ takes time.Duration }

func (m slowMemory) readAt([]byte, uint64) error {
	time.Sleep(m.takes)
	return nil
}

// TestWaiting: a load that gets no processor goes on when it does; one that waits for its
// target ends.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testBudget()
		time.Sleep(time.Hour)
		if err := b.work(maxWork); err != nil {
			t.Errorf("work on a busy machine: %v", err)
		}
		l, start := &load{budget: testBudget(), mem: slowMemory{time.Second / 3}}, time.Now()
		_, err := l.bytes(0, maxHeld)
		if took := time.Since(start); !errors.Is(err, ErrTooMuch) || took > maxWait+time.Second {
			t.Errorf("reading slow memory: %v after %v, want %v within %v", err, took, ErrTooMuch, maxWait)
		}
	})
}

// TestWaitingForProcessor: reads in which the thread gets no processor are not the target's
// fault, and where nothing tells them apart, the error says so.
func TestWaitingForProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			lacks time.Duration // a processor, in each read of a second
			want  string        // error; "": none
		}{
			{time.Second, ""},
			{950 * time.Millisecond, ""},
			{800 * time.Millisecond, "its memory or file is too slow: "},
			{0, "its memory or file is too slow: "},
			{-1, "its memory or file is too slow, or this machine is too busy: "}, // not known
		} {
			b, delay := testBudget(), time.Hour
			b.delay = newRunDelay(func() (time.Duration, bool) { return delay, c.lacks >= 0 })
			l, err := &load{budget: b, mem: slowMemory{time.Second}}, error(nil)
			for range 50 {
				delay += c.lacks
				err = l.readAt(make([]byte, 1), 0)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("reads of 1 s that lack a processor for %v: %v, want %q", c.lacks, err, c.want)
			}
		}
	})
}

// TestRunDelay runs two threads on one processor until one has waited for the other.
func TestRunDelay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12 345 6\n": "345ns", "0 0 1\n": "0s", "0 0 0\n": "", "12 345": "", "12 -x 6": "", "": "",
	} {
		got, ok := parseRunDelay([]byte(text), true)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, got, ok, want)
		}
	}
	if _, ok := readRunDelay(); !ok {
		t.Fatal("the kernel does not tell (CONFIG_SCHED_INFO)")
	}
	var one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	for cpu, left := 0, one.Count(); left > 1; cpu++ {
		if one.IsSet(cpu) {
			one.Clear(cpu)
			left--
		}
	}
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			defer done()
			runtime.LockOSThread() // for good: it ends with the goroutine
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
				return
			}
			begin, _ := readRunDelay()
			for now := begin; now < begin+time.Millisecond && ctx.Err() == nil; now, _ = readRunDelay() {
			}
		})
	}
	all.Wait()
}

// TestLongNames has a name that does not end, and one that ends too late.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := "\x00" + strings.Repeat("ä", maxName) + "\x00"
	for off, want := range map[uint32]int{1: maxName - 1, 2: maxName - 1, uint32(len(long) - 3): 2} {
		if got := len(terminated(long, off)); got < want-1 || got > want {
			t.Errorf("name at %d has %d bytes, want %d", off, got, want)
		}
	}
	for _, endless := range []string{"main.f", strings.Repeat("x", maxName-1)} {
		if got := terminated(endless, 0); got != "" {
			t.Errorf("%d bytes without an end are a name of %d", len(endless), len(got))
		}
	}
}

// TestNamesAreBounded resolves functions with names of the longest kind until there
// are too many.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	table := newTable(0, bytesMemory{}, "", Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	names := ccmap.NewNames()
	last, long := ccmap.MethodID(0), strings.Repeat("x", maxName)
	for i := range 2 * maxNamed / maxName {
		last = table.intern(names, ccmap.Method{Name: long + string(rune(i))})
	}
	if got := names.At(last).Name; got != ccmap.UnknownName || names.Len() > ccmap.NewNames().Len()+maxNamed/maxName+1 {
		t.Errorf("%d names, the last %q", names.Len(), got)
	}
	if strings.Count(log.String(), "too many names") != 1 {
		t.Errorf("log: %s", &log)
	}
	if id := table.intern(names, ccmap.Method{Name: long + "\x00"}); names.At(id).Name != long+"\x00" {
		t.Errorf("a name that was given before is %.20q now", names.At(id).Name)
	}
}

// TestLookUpsEnd expands an inline tree that goes in a circle, through a table of a
// million steps.
func TestLookUpsEnd(t *testing.T) {
	t.Parallel()
	m, err := loadMade(madeModule())
	if err != nil {
		t.Fatal(err)
	}
	const steps = 1 << 20
	m.pctab.bytes = append([]byte{0}, bytes.Repeat([]byte{2, 1}, steps)...)
	m.text, m.maxpc = madeText, madeText+1<<30
	binary.LittleEndian.PutUint32(m.ftab[8:], 1<<30)
	binary.LittleEndian.PutUint32(m.ftab[16:], 1<<30)
	table := newTable(0, bytesMemory{}, "", Options{})
	table.modules = []*module{m}
	table.inlined(madeText+steps-1, false, nil)
	if used := math.MaxInt - table.steps; used > maxLookUp+maxInlined {
		t.Errorf("%d steps for one address", used)
	}
	const limit = maxLookUp / 4
	table.Limit(limit)
	for pc := range uint64(100) {
		table.inlined(madeText+steps-pc, false, nil)
		table.SPDelta(madeText + steps - pc)
	}
	if !table.Exceeded() || table.steps < -100*maxInlined {
		t.Errorf("%d steps are left of %d", table.steps, limit)
	}
	if len(table.deltas) > 1 {
		t.Errorf("%d addresses that were not looked up are in the cache", len(table.deltas))
	}
	table.Limit(math.MaxInt)
	if _, ok := table.SPDelta(madeText); !ok {
		t.Error("an address stays unknown after the limit")
	}
}

// elfWith returns an ELF file with sections, each by its header and content. The
// first must be their names.
func elfWith(sections ...elfPart) []byte {
	var file bytes.Buffer
	h := elf.Header64{Shoff: elfHeader, Shnum: uint16(len(sections)), Shentsize: sectionSize, Phentsize: segmentSize}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	binary.Write(&file, binary.LittleEndian, h)
	at := uint64(elfHeader + sectionSize*len(sections))
	for _, s := range sections {
		s.header.Off = at
		if s.header.Size == 0 {
			s.header.Size = uint64(len(s.content))
		}
		at += uint64(len(s.content))
		binary.Write(&file, binary.LittleEndian, s.header)
	}
	for _, s := range sections {
		file.Write(s.content)
	}
	return file.Bytes()
}

type elfPart struct {
	header  elf.Section64
	content []byte
}

// TestHostileELF reads files whose headers claim more than there is, and more than
// may be.
func TestHostileELF(t *testing.T) {
	t.Parallel()
	strtab := func(s string) elfPart {
		return elfPart{elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte(s)}
	}
	symbols := func(n int, typ elf.SymType) elfPart {
		return elfPart{
			elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 2},
			bytes.Repeat(rawSymbol(1, typ, 1, 0x1000, 1), n),
		}
	}
	const million = 1 << 20
	long := strtab("\x00" + strings.Repeat("f", 20*million) + "\x00")
	for name, file := range map[string][]byte{
		"many objects with one name":    elfWith(strtab("\x00"), symbols(million, elf.STT_OBJECT), long),
		"many functions at one address": elfWith(strtab("\x00"), symbols(million, elf.STT_FUNC), long),
		"notes larger than the file": elfWith(strtab("\x00"), elfPart{
			elf.Section64{Type: uint32(elf.SHT_NOTE), Size: 1 << 62}, nil,
		}),
		"names larger than memory": elfWith(elfPart{elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: 1 << 62}, nil}),
		"compressed names": elfWith(elfPart{
			elf.Section64{Type: uint32(elf.SHT_STRTAB), Flags: uint64(elf.SHF_COMPRESSED)}, make([]byte, 24),
		}),
	} {
		b := testBudget()
		f, err := readELF(b, bytes.NewReader(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, ok := findObject(b, f, "runtime.firstmoduledata"); ok {
			t.Errorf("%s: found", name)
		}
		if s := (&Table{log: slog.New(slog.DiscardHandler)}).symbolsOf(b, &image{path: "/made", file: f}); len(s.list) > 1 {
			t.Errorf("%s: %d symbols", name, len(s.list))
		}
		buildID(b, f)
		if b.spent != nil && !errors.Is(b.spent, ErrTooMuch) {
			t.Errorf("%s: %v", name, b.spent)
		}
	}
}

// TestDebugBomb expands a section that claims and holds more than may be held.
func TestDebugBomb(t *testing.T) {
	t.Parallel()
	zeros := strings.NewReader("") // it ends before it holds what it claims
	b := testBudget()
	if _, err := expand(b, zeros, maxHeld+1); !errors.Is(err, ErrTooMuch) {
		t.Errorf("error %v, want ErrTooMuch", err)
	}
	if _, err := expand(testBudget(), zeros, 1<<20); err == nil {
		t.Error("a section that ends early is expanded")
	}
}

// FuzzDWARF takes any bytes for debug information and its abbreviations.
func FuzzDWARF(f *testing.F) {
	f.Add([]byte("\x01\x11\x01\x00\x00\x02\x13\x01\x03\x08\x00\x00\x03\x0d\x00\x03\x08\x38\x0f\x00\x00\x00"),
		[]byte("\x25\x00\x00\x00\x04\x00\x00\x00\x00\x00\x08\x01\x02runtime.g\x00\x03stack\x00\x08\x00\x00"))
	f.Add([]byte("\x81"), []byte("\x0a\x00\x00\x00\x05\x00\x01\x08\x00\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, abbrevs, info []byte) {
		w := &structWalk{budget: testBudget(), abbrevs: abbrevs, fields: map[string]map[string]uint64{"runtime.g": nil}, missing: 1}
		if w.walk(info) == nil && w.missing == 0 && w.fields["runtime.g"] == nil {
			t.Error("a struct was found that is not there")
		}
		layoutFromStructs(w.fields)
	})
}

// TestSymbolsDoNotWrap has a symbol whose address in the process is beyond the end of
// all addresses, and so, by its number, after the code that asks.
func TestSymbolsDoNotWrap(t *testing.T) {
	t.Parallel()
	table := newTable(0, bytesMemory{}, "", Options{})
	im := &image{file: &elfFile{}, symbolsPart: part{loaded: true}, bias: 1 << 63, symbols: symbols{names: "f\x00", list: []symbol{{addr: 1 << 62}}}}
	if name, entry, ok := table.lookup(im, 0x1000); ok {
		t.Errorf("symbol %q at %#x for an address before it", name, entry)
	}
}
