package gosym

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// maxModules bounds a walk of the chain of moduledatas.
const maxModules = 256

// loadModules loads the Go modules that the table does not have yet: the modules of
// every image, and the modules that they are chained to.
func (t *Table) loadModules(l *load) error {
	for _, im := range t.images {
		if im.noGo {
			continue
		}
		err := t.loadImage(l, im)
		switch {
		case err == nil:
		case errors.Is(err, ErrNotGo):
			im.noGo = true
		case len(t.modules) == 0 || l.ended():
			return t.explain(im, err)
		default:
			t.log.Warn("not all Go symbols", "file", im.path, "reason", err)
		}
	}
	if len(t.modules) == 0 {
		return fmt.Errorf("%s: no Go program counter table: %w", t.exe, ErrNotGo)
	}
	return nil
}

// explain adds the program, its Go version and the remedy to an error.
func (t *Table) explain(im *image, err error) error {
	if errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("load symbols of %s (built by %s): %w; Go 1.18 to 1.27 are supported: build it with one of them, or get a newer ccmapd",
			im.path, cmp.Or(t.goVersion, "an unknown Go version"), err)
	}
	return fmt.Errorf("load symbols of %s: %w", im.path, err)
}

// loadImage loads the modules of an image, which may have more of them than
// when it was asked before.
func (t *Table) loadImage(l *load, im *image) error {
	if im.moduledata == 0 {
		if err := t.discover(l, im); err != nil {
			return err
		}
	}
	return t.loadChain(l, im.moduledata)
}

// discover finds the moduledata that an image holds. Only the executable's
// memory is searched for one: other images with Go code are made by Go 1.26 or
// have symbols.
func (t *Table) discover(l *load, im *image) error {
	addr, by := im.moduledataInFile(l.budget)
	if l.spent != nil {
		return l.spent
	}
	if by == "" && im.path != t.exe {
		return ErrNotGo
	}
	if t.goVersion == "" {
		t.goVersion, t.commit = im.built(l.budget)
	}
	var err error
	if by == "" {
		addr, err = scanForModuledata(l, im)
		by = "a search of its memory"
	}
	im.moduledata, im.foundBy = addr, by
	return err
}

// loadChain loads the module at an address and those that it is chained to:
// plugins. One of those that cannot be loaded does not keep the others from it.
func (t *Table) loadChain(l *load, addr uint64) error {
	seen, errs := []uint64{addr}, []error{}
	for n := 0; n < len(seen) && len(t.modules) < maxModules; n++ {
		d, err := readModuledata(l, seen[n])
		if err == nil && !slices.ContainsFunc(t.modules, func(m *module) bool { return m.data == d.addr }) {
			err = t.loadModule(l, d)
		}
		if l.spent != nil {
			errs = append(errs, l.spent)
			break
		}
		errs = append(errs, err)
		for other := range d.others(l) {
			if len(seen) < maxModules && !slices.Contains(seen, other) {
				seen = append(seen, other)
			}
		}
	}
	return errors.Join(errs...)
}

// loadModule loads one module.
func (t *Table) loadModule(l *load, d moduledata) error {
	before, common := l.hold, l.common
	m, err := loadModule(l, d, t.image(d.header.addr))
	if err == nil {
		err = l.work(recordCost * m.nfunc) // to learn from
	}
	if err != nil {
		return err
	}
	t.held += before - l.hold
	t.common += l.common - common
	m.ids, m.image = &t.ids, t.image(m.minpc)
	if m.image == nil { // text that the target has moved to anonymous memory
		m.image = t.images[0]
	}
	t.ids.learn(m)
	if m.paged != nil {
		m.paged.read = t.readPage
	}
	t.modules = append(t.modules, m)
	slices.SortStableFunc(t.modules, func(a, b *module) int {
		return cmp.Compare(t.rank(a.image), t.rank(b.image))
	})
	return nil
}

// moduledataInFile finds the moduledata by its section, or by its symbol; by is "" if the
// file has neither.
func (im *image) moduledataInFile(b *budget) (addr uint64, by string) {
	if im.file == nil {
		return 0, ""
	}
	if s := im.file.section(".go.module"); s != nil {
		return s.addr + im.bias, "section " + s.name
	}
	if im.file.section(".gopclntab") == nil && im.file.section(".data.rel.ro.gopclntab") == nil {
		return 0, ""
	}
	const first = "runtime.firstmoduledata"
	if addr, ok := findObject(b, im.file, first); ok {
		return addr + im.bias, "symbol " + first
	}
	return 0, ""
}

// findLayout sets the layout of g and m, from the table or, for a Go version
// that it does not know, from the executable's debug information.
func (t *Table) findLayout(b *budget) {
	t.layout, t.hasLayout = layoutOf(minorVersion(t.goVersion))
	f := t.modules[0].image.file
	if t.hasLayout || f == nil {
		return
	}
	l, err := layoutFromDWARF(b, f)
	if err != nil {
		t.log.Debug("no layout by version or debug information", "go", t.goVersion, "reason", err)
		return
	}
	t.layout, t.hasLayout = l, true
}
