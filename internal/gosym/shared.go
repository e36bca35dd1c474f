package gosym

import (
	"bytes"
	"hash/maphash"
	"maps"
	"sync"
	"unsafe"
	"weak"
)

// shared are the tables of all programs whose symbols are loaded.
var shared = sharedTables{seed: maphash.MakeSeed(), byHash: make(map[uint64]weakTable)}

// sharedTables finds tables by their content, so that the processes of one program, and the users of one library,
// hold one copy. The file of a program does not identify its tables: they are read from memory, which a process
// may change, and which must not be another's then.
//
// Any goroutine may call its methods.
type sharedTables struct {
	seed maphash.Seed

	mu     sync.Mutex
	byHash map[uint64]weakTable // a hash that two tables have gives the later one
}

// weakTable is a table that is forgotten when nothing else holds it.
type weakTable struct {
	first weak.Pointer[byte]
	len   int
}

// get returns the table, nil if nothing holds it any more.
func (t weakTable) get() []byte {
	if first := t.first.Value(); first != nil {
		return unsafe.Slice(first, t.len)
	}
	return nil
}

// leastShared is the least table that is worth an entry, bytes.
const leastShared = 4 << 10

// one returns a table with the content of b: one that is held already, or b itself. Nothing may write to
// either.
func (s *sharedTables) one(b []byte) []byte {
	if len(b) < leastShared {
		return b
	}
	hash := maphash.Bytes(s.seed, b)
	s.mu.Lock()
	held := s.byHash[hash].get()
	s.mu.Unlock()
	if bytes.Equal(held, b) {
		return held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byHash, func(_ uint64, t weakTable) bool { return t.get() == nil })
	s.byHash[hash] = weakTable{weak.Make(&b[0]), len(b)}
	return b
}

// shareCost is how many bytes are hashed and compared in a step.
const shareCost = 32

// share lets go of a table that is held already, within a budget.
func (s *sharedTables) share(b *budget, table *[]byte) error {
	if err := b.work(len(*table) / shareCost); err != nil {
		return err
	}
	*table = s.one(*table)
	return nil
}

// share lets go of the tables that another process holds already.
func (m *module) share(b *budget) error {
	names, files := asBytes(m.names), asBytes(m.files)
	for _, t := range []*[]byte{&names, &files, &m.ftab, &m.funcs.bytes, &m.pctab.bytes, &m.cutab, &m.inline} {
		if err := shared.share(b, t); err != nil {
			return err
		}
	}
	m.names, m.files = asString(names), asString(files)
	return nil
}

// asBytes returns the bytes of a string, which nothing may write to.
func asBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
