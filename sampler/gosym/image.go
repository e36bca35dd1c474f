package gosym

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ccmapd/ccmapd/internal/ehframe"
)

// image is one ELF file mapped by the target, or its vDSO.
type image struct {
	path       string    // as the target sees it, or "[vdso]"
	maps       []mapping // in the order of addresses, never empty
	start, end uint64    // from the first mapping to the last
	id         string    // build id, or the path where it has none

	// The rest is zero where the file cannot be read.
	source  io.ReaderAt
	file    *elf.File // of source
	closer  io.Closer // of source; nil for the vDSO
	bias    uint64    // address of a byte minus its virtual address in the file
	symbols symbols
	loaded  bool           // loading symbols was tried
	unwind  *ehframe.Table // nil until it was asked for

	moduledata uint64 // address; 0 where none was found
}

// vdsoPath is the name of the vDSO in memory maps, and of its module.
const vdsoPath = "[vdso]"

// maxVDSO bounds the copy of the vDSO, bytes; it has two pages on amd64.
const maxVDSO = 1 << 20

// groupImages groups the mappings of files, and of the vDSO, into images.
func groupImages(maps space) []*image {
	byPath := map[string]*image{}
	var images []*image
	for _, m := range maps {
		if !strings.HasPrefix(m.path, "/") && m.path != vdsoPath {
			continue
		}
		im := byPath[m.path]
		if im == nil {
			im = &image{path: m.path, id: m.path, start: m.start}
			byPath[m.path] = im
			images = append(images, im)
		}
		im.maps = append(im.maps, m)
		im.end = m.end
	}
	return images
}

// replaces says whether an image is the same as an older one.
func (im *image) replaces(old *image) bool {
	return im.path == old.path && im.start == old.start
}

func (im *image) isVDSO() bool { return im.path == vdsoPath }

// code returns the image's first executable mapping.
func (im *image) code() (mapping, bool) {
	for _, m := range im.maps {
		if m.exec {
			return m, true
		}
	}
	return mapping{}, false
}

func (im *image) contains(pc uint64) bool {
	for _, m := range im.maps {
		if m.start <= pc && pc < m.end {
			return true
		}
	}
	return false
}

// openVDSO reads the vDSO from memory.
func (im *image) openVDSO(mem memory) error {
	b, err := readBytes(mem, im.start, im.end-im.start, maxVDSO)
	if err != nil {
		return fmt.Errorf("read vDSO: %w", err)
	}
	return im.parse(bytes.NewReader(b))
}

// openFile reads the image's file, which it owns from here on.
func (im *image) openFile(f file, mem memory) error {
	err := im.sameFile(f, mem)
	if err == nil {
		err = im.parse(f)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	im.closer = f
	return nil
}

// file is an *os.File, or a file in memory.
type file interface {
	io.ReaderAt
	io.Closer
}

// headSize is how much of a file is compared with memory: its headers and,
// in practice, its build id.
const headSize = 1 << 10

// sameFile says by an error if a file is not the one that was mapped, because it was
// replaced since. Inode numbers do not tell: those of overlay file systems differ
// from the memory map's.
func (im *image) sameFile(f io.ReaderAt, mem memory) error {
	first := im.maps[0]
	if first.offset != 0 || first.write || !first.read {
		return nil
	}
	var inFile, inMemory [headSize]byte
	n, err := f.ReadAt(inFile[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if err := mem.readAt(inMemory[:n], first.start); err != nil {
		return err
	}
	if inFile != inMemory {
		return errors.New("the file was replaced after it was mapped")
	}
	return nil
}

// parse reads the ELF headers and the build id.
func (im *image) parse(r io.ReaderAt) error {
	f, err := elf.NewFile(r)
	if err != nil {
		return fmt.Errorf("read ELF headers: %w", err)
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return fmt.Errorf("%v %v: %w", f.Class, f.Data, ErrUnsupported)
	}
	bias, ok := im.loadBias(f)
	if !ok {
		return fmt.Errorf("no segment of the file is mapped as code: %w", errCorrupt)
	}
	im.source, im.file, im.bias = r, f, bias
	if id := buildID(f); id != "" && !im.isVDSO() {
		im.id = id
	}
	return nil
}

// loadBias compares the first executable mapping with the segment that it
// maps.
func (im *image) loadBias(f *elf.File) (bias uint64, ok bool) {
	code, ok := im.code()
	if !ok {
		return 0, false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		if code.offset < p.Off+p.Filesz && code.offset+(code.end-code.start) > p.Off {
			return code.start - code.offset + p.Off - p.Vaddr, true
		}
	}
	return 0, false
}

// lookup returns the symbol that contains pc and its address.
func (im *image) lookup(pc uint64) (name string, entry uint64, ok bool) {
	if im.file == nil {
		return "", 0, false
	}
	if !im.loaded {
		im.loaded = true
		im.symbols = loadSymbols(im.file)
	}
	name, entry, ok = im.symbols.find(pc - im.bias)
	return name, entry + im.bias, ok
}

// maxCallFrames bounds the call frame information that is read of a file, bytes.
// Chromium has 40 MB of it.
const maxCallFrames = 1 << 26

// row returns the call frame information of the instruction at pc. Its Entry is
// an address in the process.
func (im *image) row(pc uint64) (*ehframe.Row, bool) {
	if im.file == nil {
		return nil, false
	}
	if im.unwind == nil {
		im.unwind = loadCallFrames(im.file)
	}
	r, ok := im.unwind.Row(pc - im.bias)
	if ok {
		r.Entry += im.bias
	}
	return r, ok
}

// loadCallFrames indexes .eh_frame. A file without it has no call frames.
func loadCallFrames(f *elf.File) *ehframe.Table {
	s := f.Section(".eh_frame")
	if s == nil || s.FileSize > maxCallFrames {
		return new(ehframe.Table)
	}
	b, err := sectionBytes(s)
	if err != nil {
		return new(ehframe.Table)
	}
	return ehframe.New(b, s.Addr)
}

func (im *image) close() error {
	if im.closer == nil {
		return nil
	}
	return im.closer.Close()
}
