package gocover

import (
	"cmp"
	"fmt"
	"strings"
)

// Program has the counts of one instrumented binary, over all its runs. One goroutine
// adds to it. After that any goroutine may read it.
type Program struct {
	Hash     [16]byte // of the meta-data file
	Mode     Mode
	Runs     int // counter files that were added
	Packages []Package
}

// Mode is the -covermode of a program.
type Mode uint8

// The modes, as the meta-data file numbers them (cmd/ccmapd/internal/coverage/defs.go, Go 1.26).
const (
	ModeSet    Mode = iota + 1 // counts are 1, executed, or 0, not executed
	ModeCount                  // counts are executions
	ModeAtomic                 // the same, exact in concurrent programs
)

// String returns the value of -covermode.
func (m Mode) String() string {
	switch m {
	case ModeSet:
		return "set"
	case ModeCount:
		return "count"
	case ModeAtomic:
		return "atomic"
	}
	return "unknown"
}

// Package is an instrumented package.
type Package struct {
	Path      string // import path
	Name      string // "main" for a program
	Module    string // path of its module; empty without a module
	Functions []Function
}

// Function is a function, method or function literal.
type Function struct {
	// Name is the runtime's name without the package: "F", "(*T).Method", "init.0".
	// [Package.Symbol] puts the package before it.
	Name     string
	Receiver string // type of the receiver in Name: "*T", "T[...]"; empty for other functions
	File     string // import path of the package and base name; absolute if built from files
	// Line is the line of the declaration, from 1. Before [Source.Split] it is the line
	// of the opening brace.
	Line   uint32
	Blocks []Block // the first begins the function: its count is the number of calls

	// Only [Source.Split] sets Branches and Switches.
	Branches []Branch
	Switches []Switch

	literal bool // a function literal
}

// Block is a run of statements that is executed as a whole.
type Block struct {
	Start, End Position // End is after the last byte
	Statements uint32
	Count      uint64 // executions; 0 or 1 in mode set
}

// Branch is an if.
type Branch struct {
	Start, End     Position // of the keyword, and after the body
	Taken, Untaken uint64   // how often the condition was true and false
}

// Switch is a switch or a select.
type Switch struct {
	Start, End Position // of the keyword, and after the statement
	Cases      []Case
	None       uint64 // executions that chose no case; always 0 for a select
}

// Case is one case of a [Switch], or its default.
type Case struct {
	Line  uint32 // of the keyword
	Count uint64 // how often it was chosen, without fallthrough into it
}

// Position is a place in a source file. Line directives count.
type Position struct {
	Line, Column uint32 // from 1; Column in bytes
}

func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Executed reports whether any block of the function was executed.
func (f *Function) Executed() bool {
	for _, b := range f.Blocks {
		if b.Count > 0 {
			return true
		}
	}
	return false
}

// Symbol returns the runtime's name of one of the package's functions.
func (p *Package) Symbol(f *Function) string { return p.prefix() + "." + f.Name }

// ReceiverType returns the qualified type of the receiver of one of the package's
// methods, "*net/http.conn"; "" for other functions.
func (p *Package) ReceiverType(f *Function) string {
	if f.Receiver == "" {
		return ""
	}
	name, pointer := strings.CutPrefix(f.Receiver, "*")
	if pointer {
		return "*" + p.prefix() + "." + name
	}
	return p.prefix() + "." + name
}

// prefix returns the package part of the names of its functions. A program is "main",
// and some bytes of a path are escaped (cmd/internal/objabi, PathToPrefix, Go 1.26).
func (p *Package) prefix() string {
	if p.Name == "main" {
		return "main"
	}
	last := strings.LastIndexByte(p.Path, '/')
	var b strings.Builder
	for i := range len(p.Path) {
		c := p.Path[i]
		if c <= ' ' || c >= 0x7f || c == '%' || c == '"' || c == '.' && i > last {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// nameFunctions turns the names of cmd/cover into the runtime's names: "*T.Method" into
// "(*T).Method", and the init functions of a package into "init.0", "init.1". Literals at
// package level, which cmd/cover names by their position, become "init.func1".
func (p *Package) nameFunctions() {
	inits, literals := 0, 0
	pointers := make(map[string]string) // hostile files may refer to one long name often
	for i := range p.Functions {
		f := &p.Functions[i]
		switch {
		case f.literal:
			literals++
			f.Name = fmt.Sprintf("init.func%d", literals)
		case f.Name == "init":
			f.Name = fmt.Sprintf("init.%d", inits)
			inits++
		default:
			f.Receiver, f.Name = methodName(pointers, f.Name)
		}
	}
}

// methodName returns the receiver in a name of cmd/cover, and the runtime's name.
func methodName(pointers map[string]string, name string) (receiver, converted string) {
	receiver, method, isMethod := strings.Cut(name, ".")
	switch {
	case !isMethod:
		return "", name
	case !strings.HasPrefix(receiver, "*"):
		return receiver, name
	}
	converted, known := pointers[name]
	if !known {
		converted = "(" + receiver + ")." + method
		pointers[name] = converted
	}
	return receiver, converted
}
