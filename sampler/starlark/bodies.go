package starlark

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/cespare/xxhash/v2"
	"go.starlark.net/starlark"
)

// The body of a function ([ccmap.Method]) is a hash of its code, so that a profile of an earlier version of a file can
// be told from one of the same. The interpreter shows no code of a function, but it writes whole programs
// (starlark.Program.Write), in the form that internal/compile/serial.go describes. That form has a version: of another
// one, bodies are unknown.

// compilerVersion is the starlark.CompilerVersion whose form and opcodes are read here.
const compilerVersion = 14

// place is where a function is declared in its file.
type place struct{ line, column int32 }

// written are the bodies of programs that live, by their weak pointers: map[place]uint64, which never changes. Any
// number of threads run one program, and it is written once.
var written sync.Map

// bodyOf returns the body of a function, 0 if it is unknown.
func bodyOf(f *starlark.Function) uint64 {
	position := f.Position()
	return bodiesOf(f.Module().Program())[place{position.Line, position.Col}]
}

func bodiesOf(p *starlark.Program) map[place]uint64 {
	key := weak.Make(p)
	if known, there := written.Load(key); there {
		return known.(map[place]uint64)
	}
	var text bytes.Buffer
	var bodies map[place]uint64
	if err := p.Write(&text); err == nil && starlark.CompilerVersion == compilerVersion {
		bodies = readBodies(text.Bytes())
	}
	if _, there := written.LoadOrStore(key, bodies); !there {
		runtime.AddCleanup(p, func(key weak.Pointer[starlark.Program]) { written.Delete(key) }, key)
	}
	return bodies
}

// readBodies returns the bodies of a program's functions; none, if a part of it is malformed.
func readBodies(program []byte) map[place]uint64 {
	const head = 8 // "!sky", and the offset of the texts
	if len(program) < head || string(program[:4]) != "!sky" {
		return nil
	}
	texts := int64(binary.LittleEndian.Uint32(program[4:]))
	if texts < head || texts > int64(len(program)) {
		return nil
	}
	r := reader{numbers: program[head:texts], texts: program[texts:]}
	if r.number() != compilerVersion {
		return nil
	}
	r.text()   // the file's name
	r.idents() // what it loads
	t := tables{names: list(&r, r.text), constants: list(&r, r.constant)}
	t.globals = r.idents()
	functions := append([]code{r.function()}, list(&r, r.function)...)
	for _, f := range functions[1:] {
		t.functions = append(t.functions, f.name)
	}
	bodies := make(map[place]uint64)
	for i := range functions {
		bodies[functions[i].declared] = t.hash(&functions[i], &r)
	}
	if r.malformed {
		return nil
	}
	return bodies
}

// reader reads a program: numbers, and texts that have their lengths among the numbers.
type reader struct {
	numbers, texts []byte
	malformed      bool
}

func (r *reader) number() int64 {
	v, n := binary.Varint(r.numbers)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.numbers = r.numbers[n:]
	return v
}

func (r *reader) fail() { *r = reader{malformed: true} }

func (r *reader) text() []byte {
	n := r.number()
	if n < 0 || n > int64(len(r.texts)) {
		r.fail()
		return nil
	}
	text := r.texts[:n]
	r.texts = r.texts[n:]
	return text
}

// list reads a list. Each element takes a byte at least.
func list[T any](r *reader, element func() T) (all []T) {
	n := r.number()
	if n < 0 || n > int64(len(r.numbers)) {
		r.fail()
		return nil
	}
	for range n {
		all = append(all, element())
	}
	return all
}

// constant reads a constant: its type, and its value as it is written.
func (r *reader) constant() []byte {
	const integer, float = 2, 3
	kind := r.number()
	switch kind {
	case integer:
		return binary.AppendVarint([]byte{integer}, r.number())
	case float:
		v, n := binary.Uvarint(r.numbers)
		if n <= 0 {
			r.fail()
			return nil
		}
		r.numbers = r.numbers[n:]
		return binary.AppendUvarint([]byte{float}, v)
	}
	return append([]byte{byte(kind)}, r.text()...)
}

func (r *reader) ident() (name []byte, at place) {
	name = r.text()
	at.line, at.column = int32(r.number()), int32(r.number())
	return name, at
}

func (r *reader) idents() [][]byte {
	return list(r, func() []byte { name, _ := r.ident(); return name })
}

