package gosym

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// maxModules bounds a walk of the chain of moduledatas.
const maxModules = 256

// loadModules loads the Go modules that the table does not have yet: those of
// every image, and those that they are chained to.
func (t *Table) loadModules(maps space) error {
	for _, im := range t.images {
		err := t.loadImage(maps, im)
		switch {
		case err == nil || errors.Is(err, ErrNotGo):
		case len(t.modules) == 0:
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
		return fmt.Errorf("load symbols of %s (built by %s): %w; Go 1.20 to 1.27 are supported: build it with one of them, or get a newer ccmapd",
			im.path, cmp.Or(t.goVersion, "an unknown Go version"), err)
	}
	return fmt.Errorf("load symbols of %s: %w", im.path, err)
}

// loadImage loads the modules of an image, which may have more of them than
// when it was asked before.
func (t *Table) loadImage(maps space, im *image) error {
	if im.moduledata == 0 {
		if err := t.discover(maps, im); err != nil {
			return err
		}
	}
	return t.loadChain(maps, im.moduledata)
}

// discover finds the moduledata that an image holds. Only the executable's
// memory is searched for one: other images with Go code are made by Go 1.26 or
// have symbols.
func (t *Table) discover(maps space, im *image) error {
	addr, found := im.moduledataInFile()
	if !found && im.path != t.exe {
		return ErrNotGo
	}
	if t.goVersion == "" {
		t.goVersion = im.goVersion()
	}
	var err error
	if !found {
		addr, err = scanForModuledata(t.mem, maps, im)
	}
	im.moduledata = addr
	return err
}

// loadChain loads the module at an address and those that it is chained to:
// plugins. One of those that cannot be loaded does not keep the others from it.
func (t *Table) loadChain(maps space, addr uint64) error {
	seen, errs := []uint64{addr}, []error{}
	for n := 0; n < len(seen) && len(t.modules) < maxModules; n++ {
		d, err := readModuledata(t.mem, maps, seen[n])
		if err == nil && !slices.ContainsFunc(t.modules, func(m *module) bool { return m.data == d.addr }) {
			err = t.loadModule(maps, d)
		}
		errs = append(errs, err)
		for other := range d.others(t.mem, maps) {
			if len(seen) < maxModules && !slices.Contains(seen, other) {
				seen = append(seen, other)
			}
		}
	}
	return errors.Join(errs...)
}

// loadModule loads one module.
func (t *Table) loadModule(maps space, d moduledata) error {
	m, err := loadModule(t.mem, maps, d)
	if err != nil {
		return err
	}
	m.ids, m.image = &t.ids, t.image(m.minpc)
	if m.image == nil { // text that the target has moved to anonymous memory
		m.image = t.images[0]
	}
	t.ids.learn(m)
	t.modules = append(t.modules, m)
	slices.SortStableFunc(t.modules, func(a, b *module) int {
		return cmp.Compare(t.rank(a.image), t.rank(b.image))
	})
	return nil
}

// goVersion returns the Go version that an image was built with, or "".
func (im *image) goVersion() string {
	if im.source == nil {
		return ""
	}
	info, err := buildinfo.Read(im.source)
	if err != nil {
		return ""
	}
	return info.GoVersion
}

// moduledataInFile finds the moduledata by its section, or by its symbol.
func (im *image) moduledataInFile() (addr uint64, ok bool) {
	if im.file == nil {
		return 0, false
	}
	if s := im.file.Section(".go.module"); s != nil {
		return s.Addr + im.bias, true
	}
	if im.file.Section(".gopclntab") == nil && im.file.Section(".data.rel.ro.gopclntab") == nil {
		return 0, false
	}
	addr, ok = findObject(im.file, "runtime.firstmoduledata")
	return addr + im.bias, ok
}

// findObject returns the address of a variable in an unstripped file.
func findObject(f *elf.File, name string) (addr uint64, ok bool) {
	entries, names, ok := symbolTable(f, elf.SHT_SYMTAB)
	for ; ok && len(entries) >= symbolSize; entries = entries[symbolSize:] {
		isObject := elf.ST_TYPE(entries[4]) == elf.STT_OBJECT
		if isObject && terminated(names, binary.LittleEndian.Uint32(entries)) == name {
			return binary.LittleEndian.Uint64(entries[8:]), true
		}
	}
	return 0, false
}

// findLayout sets the layout of g and m, from the table or, for a Go version
// that it does not know, from the executable's debug information.
func (t *Table) findLayout() {
	t.layout, t.hasLayout = layoutOf(minorVersion(t.goVersion))
	f := t.modules[0].image.file
	if t.hasLayout || f == nil {
		return
	}
	l, err := layoutFromDWARF(f)
	if err != nil {
		t.log.Debug("no layout by version or debug information", "go", t.goVersion, "reason", err)
		return
	}
	t.layout, t.hasLayout = l, true
}
