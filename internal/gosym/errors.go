package gosym

import "errors"

// Errors that [Open] and [Table.Refresh] wrap. A process that does
// not exist or may not be read gives errors for which errors.Is finds
// fs.ErrNotExist or fs.ErrPermission.
var (
	// ErrNotGo: no image of the process has a Go program counter table.
	ErrNotGo = errors.New("not a Go program")
	// ErrNotReady: the program has not been relocated yet; it was stopped, or
	// seen, right after exec. Try again once it has run.
	ErrNotReady = errors.New("program is not relocated yet")
	// ErrUnsupported: a Go program, of a version or form that is not known here.
	ErrUnsupported = errors.New("unsupported Go program")
	// ErrReplaced: the process has replaced itself by another program (exec).
	ErrReplaced = errors.New("the process replaced itself by another program (exec) meanwhile")
	// errCorrupt: tables that contradict themselves.
	errCorrupt = errors.New("corrupt symbol table")
)
