package gosym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/ehframe"
)

// image is one ELF file mapped by the target, or its vDSO.
type image struct {
	path       string    // as the target sees it, or "[vdso]"
	maps       []mapping // in the order of addresses, never empty
	text       mapping   // the first that is executable; zero where none is
	start, end uint64    // from the first mapping to the last
	id         string    // build id, or the path where it has none; of a program without one the hash of its code

	// The rest is zero where the file cannot be read.
	file    *elfFile
	closer  io.Closer // of its file; nil for the vDSO
	bias    uint64    // address of a byte minus its virtual address in the file
	symbols symbols
	unwind  *ehframe.Table // nil until it is loaded
	held    int            // bytes that symbols and unwind take
	common  int            // of them, in tables that other processes may hold, too

	symbolsPart, unwindPart part

	moduledata uint64 // address; 0 where none was found
	foundBy    string // the moduledata, for people
	noGo       bool   // it has none
}

// vdsoPath is the name of the vDSO in memory maps, and of its module.
const vdsoPath = "[vdso]"

// maxVDSO bounds the copy of the vDSO, bytes; it has two pages on amd64.
const maxVDSO = 1 << 20

// maxImages bounds the files that are opened. Each takes a descriptor.
const maxImages = 512

// groupImages groups the mappings of files, and of the vDSO, into images. Files
// without code are left out, and so are those beyond maxImages.
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
		if m.exec && im.text == (mapping{}) {
			im.text = m
		}
	}
	images = slices.DeleteFunc(images, func(im *image) bool { return im.text == (mapping{}) })
	return images[:min(len(images), maxImages)]
}

func (im *image) isVDSO() bool { return im.path == vdsoPath }

// openVDSO reads the vDSO from memory.
func (im *image) openVDSO(l *load) error {
	size := im.end - im.start
	if size > maxVDSO {
		return fmt.Errorf("vDSO of %d bytes: %w", size, errCorrupt)
	}
	b, err := l.bytes(im.start, size)
	if err != nil {
		return fmt.Errorf("read vDSO: %w", err)
	}
	return im.parse(l.budget, bytes.NewReader(b))
}

// openFile reads the image's file, which it owns from here on.
func (im *image) openFile(l *load, f file) error {
	err := im.sameFile(l, f)
	if err == nil {
		err = im.parse(l.budget, f)
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
// replaced since. Inode numbers do not tell: an overlay file system's differ
// from the memory map's.
func (im *image) sameFile(l *load, f io.ReaderAt) error {
	first := im.maps[0]
	if first.offset != 0 || first.write || !first.read {
		return nil
	}
	var inFile, inMemory [headSize]byte
	n, err := f.ReadAt(inFile[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if err := l.readAt(inMemory[:n], first.start); err != nil {
		return err
	}
	if inFile != inMemory {
		return errors.New("the file was replaced after it was mapped")
	}
	return nil
}

// parse reads the ELF headers and the build id.
func (im *image) parse(b *budget, r io.ReaderAt) error {
	f, err := readELF(b, r)
	if err != nil {
		return err
	}
	bias, ok := im.loadBias(f)
	if !ok {
		return fmt.Errorf("no segment of the file is mapped as code: %w", errCorrupt)
	}
	im.file, im.bias = f, bias
	if id := noteID(b, f); id != "" && !im.isVDSO() {
		im.id = id
	}
	return b.spent
}

// loadBias compares the first executable mapping with the segment that it
// maps.
func (im *image) loadBias(f *elfFile) (bias uint64, ok bool) {
	code := im.text
	for _, p := range f.segments {
		if p.typ != elf.PT_LOAD || p.flags&elf.PF_X == 0 {
			continue
		}
		if code.offset < p.off+p.fileSize && code.offset+(code.end-code.start) > p.off {
			return code.start - code.offset + p.off - p.vaddr, true
		}
	}
	return 0, false
}

// lookup returns the symbol of an image that contains pc, and its address.
func (t *Table) lookup(im *image, pc uint64) (name string, entry uint64, ok bool) {
	if im.file == nil {
		return "", 0, false
	}
	if t.wants(&im.symbolsPart) {
		t.loadLate(im, &im.symbolsPart, func(b *budget) { im.symbols = t.symbolsOf(b, im) })
	}
	name, entry, ok = im.symbols.find(pc - im.bias)
	if entry += im.bias; !ok || entry > pc { // addresses of a hostile file wrap around
		return "", 0, false
	}
	return name, entry, true
}

// row returns the call frame information of the instruction at pc. Its Entry is
// an address in the process.
func (t *Table) row(im *image, pc uint64) (*ehframe.Row, bool) {
	if im.file == nil {
		return nil, false
	}
	if t.wants(&im.unwindPart) {
		t.loadLate(im, &im.unwindPart, func(b *budget) { im.unwind = loadCallFrames(b, im.file) })
	}
	if im.unwind == nil {
		return nil, false
	}
	r, ok := im.unwind.Row(pc-im.bias, &t.steps)
	if ok {
		r.Entry += im.bias
	}
	return r, ok
}

// loadCallFrames indexes .eh_frame. A file without it, or with more of it than may
// be read, has no call frames.
func loadCallFrames(b *budget, f *elfFile) *ehframe.Table {
	none := new(ehframe.Table)
	s := f.section(".eh_frame")
	if s == nil {
		return none
	}
	frames, err := f.content(b, s)
	if err != nil || cmp.Or(b.work(len(frames)), b.holding(ehframe.IndexSize(frames)), shared.share(b, &frames)) != nil {
		return none
	}
	return ehframe.New(frames, s.addr)
}

func (im *image) close() error {
	if im.closer == nil {
		return nil
	}
	return im.closer.Close()
}
