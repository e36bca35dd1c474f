package gosym

import (
	"bytes"
	"errors"
	"hash/maphash"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestOneProgramHasOneTable: two loads of a program hold the same tables.
func TestOneProgramHasOneTable(t *testing.T) {
	t.Parallel()
	a, b := openProcess(t, os.Getpid()).modules[0], openProcess(t, os.Getpid()).modules[0]
	if unsafe.StringData(a.names) != unsafe.StringData(b.names) || unsafe.StringData(a.files) != unsafe.StringData(b.files) {
		t.Error("each has names of its own")
	}
	for i, pair := range [][2][]byte{{a.ftab, b.ftab}, {a.funcs.bytes, b.funcs.bytes}, {a.pctab.bytes, b.pctab.bytes}, {a.inline, b.inline}} {
		if len(pair[0]) < leastShared || &pair[0][0] != &pair[1][0] {
			t.Errorf("table %d of %d bytes is not shared", i, len(pair[0]))
		}
	}
}

func newShared() *sharedTables {
	return &sharedTables{byHash: make(map[uint64]weakTable), seed: shared.seed}
}

// TestOtherContentIsOther: a table with one changed byte, or with the hash of another, is its own.
func TestOtherContentIsOther(t *testing.T) {
	t.Parallel()
	s := newShared()
	content := bytes.Repeat([]byte("table"), leastShared)
	first := s.one(bytes.Clone(content))
	if again := s.one(bytes.Clone(content)); &again[0] != &first[0] {
		t.Error("the same content is held twice")
	}
	changed := bytes.Clone(content)
	changed[len(changed)/2]++
	s.byHash[maphash.Bytes(s.seed, changed)] = s.byHash[maphash.Bytes(s.seed, content)] // as if the two had one hash
	if got := s.one(changed); &got[0] != &changed[0] {
		t.Error("a changed table was taken for the first")
	}
	if little := []byte("little"); &s.one(little)[0] != &little[0] || len(s.byHash) != 2 {
		t.Errorf("a little table has an entry, of %d", len(s.byHash))
	}
	runtime.KeepAlive(first)
}

// TestUnusedTablesAreForgotten: nothing stays of a table that no process has any more.
func TestUnusedTablesAreForgotten(t *testing.T) {
	t.Parallel()
	s := newShared()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 100 {
				s.one(bytes.Repeat([]byte{byte(i), byte(j), 1}, leastShared))
			}
		})
	}
	all.Wait()
	runtime.GC()
	last := s.one(make([]byte, leastShared))
	if len(s.byHash) != 1 {
		t.Errorf("%d tables are known, one is held", len(s.byHash))
	}
	runtime.KeepAlive(last)
}

// TestNamesHaveTheirOwnTexts: a name in a profile keeps no table of its program.
func TestNamesHaveTheirOwnTexts(t *testing.T) {
	t.Parallel()
	table, names := openProcess(t, os.Getpid()), ccmap.NewNames()
	table.Stack(codeAddresses(table, 1000), names, nil)
	within := func(s, all string) bool {
		at, first := uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(unsafe.Pointer(unsafe.StringData(all)))
		return s != "" && at >= first && at < first+uintptr(len(all))
	}
	m := table.modules[0]
	for id := range names.Len() {
		method := names.At(ccmap.MethodID(id))
		for _, text := range []string{method.Name, method.Receiver, method.File} {
			if within(text, m.names) || within(text, m.files) {
				t.Fatalf("%q of %s is a part of the table", text, strings.Clone(method.Name))
			}
		}
	}
	if names.Len() < 500 {
		t.Errorf("%d names", names.Len())
	}
}

// readsMemory is a memory at address 0 that notes the most that was read of it at once.
type readsMemory struct {
	bytes []byte
	most  int
}

func (m *readsMemory) readAt(p []byte, addr uint64) error {
	m.most = max(m.most, len(p))
	copy(p, m.bytes[addr:])
	return nil
}

// TestHeldTableIsNotCopied: where another process has a table, a load compares it piece by piece, and holds no
// copy for a moment. A table that differs in its first, last or any other byte is another one.
func TestHeldTableIsNotCopied(t *testing.T) {
	t.Parallel()
	const n = 3*piece + 100
	content := bytes.Repeat([]byte("own"), n)[:n]
	held := shared.one(bytes.Clone(content))
	read := func(content []byte) ([]byte, *readsMemory, *load) {
		m := &readsMemory{bytes: content}
		l := &load{budget: newBudget(t.Context(), 0), mem: m}
		got, err := l.sharedBytes(0, uint64(len(content)))
		if err != nil || !bytes.Equal(got, content) || l.hold != maxHeld-len(content) {
			t.Errorf("read %d bytes, with room for %d more: %v", len(got), l.hold, err)
		}
		return got, m, l
	}
	if got, m, _ := read(content); &got[0] != &held[0] || m.most > piece {
		t.Errorf("the table was copied, %d bytes at once", m.most)
	}
	for _, at := range []int{0, piece, n - 1} {
		other := bytes.Clone(content)
		other[at]++
		if got, _, _ := read(other); &got[0] == &held[0] {
			t.Errorf("a table that differs at %d was taken for the first", at)
		}
		l := &load{budget: newBudget(t.Context(), 0), mem: &readsMemory{bytes: other}}
		s := newShared()
		s.byHash[maphash.Bytes(s.seed, other)] = shared.byHash[maphash.Bytes(s.seed, content)] // as if the two had one hash
		if got, err := l.heldAt(s, 0, n); got != nil || err != nil {
			t.Errorf("a table that differs at %d was taken for one with its hash: %v", at, err)
		}
	}
	poor := &load{budget: &budget{steps: callCost}, mem: &readsMemory{bytes: content}}
	if _, err := poor.sharedBytes(0, n); !errors.Is(err, ErrTooMuch) {
		t.Errorf("without a budget: %v", err)
	}
	runtime.KeepAlive(held)
}

// TestBytesOfTables: what processes of one program hold together is told apart from what is a table's own, and a
// cache that grows is counted.
func TestBytesOfTables(t *testing.T) {
	t.Parallel()
	a, b := openProcess(t, os.Getpid()), openProcess(t, os.Getpid())
	ownA, commonA := a.Bytes()
	ownB, commonB := b.Bytes()
	if commonA != commonB || commonA < 1<<20 || ownA != ownB || ownA+commonA != int64(a.held) {
		t.Errorf("%d and %d bytes are one's own, %d and %d are shared, %d are held", ownA, ownB, commonA, commonB, a.held)
	}
	a.Stack(codeAddresses(a, 1000), ccmap.NewNames(), nil)
	if own, common := a.Bytes(); common < commonA || own < ownA+1000*100 {
		t.Errorf("after look-ups %d bytes are its own, %d were before; %d are shared, %d were before", own, ownA, common, commonA)
	}
}
