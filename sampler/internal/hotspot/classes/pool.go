package classes

// pool is the constant pool of a class, as far as it was needed.
type pool struct {
	address uint64
	holder  uint64 // Klass*
	cache   uint64 // ConstantPoolCache*
	source  uint16 // slot of the source file's name; 0: none
	slots   []byte // of 8 bytes
	calls   []byte // entries of the cache, by the index that a call has
	called  bool   // calls were read

	tags, operands uint64   // Array<u1>*, Array<u2>*; 0: not known where
	linkage        *linkage // nil: not read

	methods map[uint64]bool // that the class declares; nil: not read
}

// slot returns a slot of the constant pool, 0 if there is none.
func (p *pool) slot(index uint16) uint64 { return u64(p.slots, 8*uint64(index)) }

// maxSlots bounds a constant pool (JVMS 4.1), with what the JVM appends.
const maxSlots = 1 << 17

// pool reads a constant pool. Methods are asked for class by class, mostly, so one pool
// is kept.
func (t *Table) pool(addr uint64) (*pool, error) {
	if t.last != nil && t.last.address == addr {
		return t.last, nil
	}
	header := make([]byte, t.l.poolHeader)
	if err := t.read(addr, header); err != nil {
		return nil, err
	}
	length := u32(header, t.l.poolLength)
	if length == 0 || length > maxSlots {
		return nil, ErrNotAMethod
	}
	p := &pool{
		address: addr, holder: u64(header, t.l.poolHolder), cache: u64(header, t.l.poolCache),
		source: u16(header, t.l.poolSource), slots: make([]byte, 8*uint64(length)),
	}
	if t.l.body.known {
		p.tags, p.operands = u64(header, t.l.body.tags), u64(header, t.l.body.operands)
	}
	if err := t.read(addr+t.l.poolHeader, p.slots); err != nil {
		return nil, err
	}
	t.last = p
	return p, nil
}

// reference returns the slot of the method that a call refers to by an entry of the
// pool's cache, 0 if there is none.
func (t *Table) reference(p *pool, entry uint16) uint16 {
	if !p.called {
		p.calls, p.called = t.callEntries(p.cache, t.l.calls), true
	}
	return entryAt(p.calls, t.l.calls, uint32(entry))
}

// callEntries reads the entries of calls in the cache of a constant pool, or others of a layout, nil if it has
// none.
func (t *Table) callEntries(cache uint64, l callLayout) []byte {
	array := cache // the entries of JDK 17 follow the cache's own words, their number first
	if l.entries != 0 {
		var err error
		if array, err = t.word(cache + l.entries); err != nil {
			return nil
		}
	}
	length, err := t.word(array) // in the lower half
	entries := make([]byte, min(uint64(uint32(length)), 1<<16)*l.entrySize)
	if err != nil || len(entries) == 0 || t.read(array+l.cacheHeader, entries) != nil {
		return nil
	}
	return entries
}
