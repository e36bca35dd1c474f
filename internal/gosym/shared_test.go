package gosym

import (
	"bytes"
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
