package symbols

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// lineFile is a file of a table. Its name is read when somebody asks for it.
type lineFile struct {
	name      []byte // from its beginning on, up to a 0 or beyond
	directory uint64
}

// Kinds of what DWARF 5 says of a file (section 7.22), and the forms that it has
// (section 7.5.6).
const (
	contentPath, contentDirectory = 1, 2

	formData2, formData4, formData8, formString, formBlock, formData1 = 0x05, 0x06, 0x07, 0x08, 0x09, 0x0b
	formStrp, formUdata, formData16, formLineStrp                     = 0x0e, 0x0f, 0x1e, 0x1f
)

// readFiles reads the names of versions 2 to 4. Directory 0 is the unit's own, and
// the files count from 1.
func (t *lineTable) readFiles(d *decoder) {
	t.dirs, t.files = make([][]byte, 1), make([]lineFile, 1)
	for dir := d.cstring(); len(dir) > 0; dir = d.cstring() {
		t.dirs = append(t.dirs, dir)
	}
	for name := d.cstring(); len(name) > 0; name = d.cstring() {
		t.files = append(t.files, lineFile{name, d.uleb()})
		d.uleb() // time of its change
		d.uleb() // its length
	}
}

// content is a kind of what is said of a file, and its form.
type content struct{ kind, form uint64 }

// readFiles5 reads the names of version 5, of which each says how it is written.
func (t *lineTable) readFiles5(d *decoder, sections debugSections) {
	for _, dir := range t.readEntries(d, sections) {
		t.dirs = append(t.dirs, dir.name)
	}
	t.files = t.readEntries(d, sections)
}

func (t *lineTable) readEntries(d *decoder, sections debugSections) []lineFile {
	format := make([]content, 0, 4)
	for n := d.byte(); n > 0; n-- {
		format = append(format, content{d.uleb(), d.uleb()})
	}
	n := d.uleb()
	if len(format) == 0 {
		return nil // however many there are, nothing is said of them
	}
	var entries []lineFile
	for ; n > 0 && !d.empty(); n-- {
		entries = append(entries, t.readEntry(d, format, sections))
	}
	return entries
}

func (t *lineTable) readEntry(d *decoder, format []content, sections debugSections) lineFile {
	var f lineFile
	for _, c := range format {
		text, value := t.readForm(d, c.form, sections)
		switch c.kind {
		case contentPath:
			f.name = text
		case contentDirectory:
			f.directory = value
		}
	}
	return f
}

// readForm reads the beginning of a text, or a number.
func (t *lineTable) readForm(d *decoder, form uint64, sections debugSections) (text []byte, value uint64) {
	switch form {
	case formString:
		return d.cstring(), 0
	case formStrp:
		return from(sections["str"], sectionOffset(d, t.is64)), 0
	case formLineStrp:
		return from(sections["line_str"], sectionOffset(d, t.is64)), 0
	case formData1:
		return nil, uint64(d.byte())
	case formData2:
		return nil, uint64(d.u16())
	case formData4:
		return nil, uint64(d.u32())
	case formData8:
		return nil, d.u64()
	case formUdata:
		return nil, d.uleb()
	case formData16:
		d.bytes(16)
	case formBlock:
		d.bytes(d.uleb())
	default:
		d.fail(fmt.Errorf("a file of form %#x", form))
	}
	return nil, 0
}

func from(section []byte, offset uint64) []byte {
	return section[min(offset, uint64(len(section))):]
}

// fileName returns the path of a file, from the unit's directory if the compiler was
// given a relative one; empty where the table has not that file.
func (t *lineTable) fileName(i int64, directory string) string {
	if i < 0 || i >= int64(len(t.files)) {
		return ""
	}
	f := t.files[i]
	name := text(f.name)
	switch {
	case name == "":
		return ""
	case f.directory < uint64(len(t.dirs)):
		name = join(text(t.dirs[f.directory]), name)
	}
	return join(directory, name)
}

// text returns what stands before the first 0.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// join joins paths of any system.
func join(directory, name string) string {
	if directory == "" || isAbsolute(name) {
		return name
	}
	return path.Join(directory, name)
}

func isAbsolute(name string) bool {
	return strings.HasPrefix(name, "/") || len(name) > 2 && name[1] == ':' && strings.ContainsRune(`/\`, rune(name[2]))
}
