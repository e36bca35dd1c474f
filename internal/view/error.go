package view

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/advice"
)

// Code tells kinds of errors apart, for programs. A command has an exit code for each, a
// service a status.
type Code = advice.Code

// The codes.
const (
	CodeNotPermitted    = advice.CodeNotPermitted
	CodeNoTarget        = advice.CodeNoTarget // no such target, process or profile
	CodeNoMethod        = advice.CodeNoMethod
	CodeAmbiguousMethod = advice.CodeAmbiguousMethod
	CodeUsage           = advice.CodeUsage
	CodeTooLarge        = advice.CodeTooLarge
	CodeBusy            = advice.CodeBusy // try again later
	CodeFailed          = advice.CodeFailed
)

// Error is an error with its Code, a Hint of one or more lines about what to do, and Candidates: the names that an
// ambiguous one stands for, or that are like an unknown one. Err has its text and its cause. If Code is empty, Err may
// have one, which [ErrorOf] finds.
type Error = advice.Error

// reasons has what users are told of the errors of this package and of the packages that it uses.
var reasons = []advice.Reason{
	{Err: ErrNoWindow, Code: CodeUsage, Hint: "A profile has a window only if it was sampled with one."},
	{Err: compare.ErrEmpty, Code: CodeFailed, Hint: "Sample for longer, or weigh by something else."},
	{Err: ccmap.ErrUnlike, Code: CodeUsage, Hint: "Compare profiles of one kind."},
}

// ErrorOf returns an error of this package, or of the packages that it uses, with its code.
// The code of an unknown error is CodeFailed.
func ErrorOf(err error) *Error {
	if known := advice.Explain(err, reasons); known != nil {
		return known
	}
	return &Error{Code: CodeFailed, Err: err}
}
