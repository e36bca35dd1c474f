package gosym

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym/body"
)

// Bounds of hashing. The largest functions known have 250 KB.
const (
	maxBody    = 512 << 10 // bytes of one function; a larger one has no hash
	maxBodies  = 64 << 20  // bytes of all functions that a table hashes
	hashSteps  = 1 << 22   // of one call of HashBodies, for the names of what functions refer to
	maxPending = 1 << 14   // functions that wait for their hash
	maxSpan    = 1 << 32   // bytes of an image
)

// bodies are the hashes of functions that samples had.
type bodies struct {
	known   map[uint64]uint64         // by entry; 0: it has none
	pending map[uint64]ccmap.MethodID // by entry: methods of Table.names without one
	hashed  int                       // bytes, of all functions
}

// wantBody notes that a method, which is a physical function, has been sampled.
func (t *Table) wantBody(entry uint64, id ccmap.MethodID) {
	if hash, known := t.bodies.known[entry]; known {
		t.names.SetBody(id, hash)
	} else if len(t.bodies.pending) < maxPending {
		if t.bodies.pending == nil {
			t.bodies.pending = make(map[uint64]ccmap.MethodID)
		}
		t.bodies.pending[entry] = id
	}
}

// HashBodies gives methods of Go functions their bodies: of functions that were in stacks since the
// last call, not only inlined ones, and in one call about so many bytes of code. The code comes from the
// program's file, so that breakpoints do not show in it; without the file there are no bodies.
func (t *Table) HashBodies(bytes int) {
	t.Limit(hashSteps)
	for entry, id := range t.bodies.pending {
		if bytes <= 0 || t.late.pages <= 0 || t.late.ctx.Err() != nil {
			return
		}
		hash, size := t.hashBody(entry)
		if t.Exceeded() {
			return
		}
		bytes -= size
		t.bodies.hashed += size
		delete(t.bodies.pending, entry)
		if t.bodies.known == nil {
			t.bodies.known = make(map[uint64]uint64)
		}
		t.bodies.known[entry] = hash
		t.names.SetBody(id, hash)
	}
}

// hashBody returns the hash of the function that begins at entry, 0 where it has none, and the bytes
// of it that were read.
func (t *Table) hashBody(entry uint64) (hash uint64, size int) {
	m := t.module(entry)
	if m == nil {
		return 0, 0
	}
	r, ok := m.find(entry)
	if !ok || t.bodies.hashed > maxBodies {
		return 0, 0
	}
	start := time.Now()
	code, err := m.code(r)
	t.late.pages -= time.Since(start)
	if err != nil {
		return 0, 0
	}
	return body.Code{Entry: r.entry, Bytes: code}.Hash(t), len(code)
}

var errNoCode = errors.New("code is not in the file")

// code reads a function from the file of its module.
func (m *module) code(r record) ([]byte, error) {
	size := r.end - r.entry
	if m.image == nil || m.image.file == nil || size > maxBody {
		return nil, errNoCode
	}
	s, off := m.image.segmentAt(r.entry)
	if s == nil || off > s.fileSize || size > s.fileSize-off || s.off+off >= 1<<63 {
		return nil, errNoCode
	}
	code := make([]byte, size)
	n, err := m.image.file.r.ReadAt(code, int64(s.off+off))
	if n < len(code) {
		return nil, fmt.Errorf("read code: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return code, nil
}

// segmentAt returns the segment of the image's file that an address belongs to, nil if none does, and
// how far into it the address is.
func (im *image) segmentAt(addr uint64) (s *segment, off uint64) {
	for i := range im.file.segments {
		s := &im.file.segments[i]
		if off := addr - im.bias - s.vaddr; s.isLoaded() && off < s.size {
			return s, off
		}
	}
	return nil, 0
}

// Name is part of [body.Namer]. Data is known by the rights of its segment, in programs with names
// of data, too: with and without them, a program has the same bodies.
func (t *Table) Name(addr uint64) (name string, offset uint64) {
	const cost = 16 // steps of a look-up
	t.Spend(cost)
	if m := t.module(addr); m != nil {
		f, ok := m.find(addr)
		if !ok {
			return "", 0
		}
		name = m.name(f.nameOff)
		t.Spend(len(name))
		return name, addr - f.entry
	}
	t.Spend(len(t.images))
	return t.segmentName(addr), 0
}

// segmentName names the kind of code or data at an address outside of Go's code, "" where no image has it.
func (t *Table) segmentName(addr uint64) string {
	for _, im := range t.images {
		if im.file == nil || addr-im.start >= maxSpan {
			continue
		}
		s, _ := im.segmentAt(addr)
		switch {
		case s == nil:
		case s.flags&elf.PF_X != 0:
			return "[code]"
		case s.flags&elf.PF_W != 0:
			return "[data]"
		default:
			return "[rodata]"
		}
	}
	return ""
}
