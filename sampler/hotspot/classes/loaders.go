package classes

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// The bounds of a walk.
const (
	maxLoaders = 1 << 20
	maxClasses = 1 << 20
	maxMethods = 1 << 16 // of a class
)

// errTooMany says that a walk met more than a JVM has.
var errTooMany = errors.New("too many classes")

// Walk calls visit with each class, loader by loader, until visit returns false. It skips
// what changes under its hands: the JVM loads and unloads classes meanwhile. It fails
// only if it cannot even begin, or if there is no end. After a whole walk, the table has
// forgotten the classes that are gone.
func (t *Table) Walk(visit func(*Class) bool) error {
	t.learnLoaderNames()
	alive := make(map[uint64]bool)
	loaders, err := t.loaders()
	if err != nil {
		return err
	}
	for _, loader := range loaders {
		first, err := t.word(loader + t.l.loaderClasses)
		if err != nil {
			continue
		}
		for addr := first; Plausible(addr) && !alive[addr]; {
			if len(alive) >= maxClasses {
				return fmt.Errorf("walk the classes: %w", errTooMany)
			}
			raw, err := t.readClass(addr)
			if err != nil || u64(raw, t.l.classLoader) != loader {
				break // the loader has gone, or is about to go
			}
			alive[addr] = true
			if c, err := t.class(addr, raw); err == nil && !visit(c) {
				return nil
			}
			addr = u64(raw, t.l.classNext)
		}
	}
	t.drop(func(c *Class) bool { return !alive[c.Address] })
	return nil
}

// loaders returns the addresses of all loaders' data, the newest loader first.
func (t *Table) loaders() ([]uint64, error) {
	addr, err := t.word(t.l.head)
	if err != nil {
		return nil, fmt.Errorf("read the first class loader: %w", err)
	}
	var all []uint64
	seen := make(map[uint64]bool)
	for Plausible(addr) && !seen[addr] {
		if len(all) >= maxLoaders {
			return nil, fmt.Errorf("walk the class loaders: %w", errTooMany)
		}
		seen[addr] = true
		all = append(all, addr)
		if addr, err = t.word(addr + t.l.loaderNext); err != nil {
			break
		}
	}
	return all, nil
}

// Refresh drops the names of the classes that the JVM has unloaded or redefined since they
// were read, with all their methods. Addresses are used again, so call it now and then.
// The memory of a class outlives it for a while, so the class's loader decides. If the
// loaders cannot be read, nothing is dropped.
func (t *Table) Refresh() {
	t.learnLoaderNames()
	loaders, err := t.loaders()
	if err != nil {
		return
	}
	alive := make(map[uint64]bool, len(loaders))
	for _, addr := range loaders {
		alive[addr] = true
	}
	const batch = 1024
	addrs := make([]uint64, 0, len(t.classes))
	for addr := range t.classes {
		addrs = append(addrs, addr)
	}
	gone := make(map[uint64]bool)
	for len(addrs) > 0 {
		some := addrs[:min(len(addrs), batch)]
		addrs = addrs[len(some):]
		for i, raw := range t.readClasses(some) {
			if id := t.classes[some[i]].sameAs; raw == nil || t.identity(raw) != id || !alive[id.loader] {
				gone[some[i]] = true
			}
		}
	}
	t.drop(func(c *Class) bool { return gone[c.Address] })
}

// readClasses reads many classes with few calls: nil where one cannot be read.
func (t *Table) readClasses(addrs []uint64) [][]byte {
	raws := make([][]byte, len(addrs))
	for i := range raws {
		raws[i] = make([]byte, t.l.classSize)
	}
	ReadMany(t.vm.Memory, addrs, raws)
	for i, raw := range raws {
		if raw == nil { // an array at the end of the memory, perhaps
			raws[i], _ = t.readClass(addrs[i])
		}
	}
	return raws
}

// drop drops classes and their methods. Symbols go too: the table reads those again that
// are still used.
func (t *Table) drop(gone func(*Class) bool) {
	before := len(t.classes)
	maps.DeleteFunc(t.classes, func(_ uint64, c *Class) bool { return gone(c) })
	if len(t.classes) == before {
		return
	}
	maps.DeleteFunc(t.methods, func(_ uint64, m *Method) bool { return t.classes[m.Class.Address] != m.Class })
	clear(t.symbols)
	clear(t.tables)
	t.last = nil
}

// loader returns the name of the loader whose data is at an address.
func (t *Table) loader(addr uint64) string {
	if t.l.loaderName == 0 {
		return ""
	}
	at, err := t.word(addr + t.l.loaderName)
	if err != nil || at == 0 {
		return ""
	}
	name, err := t.symbol(at)
	if err != nil {
		return ""
	}
	return loaderName(name)
}

// learnLoaderNames finds where loaders keep their names, which the JVM's tables do not
// tell: at the place where one loader has "platform" and another one "app". Two places
// have that, and the second one adds the class of a loader without a name. The two are the
// oldest loaders but for the first, so they are at the list's end.
func (t *Table) learnLoaderNames() {
	if t.l.loaderName != 0 {
		return
	}
	loaders, err := t.loaders()
	if err != nil {
		return
	}
	const oldest = 16
	platform, app := make(map[uint64]bool), make(map[uint64]bool)
	for _, addr := range loaders[max(0, len(loaders)-oldest):] {
		raw := make([]byte, t.l.loaderSize)
		if t.read(addr, raw) != nil {
			continue
		}
		for at := uint64(0); at+8 <= t.l.loaderSize; at += 8 {
			name, err := t.readSymbol(u64(raw, at))
			if err != nil {
				continue
			}
			switch strings.Trim(string(name), "'") {
			case "platform":
				platform[at] = true
			case "app":
				app[at] = true
			}
			if platform[at] && app[at] {
				t.l.loaderName = max(t.l.loaderName, at)
			}
		}
	}
	if t.l.loaderName != 0 {
		t.forget() // classes without their loader's name
	}
}
