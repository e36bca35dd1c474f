package gosym

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenFile reads the symbols of an ELF file at the addresses that it is linked
// for. A position-independent file has none before it runs: [ErrNotReady].
func OpenFile(path string, o Options) (*Table, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open executable: %w", err)
	}
	if f, err = regular(f); err != nil {
		return nil, fmt.Errorf("open executable: %w", err)
	}
	t, err := openELF(path, f, o)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// openELF makes a table of an ELF file, which the table owns if there is no
// error.
func openELF(path string, f file, o Options) (*Table, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrNotGo, err)
	}
	mem := fileMemory(e.Progs)
	maps := mem.mappings(path)
	t := newTable(0, mem, path, o)
	t.images = groupImages(maps)
	for _, im := range t.images {
		if err := im.parse(f); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrNotGo, err)
		}
	}
	if err := t.loadModules(maps); err != nil {
		return nil, err
	}
	t.findLayout()
	t.images[0].closer = f
	return t, nil
}

// fileMemory is the memory of an ELF file before it is relocated: its segments.
type fileMemory []*elf.Prog

func (m fileMemory) readAt(p []byte, addr uint64) error {
	for _, s := range m {
		if s.Type != elf.PT_LOAD || addr < s.Vaddr || addr-s.Vaddr >= s.Filesz {
			continue
		}
		if uint64(len(p)) > s.Filesz-(addr-s.Vaddr) {
			break
		}
		_, err := s.ReadAt(p, int64(addr-s.Vaddr))
		return err
	}
	return fmt.Errorf("%d bytes at %#x are not in the file: %w", len(p), addr, errCorrupt)
}

// mappings gives the segments the form of a memory map.
func (m fileMemory) mappings(path string) space {
	var maps space
	for _, s := range m {
		if s.Type != elf.PT_LOAD || s.Filesz == 0 || s.Vaddr+s.Filesz < s.Vaddr {
			continue
		}
		maps = append(maps, mapping{
			start: s.Vaddr, end: s.Vaddr + s.Filesz, offset: s.Off, path: path,
			read: s.Flags&elf.PF_R != 0, write: s.Flags&elf.PF_W != 0, exec: s.Flags&elf.PF_X != 0,
		})
	}
	return maps
}
