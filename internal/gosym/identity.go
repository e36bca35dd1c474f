package gosym

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// ELF notes that identify a build.
const (
	noteGNUBuildID = 3       // name "GNU": NT_GNU_BUILD_ID
	noteGoBuildID  = 4       // name "Go": cmd/internal/buildid
	maxNotes       = 1 << 16 // bytes of all notes
	maxBuildID     = 256     // bytes
)

// buildID tells the builds of a program apart: the GNU build id in hex, which C linkers and Go's write and
// runtime/pprof reports, else the Go build id, else the hash of its code. It is "" where none of them can be
// read. Go 1.26 writes the GNU note into a section that no PT_NOTE segment covers, so sections are read as well.
func buildID(b *budget, f *elfFile) string {
	return cmp.Or(noteID(b, f), codeID(b, f))
}

// noteID returns the build id that the linker has written, "" if there is none.
func noteID(b *budget, f *elfFile) string {
	gnu, goID := identifiers(f.notes(b, f.segments))
	return cmp.Or(gnu, goID)
}

// maxCode bounds the bytes that codeID reads. Programs that agree in so many are one.
const maxCode = 256 << 20

// codeStep is how much of it is read at once, bytes.
const codeStep = 256 << 10

// codeID returns the hash of what a process can execute or read of its program, and not write: code, constants
// and the tables of lines, in 16 hex digits. Symbols and debug information do not count, nor does the ELF header,
// which says where they are: so a program and its stripped copy are one build. Half of the budget is left whatever
// the file has.
func codeID(b *budget, f *elfFile) (id string) {
	_ = b.half(func(b *budget) error {
		h, left := xxhash.New(), uint64(maxCode)
		buf := make([]byte, codeStep)
		for _, p := range f.segments {
			if !p.isLoaded() || p.flags&elf.PF_W != 0 {
				continue
			}
			from, to := max(p.off, elfHeader), p.off+min(p.fileSize, left)
			for at := from; at < to && to > p.off; at += codeStep {
				part := buf[:min(codeStep, to-at)]
				if err := readFull(b, f.r, part, at); err != nil {
					return err
				}
				h.Write(part)
			}
			left -= min(p.fileSize, left)
		}
		if left < maxCode {
			id = hex.EncodeToString(h.Sum(nil))
		}
		return nil
	})
	return id
}

// identifiers returns the GNU build id in hex and Go's out of notes, each "" where it is missing.
func identifiers(notes iter.Seq[[]byte]) (gnu, goID string) {
	for raw := range notes {
		for n, rest, ok := cutNote(raw); ok; n, rest, ok = cutNote(rest) {
			switch {
			case n.typ == noteGNUBuildID && n.name == "GNU" && len(n.desc) <= maxBuildID:
				return hex.EncodeToString(n.desc), goID
			case n.typ == noteGoBuildID && n.name == "Go" && len(n.desc) <= maxBuildID:
				goID = string(n.desc)
			}
		}
	}
	return "", goID
}

// notes yields the content of note segments and of the file's note sections, up to maxNotes
// bytes in all.
func (f *elfFile) notes(b *budget, segments []segment) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		left := uint64(maxNotes)
		read := func(off, size uint64) bool {
			if size > left {
				return true
			}
			left -= size
			n, err := readFile(b, f.r, off, size)
			return err != nil || yield(n)
		}
		for _, p := range segments {
			if p.typ == elf.PT_NOTE && !read(p.off, p.fileSize) {
				return
			}
		}
		for _, s := range f.sections {
			if s.typ == elf.SHT_NOTE && s.inFile() == nil && !read(s.off, s.size) {
				return
			}
		}
	}
}

type note struct {
	name string
	typ  uint32
	desc []byte
}

// cutNote returns the first ELF note of b and the rest.
func cutNote(b []byte) (n note, rest []byte, ok bool) {
	if len(b) < 12 {
		return note{}, nil, false
	}
	nameSize := uint64(binary.LittleEndian.Uint32(b))
	descSize := uint64(binary.LittleEndian.Uint32(b[4:]))
	typ := binary.LittleEndian.Uint32(b[8:])
	desc := 12 + (nameSize+3)&^3
	end := desc + descSize
	if end > uint64(len(b)) {
		return note{}, nil, false
	}
	n = note{strings.TrimRight(string(b[12:12+nameSize]), "\x00"), typ, b[desc:end]}
	return n, b[min((end+3)&^3, uint64(len(b))):], true
}
