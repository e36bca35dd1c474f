package gosym

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// OpenFile reads the symbols of a program that does not run, at the addresses that it is linked for.
// Errors wrap [ErrNotGo], [ErrUnsupported] and [ErrTooMuch].
func OpenFile(ctx context.Context, path string, o Options) (*Table, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open program: %w", err)
	}
	f, err := os.Open(path)
	if err == nil {
		f, err = regular(f)
	}
	if err != nil {
		return nil, fmt.Errorf("open program: %w", err)
	}
	b, end := beginLoad(newBudget(ctx, 0), readRunDelay)
	defer end()
	t, err := openELF(b, path, f, o)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", errors.Join(err, f.Close()))
	}
	return t, nil
}

// openELF makes a table of an ELF file, which the table owns if there is no
// error.
func openELF(b *budget, path string, f file, o Options) (*Table, error) {
	l := &load{budget: b}
	e, err := readELF(l.budget, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrNotGo, err)
	}
	if e.machine != machine { // its calls are in code that nothing here reads
		return nil, fmt.Errorf("%s: code of %v: %w", path, e.machine, ErrUnsupported)
	}
	mem := fileMemory{f, e.segments}
	l.mem, l.maps = mem, mem.mappings(path)
	t := newTable(0, mem, path, o)
	t.images = groupImages(l.maps)
	t.areas = areasOf(t.images)
	for _, im := range t.images {
		if err := im.parse(l.budget, f); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrNotGo, err)
		}
	}
	if err := t.loadModules(l); err != nil {
		return nil, err
	}
	t.identify(l.budget)
	t.findLayout(l.budget)
	t.images[0].closer = f
	return t, nil
}

// fileMemory is the memory of an ELF file before it is relocated: its segments.
type fileMemory struct {
	r        io.ReaderAt
	segments []segment
}

func (m fileMemory) readAt(p []byte, addr uint64) error {
	for _, s := range m.segments {
		if s.typ != elf.PT_LOAD || addr < s.vaddr || addr-s.vaddr >= s.fileSize {
			continue
		}
		off := s.off + (addr - s.vaddr)
		if uint64(len(p)) > s.fileSize-(addr-s.vaddr) || off >= 1<<63 {
			break
		}
		if n, err := m.r.ReadAt(p, int64(off)); n < len(p) {
			return err
		}
		return nil
	}
	return fmt.Errorf("%d bytes at %#x are not in the file: %w", len(p), addr, errCorrupt)
}

// mappings gives the segments the form of a memory map.
func (m fileMemory) mappings(path string) space {
	var maps space
	for _, s := range m.segments {
		if s.typ != elf.PT_LOAD || s.fileSize == 0 || s.vaddr+s.fileSize < s.vaddr {
			continue
		}
		maps = append(maps, mapping{
			start: s.vaddr, end: s.vaddr + s.fileSize, offset: s.off, path: path,
			read: s.flags&elf.PF_R != 0, write: s.flags&elf.PF_W != 0, exec: s.flags&elf.PF_X != 0,
		})
	}
	slices.SortFunc(maps, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	return maps
}
