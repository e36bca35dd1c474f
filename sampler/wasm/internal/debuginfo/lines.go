package debuginfo

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// LineTable is a line number program of ".debug_line" (DWARF 5, section 6.2).
type LineTable struct {
	lineHeader
	data    *Data
	program []byte
	files   []lineFile // by number; versions 2 to 4 have no file 0
	dirs    [][]byte
}

// lineHeader describes the program.
type lineHeader struct {
	version      uint16
	is64         bool
	minLength    uint64 // of an instruction
	lineBase     int64
	lineRange    uint64 // not 0
	opcodeBase   byte   // not 0
	operandCount []byte // by standard opcode, from 1
}

// Row gives a line to the addresses from its own up to the next row's.
type Row struct {
	Address uint64
	File    uint64 // its number
	Line    int64  // from 1; else no line
	Column  uint64 // from 1; 0: unknown
	End     bool   // the row ends a sequence, and has no line
}

// Lines returns the line table of a unit, or false if it has none or a malformed one.
func (d *Data) Lines(u *Unit) (*LineTable, bool) {
	t, ok := d.lines[u.lineOffset]
	if !ok {
		t = d.readLines(u)
		d.lines[u.lineOffset] = t
	}
	return t, t != nil
}

func (d *Data) readLines(u *Unit) *LineTable {
	section := d.sections["line"]
	if u.lineOffset < 0 || u.lineOffset >= int64(len(section)) {
		return nil
	}
	c := cursor.Cursor{Data: section[u.lineOffset:]}
	length, is64 := unitLength(&c)
	c = cursor.Cursor{Data: c.Bytes(length), Err: c.Err}
	t := &LineTable{lineHeader: lineHeader{version: c.U16(), is64: is64}, data: d}
	if t.version < 2 || t.version > 5 {
		return nil
	}
	if t.version == 5 {
		c.Byte() // size of an address
		c.Byte() // size of a segment selector
	}
	h := cursor.Cursor{Data: c.Bytes(readOffset(&c, is64)), Err: c.Err}
	t.readHeader(&h)
	if t.version == 5 {
		t.readFiles5(&h)
	} else {
		t.readFiles(&h)
	}
	if h.Err != nil || t.lineRange == 0 || t.opcodeBase == 0 {
		return nil
	}
	t.program = c.Data
	return t
}

func (t *LineTable) readHeader(c *cursor.Cursor) {
	t.minLength = uint64(c.Byte())
	if t.version >= 4 {
		c.Byte() // operations per instruction: 1, except for VLIW
	}
	c.Byte() // whether a row is a statement by default
	t.lineBase = int64(int8(c.Byte()))
	t.lineRange = uint64(c.Byte())
	if t.opcodeBase = c.Byte(); t.opcodeBase > 0 {
		t.operandCount = c.Bytes(uint64(t.opcodeBase) - 1)
	}
}

// EachRow visits the rows in the program's order, which may differ from the addresses'
// order. An error means that the program is malformed, or the budget spent, after these
// rows.
func (t *LineTable) EachRow(visit func(*Row)) error {
	p := lineProgram{lineHeader: &t.lineHeader, Cursor: cursor.Cursor{Data: t.program}, visit: visit}
	p.reset()
	for !p.Empty() {
		if !t.data.budget.Step(1) {
			return errSpent
		}
		p.step()
	}
	return p.Err
}

// lineProgram is the state machine of a program (section 6.2.2).
type lineProgram struct {
	*lineHeader
	cursor.Cursor
	row   Row
	visit func(*Row)
}

func (p *lineProgram) reset() { p.row = Row{File: 1, Line: 1} }

// Opcodes of section 7.22.
const (
	opExtended, opCopy, opAdvancePC, opAdvanceLine, opSetFile, opSetColumn = 0, 1, 2, 3, 4, 5
	opConstAddPC, opFixedAdvancePC                                         = 8, 9
	opEndSequence, opSetAddress                                            = 1, 2
)

func (p *lineProgram) step() {
	op := p.Byte()
	switch {
	case op >= p.opcodeBase:
		p.advance(uint64(op-p.opcodeBase) / p.lineRange)
		p.row.Line += p.lineBase + int64(uint64(op-p.opcodeBase)%p.lineRange)
		p.visit(&p.row)
	case op == opExtended:
		p.extended(cursor.Cursor{Data: p.Bytes(p.Uleb())})
	case op == opCopy:
		p.visit(&p.row)
	case op == opAdvancePC:
		p.advance(p.Uleb())
	case op == opAdvanceLine:
		p.row.Line += p.Sleb()
	case op == opSetFile:
		p.row.File = p.Uleb()
	case op == opSetColumn:
		p.row.Column = p.Uleb()
	case op == opConstAddPC:
		p.advance(uint64(255-p.opcodeBase) / p.lineRange)
	case op == opFixedAdvancePC:
		p.row.Address += uint64(p.U16())
	default:
		for n := p.operandCount[op-1]; n > 0; n-- {
			p.Uleb()
		}
	}
}

func (p *lineProgram) advance(operations uint64) { p.row.Address += operations * p.minLength }

func (p *lineProgram) extended(c cursor.Cursor) {
	switch op := c.Byte(); {
	case op == opEndSequence:
		p.row.End = true
		p.visit(&p.row)
		p.reset()
	case op == opSetAddress && len(c.Data) == 8:
		p.row.Address = c.U64()
	case op == opSetAddress:
		p.row.Address = uint64(c.U32())
	}
}

// lineFile is a file of a table. Its path is made on demand.
type lineFile struct {
	name      []byte // its first byte, up to a 0 or beyond
	directory uint64

	path *filePath // made last
}

// filePath is the path of a file for units of a directory.
type filePath struct{ directory, path string }

// lineFileBytes is the memory for a file, or a directory, while lists grow.
const lineFileBytes = 80

// Kinds of content that DWARF 5 gives a file (section 7.22).
const contentPath, contentDirectory = 1, 2

// readFiles reads the names of versions 2 to 4. Directory 0 is the unit's own, and files
// count from 1.
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

// readFiles5 reads the names of version 5. The table describes its own format.
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
		return nil // any number of them has no content
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

// FileName returns the path of file i of the unit's table, or an empty one. If the
// compiler was given a relative path, it begins at the unit's directory. Repeated calls
// cost nothing.
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