// code is a compiled function.
type code struct {
	name     []byte
	declared place
	code     []byte
	lines    []int64 // pclinetab
	locals   int
	cells    []int64
	free     [][]byte
	shape    [4]int64 // parameters, of them by keyword only; *args, **kwargs
}

func (r *reader) function() (c code) {
	c.name, c.declared = r.ident()
	r.text() // its documentation
	c.code = r.text()
	c.lines = list(r, r.number)
	c.locals = len(r.idents())
	c.cells = list(r, r.number)
	c.free = r.idents()
	r.number() // the most operands
	for i := range c.shape {
		c.shape[i] = r.number()
	}
	return c
}

// tables are what operands of a program's code are numbers of.
type tables struct {
	names, constants, globals, functions [][]byte
}

// Opcodes whose operands are no numbers of the function itself; those from firstOperand on have one.
const (
	opNOP         = 0
	firstOperand  = 43
	opITERJMP     = 45
	opCONSTANT    = 46
	opMAKEFUNC    = 49
	opSETGLOBAL   = 52
	opGLOBAL      = 58
	opPREDECLARED = 59
	opSETFIELD    = 62
	lastOpcode    = 67
)

// instruction is an instruction of a function, at an offset of its code.
type instruction struct {
	at, operand uint64
	op          byte
}

// hash returns the body of a function: of its instructions, with names and values in place of numbers of tables, which
// differ by the rest of the file, and the line of each, for offsets of contexts are lines.
func (t *tables) hash(c *code, r *reader) uint64 {
	all := instructions(c.code, r)
	var b []byte
	for _, i := range all {
		b = append(b, i.op)
		switch {
		case i.op < firstOperand:
		case i.op <= opITERJMP: // to an instruction, whatever the length of those before it
			b = binary.AppendUvarint(b, uint64(indexOf(all, i.operand, r)))
		default:
			b = t.appendOperand(b, i, r)
		}
	}
	b = appendLines(b, c.lines, all, r)
	for _, n := range slices.Concat(c.shape[:], c.cells, []int64{int64(c.locals), int64(len(c.free))}) {
		b = binary.AppendVarint(b, n)
	}
	return min(max(xxhash.Sum64(b), 1), 1<<64-2)
}

// instructions takes code apart. Padding is left out.
func instructions(code []byte, r *reader) (all []instruction) {
	for at := 0; at < len(code); {
		i := instruction{at: uint64(at), op: code[at]}
		at++
		if i.op >= firstOperand {
			operand, n := binary.Uvarint(code[at:])
			if n <= 0 {
				r.fail()
				return nil
			}
			i.operand, at = operand, at+n
		}
		if i.op > lastOpcode {
			r.fail()
			return nil
		}
		if i.op != opNOP {
			all = append(all, i)
		}
	}
	return all
}

// indexOf returns the number of the instruction at an offset, or the first after it: a jump may lead to padding.
func indexOf(all []instruction, at uint64, r *reader) int {
	i, _ := slices.BinarySearchFunc(all, at, func(i instruction, at uint64) int {
		switch {
		case i.at < at:
			return -1
		case i.at > at:
			return 1
		}
		return 0
	})
	if i == len(all) {
		r.fail()
	}
	return i
}

func (t *tables) appendOperand(b []byte, i instruction, r *reader) []byte {
	var table [][]byte
	switch op := i.op; {
	case op == opCONSTANT:
		table = t.constants
	case op == opMAKEFUNC:
		table = t.functions
	case op == opSETGLOBAL, op == opGLOBAL:
		table = t.globals
	case op >= opPREDECLARED && op <= opSETFIELD:
		table = t.names
	default:
		return binary.AppendUvarint(b, i.operand)
	}
	if i.operand >= uint64(len(table)) {
		r.fail()
		return b
	}
	return append(append(b, table[i.operand]...), 0)
}

// appendLines appends the lines of instructions, relative to the declaration. An entry is the bytes since the one
// before in 4 bits, lines in 5 and columns in 6, both signed, and whether the next entry adds to it.
func appendLines(b []byte, lines []int64, all []instruction, r *reader) []byte {
	at, line := uint64(0), int64(0)
	for _, entry := range lines {
		at += uint64(entry) >> 12 & 0xf
		line += int64(int8(entry>>7&0x1f<<3)) >> 3
		if entry&1 == 0 {
			b = binary.AppendVarint(binary.AppendUvarint(b, uint64(indexOf(all, at, r))), line)
		}
	}
	return b
}
