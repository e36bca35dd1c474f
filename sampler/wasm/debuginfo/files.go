package debuginfo

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// lineFile is a file of a table. Its path is made when somebody asks for it.
type lineFile struct {
	name      []byte // from its beginning on, up to a 0 or beyond
	directory uint64

	path *filePath // that was made last
}

// filePath is the path of a file for units of a directory.
type filePath struct{ directory, path string }

// lineFileBytes is the memory for a file, or a directory, while lists grow.
const lineFileBytes = 80

// Kinds of content that DWARF 5 gives a file (section 7.22).
const contentPath, contentDirectory = 1, 2

// readFiles reads the names of versions 2 to 4. Directory 0 is the unit's own, and
// the files count from 1.
func (t *LineTable) readFiles(c *cursor.Cursor) {
	t.dirs, t.files = make([][]byte, 1), make([]lineFile, 1)
	for dir := c.Text(); len(dir) > 0; dir = c.Text() {
		t.dirs = append(t.dirs, dir)
		t.pay(c, len(dir))
	}
	for name := c.Text(); len(name) > 0; name = c.Text() {
		t.files = append(t.files, lineFile{name: name, directory: c.Uleb()})
		c.Uleb() // time of its change
		c.Uleb() // its length
		t.pay(c, len(name))
	}
}

// pay takes the cost of a file from the budget: tables may overlap.
func (t *LineTable) pay(c *cursor.Cursor, read int) {
	if b := t.data.budget; !b.Step(1+read) || !b.Keep(lineFileBytes) {
		c.Fail(errSpent)
	}
}

// content is a kind of content, and its form.
type content struct{ kind, form uint64 }

// readFiles5 reads the names of version 5, where the table says how they are written.
func (t *LineTable) readFiles5(c *cursor.Cursor) {
	for _, dir := range t.readEntries(c) {
		t.dirs = append(t.dirs, dir.name)
	}
	t.files = t.readEntries(c)
}

func (t *LineTable) readEntries(c *cursor.Cursor) []lineFile {
	format := make([]content, 0, 4)
	for n := c.Byte(); n > 0; n-- {
		format = append(format, content{c.Uleb(), c.Uleb()})
	}
	n := c.Uleb()
	if len(format) == 0 {
		return nil // however many there are, they have no content
	}
	var entries []lineFile
	for ; n > 0 && !c.Empty(); n-- {
		before := len(c.Data)
		entries = append(entries, t.readEntry(c, format))
		t.pay(c, len(format)+before-len(c.Data))
	}
	if n > 0 {
		c.Fail(fmt.Errorf("%d files too few", n))
	}
	return entries
}

func (t *LineTable) readEntry(c *cursor.Cursor, format []content) lineFile {
	var f lineFile
	for _, part := range format {
		text, value := t.readForm(c, part.form)
		switch part.kind {
		case contentPath:
			f.name = text
		case contentDirectory:
			f.directory = value
		}
	}
	return f
}

// readForm reads the beginning of a text, or a number.
func (t *LineTable) readForm(c *cursor.Cursor, form uint64) (text []byte, value uint64) {
	switch form {
	case formString:
		return c.Text(), 0
	case formStrp:
		return from(t.data.sections["str"], readOffset(c, t.is64)), 0
	case formLineStrp:
		return from(t.data.sections["line_str"], readOffset(c, t.is64)), 0
	case formData1:
		return nil, uint64(c.Byte())
	case formData2:
		return nil, uint64(c.U16())
	case formData4:
		return nil, uint64(c.U32())
	case formData8:
		return nil, c.U64()
	case formUdata:
		return nil, c.Uleb()
	case formData16:
		c.Bytes(16)
	case formBlock:
		c.Bytes(c.Uleb())
	default:
		c.Fail(fmt.Errorf("a file of form %#x", form))
	}
	return nil, 0
}

// Files returns the number of the first file, and the number after the last.
func (t *LineTable) Files() (first, end int) {
	if t.version < 5 {
		first = 1
	}
	return first, len(t.files)
}

// FileName returns the path of file i of the unit's table, from the unit's directory if
// the compiler was given a relative path; empty where there is no such file. To ask again
// costs nothing.
func (d *Data) FileName(u *Unit, i int64) string {
	t, ok := d.Lines(u)
	if !ok || i < 0 || i >= int64(len(t.files)) {
		return ""
	}
	f := &t.files[i]
	if f.path == nil || f.path.directory != u.Directory {
		f.path = &filePath{u.Directory, d.join(u.Directory, t.dirs, f)}
	}
	return f.path.path
}

func (d *Data) join(directory string, dirs [][]byte, f *lineFile) string {
	name := d.name(f.name)
	if name == "" {
		return ""
	}
	if f.directory < uint64(len(dirs)) {
		name = join(d.name(dirs[f.directory]), name)
	}
	if name = join(directory, name); !d.budget.Keep(len(name)) {
		return ""
	}
	return name
}

// maxName is the length of the longest path that is read, in bytes (PATH_MAX of Linux).
const maxName = 4 << 10

// name returns the text before the first 0, or nothing if it is longer than any path.
func (d *Data) name(b []byte) string {
	n := bytes.IndexByte(b[:min(len(b), maxName)], 0)
	if n < 0 && len(b) < maxName {
		n = len(b)
	}
	if n <= 0 || !d.budget.Step(n) {
		return ""
	}
	return string(b[:n])
}

// join joins paths of any system.
func join(directory, name string) string {
	switch {
	case directory == "" || isAbsolute(name):
		return name
	case isDrive(directory):
		return strings.TrimRight(directory, `/\`) + `\` + name
	}
	return path.Join(directory, name)
}

func isAbsolute(name string) bool { return strings.HasPrefix(name, "/") || isDrive(name) }

// isDrive reports whether a path begins with a drive, as in "C:\".
func isDrive(name string) bool {
	return len(name) > 2 && name[1] == ':' && strings.ContainsRune(`/\`, rune(name[2]))
}
