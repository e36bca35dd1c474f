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

// hasLength reports whether a table of so many bytes is held.
func (s *sharedTables) hasLength(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.byHash {
		if t.len == n && t.get() != nil {
			return true
		}
	}
	return false
}

// withHash returns the table that is held with a hash, nil if there is none.
func (s *sharedTables) withHash(hash uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byHash[hash].get()
}

// sharedBytes returns n bytes of memory. If a table that is held has the same bytes, it returns that table: most
// processes of a machine run programs that other processes run, too, and a copy of each one's tables would be
// garbage at once.
func (l *load) sharedBytes(addr, n uint64) ([]byte, error) {
	if n >= leastShared && n <= maxTables && shared.hasLength(int(n)) {
		if held, err := l.heldAt(&shared, addr, int(n)); held != nil || err != nil {
			return held, err
		}
	}
	return l.bytes(addr, n)
}

// heldAt returns the table that is held and has the n bytes at an address; nil if there is none. It reads the
// memory twice: the first time tells which table it may be, and the second time decides.
func (l *load) heldAt(s *sharedTables, addr uint64, n int) ([]byte, error) {
	var hash maphash.Hash
	hash.SetSeed(s.seed)
	err := l.pieces(addr, n, func(piece []byte) bool {
		hash.Write(piece)
		return true
	})
	if err != nil {
		return nil, err
	}
	held := s.withHash(hash.Sum64())
	if len(held) != n {
		return nil, nil
	}
	rest := held
	err = l.pieces(addr, n, func(piece []byte) bool {
		if !bytes.Equal(piece, rest[:len(piece)]) {
			return false
		}
		rest = rest[len(piece):]
		return true
	})
	if err != nil || len(rest) > 0 {
		return nil, err
	}
	return held, l.holding(n)
}

// piece is how much of a table is looked at at once, bytes.
const piece = 256 << 10

// pieceBuffers are for loads, which follow each other by the second beside compilers.
var pieceBuffers = sync.Pool{New: func() any { return new([piece]byte) }}

// pieces reads n bytes of memory piece by piece, until look returns false, within the budget. After that it
// tells no more of them.
func (l *load) pieces(addr uint64, n int, look func(piece []byte) bool) error {
	buffer := pieceBuffers.Get().(*[piece]byte)
	defer pieceBuffers.Put(buffer)
	for at := 0; at < n; at += piece {
		p := buffer[:min(piece, n-at)]
		err := l.readAt(p, addr+uint64(at))
		if err == nil {
			err = l.work(len(p) / shareCost)
		}
		if err != nil {
			return err
		}
		if !look(p) {
			return nil
		}
	}
	return nil
}

// shareCost is how many bytes are hashed and compared in a step.
const shareCost = 32

// share lets go of a table that is held already, within a budget.
func (s *sharedTables) share(b *budget, table *[]byte) error {
	if err := b.work(len(*table) / shareCost); err != nil {
		return err
	}
	*table = s.one(*table)
	if len(*table) >= leastShared {
		b.common += len(*table)
	}
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
