package view

import (
	"errors"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// Code tells kinds of errors apart, for programs. A command has an exit code for each, a
// service a status.
type Code string

// The codes.
const (
	CodeNotPermitted    Code = "not-permitted"
	CodeNoTarget        Code = "no-target" // no such target, process or profile
	CodeNoMethod        Code = "no-method"
	CodeAmbiguousMethod Code = "ambiguous-method"
	CodeUsage           Code = "usage"
	CodeTooLarge        Code = "too-large"
	CodeBusy            Code = "busy" // try again later
	CodeFailed          Code = "failed"
)

// Error is an error with its code and what to do about it.
type Error struct {
	Code       Code
	Hint       string   // one or more lines; empty: no advice
	Candidates []string // names that an ambiguous one stands for, or that are like an unknown one
	Err        error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// ErrorOf returns an error of this package, or of the packages that it uses, with its code.
// The code of an unknown error is CodeFailed.
func ErrorOf(err error) *Error {
	var known *Error
	var name *query.NameError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &name) && len(name.Found) > 0:
		return &Error{Code: CodeAmbiguousMethod, Hint: "Give more of the name.", Candidates: name.Found, Err: err}
	case errors.As(err, &name):
		return &Error{Code: CodeNoMethod, Candidates: name.Near, Err: err}
	case errors.Is(err, ErrNoWindow):
		return &Error{Code: CodeUsage, Hint: "A profile has a window only if it was sampled with one.", Err: err}
	case errors.Is(err, compare.ErrEmpty):
		return &Error{Code: CodeFailed, Hint: "Sample for longer, or weigh by something else.", Err: err}
	case errors.Is(err, ccmap.ErrUnlike):
		return &Error{Code: CodeUsage, Hint: "Compare profiles of one kind.", Err: err}
	}
	return &Error{Code: CodeFailed, Err: err}
}
