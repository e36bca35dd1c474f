package classes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
// only if it cannot even begin, or if there is no end. Before the first visit, the table has
// forgotten the classes that are gone. Walk returns ErrSpent after some visits rather than take
// more than half of what a load may take.
func (t *Table) Walk(visit func(*Class) bool) (err error) {
	if t.pieces == nil {
		t.Load(func() { err = t.Walk(visit) })
		return err
	}
	t.learn()
	met, err := t.meet()
	if err != nil {
		return err
	}
	t.keep(met)
	t.forgetCopies() // names are read after the classes were met
	for _, k := range met {
		if t.pieces.spent(2) {
			return fmt.Errorf("walk the classes: %w", ErrSpent)
		}
		if c, err := t.class(k); err == nil && !visit(c) {
			return nil
		}
	}
	return nil
}

// keep drops the classes that were not met.
func (t *Table) keep(met []klass) {
	alive := make(map[uint64]identity, len(met))
	for _, k := range met {
		alive[k.address] = k.identity
	}
	t.drop(func(c *Class) bool { return alive[c.Address] != c.sameAs })
}

// Check drops the classes that the JVM has unloaded or redefined since they were read, with all
// their methods. It looks at the memory as it is now, in a load too. Unlike Refresh it asks each
// loader for its classes: the memory of a class and the address of its loader say little, as the
// one outlives the class and a new loader may have the other.
func (t *Table) Check() (err error) {
	if t.pieces == nil {
		t.Load(func() { err = t.Check() })
		return err
	}
	met, err := t.meet()
	if err == nil {
		t.keep(met)
	}
	return err
}

// meet returns all classes, without their names.
func (t *Table) meet() ([]klass, error) {
	t.forgetCopies()
	loaders, err := t.loaders()
	if err != nil {
		return nil, err
	}
	var met []klass
	seen := make(map[uint64]bool)
	for _, loader := range loaders {
		addr, err := t.word(loader + t.l.loaderClasses)
		if err != nil {
			continue
		}
		for Plausible(addr) && !seen[addr] {
			if len(met) >= maxClasses {
				return nil, fmt.Errorf("walk the classes: %w", errTooMany)
			}
			raw, err := t.readClass(addr)
			if errors.Is(err, ErrSpent) {
				return nil, fmt.Errorf("walk the classes: %w", err)
			}
			if err != nil || u64(raw, t.l.classLoader) != loader {
				break // the loader has gone, or is about to go
			}
			seen[addr] = true
			met = append(met, t.klass(addr, raw))
			addr = u64(raw, t.l.classNext)
		}
	}
	return met, nil
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
// loaders cannot be read, nothing is dropped. It costs less than Check, where few of the JVM's
// classes are known, and a class that it overlooks is found as soon as another one has its place.
func (t *Table) Refresh() {
	t.learn()
	loaders, err := t.loaders()
	if err != nil {
		return
	}
	alive := make(map[uint64]bool, len(loaders))
	for _, addr := range loaders {
		alive[addr] = true
	}
	const batch = 1024
	addrs := slices.Collect(maps.Keys(t.classes))
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

// drop drops classes and their methods.
func (t *Table) drop(gone func(*Class) bool) {
	before := len(t.classes)
	maps.DeleteFunc(t.classes, func(_ uint64, c *Class) bool { return gone(c) })
	if len(t.classes) == before {
		return
	}
	maps.DeleteFunc(t.methods, func(_ uint64, m *Method) bool { return !t.Has(m.Class) })
	maps.DeleteFunc(t.tables, func(c *Class, _ methodTables) bool { return !t.Has(c) })
	t.forgetCopies()
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

// learn finds what the JVM's tables do not tell, as far as it is not known yet.
func (t *Table) learn() {
	if t.l.loaderName != 0 && (t.l.classSerial != 0 || t.unnumbered) {
		return
	}
	loaders, err := t.loaders()
	if err != nil || len(loaders) == 0 {
		return
	}
	before := t.l
	if t.l.loaderName == 0 {
		t.learnLoaderNames(loaders)
	}
	if t.l.classSerial == 0 && !t.unnumbered {
		t.learnSerial(loaders[len(loaders)-1])
	}
	if t.l != before {
		t.forget() // classes without what was learned
	}
}

// serialShift is how many bits below JFR's number of a class are flags (jfrTraceIdBits of JDK 17
// and 25).
const serialShift = 16

// learnSerial finds where classes keep the number that JFR gives to each of them, whether it
// records or not. It is the only word whose upper part is small, and another one in each class.
// Without it, a class that is loaded again by a new loader at the same addresses would have the
// old one's methods. The oldest loader has the most classes.
func (t *Table) learnSerial(loader uint64) {
	const (
		enough  = 256     // classes
		largest = 1 << 24 // no JVM has loaded so many
	)
	var raws [][]byte
	addr, err := t.word(loader + t.l.loaderClasses)
	for err == nil && len(raws) < enough {
		var raw []byte
		if raw, err = t.readClass(addr); err == nil {
			raws = append(raws, raw)
			addr = u64(raw, t.l.classNext)
		}
	}
	if len(raws) < enough {
		return
	}
	for at := uint64(0); at+8 <= t.l.baseSize; at += 8 {
		seen := make(map[uint64]bool)
		for _, raw := range raws {
			if n := u64(raw, at) >> serialShift; n > 0 && n < largest {
				seen[n] = true
			}
		}
		if len(seen) == len(raws) {
			t.l.classSerial = at
			return
		}
	}
	t.unnumbered = true
}

// learnLoaderNames finds where loaders keep their names, which the JVM's tables do not
// tell: at the place where one loader has "platform" and another one "app". Two places
// have that, and the second one adds the class of a loader without a name. The two are the
// oldest loaders but for the first, so they are at the list's end.
func (t *Table) learnLoaderNames(loaders []uint64) {
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
}
