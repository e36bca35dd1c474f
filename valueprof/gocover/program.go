package gocover

import "cmp"

// Program is what one instrumented binary counted, in all its runs. One goroutine
// adds to it; once it does not, any may read.
type Program struct {
	Hash     [16]byte // of the meta-data file
	Mode     Mode
	Runs     int // counter files that were added
	Packages []Package
}

// Mode is the -covermode that a program was built with.
type Mode uint8

// The modes, as the meta-data file numbers them (internal/coverage/defs.go, Go 1.26).
const (
	ModeSet    Mode = iota + 1 // counts are 1, executed, or 0, not executed
	ModeCount                  // counts are executions
	ModeAtomic                 // the same, exact in concurrent programs
)

// String returns the word that -covermode takes.
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
	Module    string // path of its module; empty where there is none
	Functions []Function
}

// Function is a function, method or function literal.
type Function struct {
	// Name is the runtime's name without the package: "F", "(*T).Method", "init.0".
	// [Package.Symbol] puts the package before it.
	Name     string
	Receiver string // type of the receiver in Name: "*T", "T[...]"; empty for other functions
	File     string // import path of the package and base name; absolute if built from files
	// Line is that of the declaration, from 1; that of the opening brace where no
	// source was read.
	Line   uint32
	Blocks []Block // the first is where the function begins: its count is that of the calls

	// Branches and Switches are told by [Source.Split] alone.
	Branches []Branch
	Switches []Switch

	literal bool // a function literal
}

// Block is a run of statements that is executed as a whole.
type Block struct {
	Start, End Position // End is behind the last byte
	Statements uint32
	Count      uint64 // executions; 0 or 1 in mode set
}

// Branch is an if.
type Branch struct {
	Start, End     Position // of the keyword, and behind what is executed if the condition is true
	Taken, Untaken uint64   // how often the condition was true and false
}

// Switch is a switch or a select.
type Switch struct {
	Start, End Position // of the keyword, and behind the statement
	Cases      []Case
	None       uint64 // executions that chose no case; always 0 for a select
}

// Case is one case of a [Switch], or its default.
type Case struct {
	Line  uint32 // of the keyword
	Count uint64 // how often it was chosen; falling into it is not counted
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
