// Package advice has the errors that users are told: what happened, the code of its kind, what to do about it, and
// the names that were perhaps meant. A code has one exit code and one HTTP status, in a table here.
package advice

import (
	"cmp"
	"errors"
	"fmt"
)

// Error is an error with what users are told besides. Its text is the text of Err alone.
type Error struct {
	Code       Code     // empty: Err has it
	Hint       string   // one or more lines, whose foreign parts are not printable yet; empty: no advice
	Candidates []string // names that an ambiguous one stands for, or that are like an unknown one
	Err        error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Add adds advice to err. It keeps nil.
func Add(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Hint: fmt.Sprintf(format, args...), Err: err}
}

// Of returns the outermost advice of an error.
func Of(err error) (hint string, ok bool) {
	if e := first(err, func(e *Error) bool { return e.Hint != "" }); e != nil {
		return e.Hint, true
	}
	return "", false
}

// Coded returns the outermost Error of err that has a code, nil if there is none.
func Coded(err error) *Error { return first(err, func(e *Error) bool { return e.Code != "" }) }

// CodeOf returns the outermost code of an error, empty if it has none.
func CodeOf(err error) Code {
	if e := Coded(err); e != nil {
		return e.Code
	}
	return ""
}

// first returns the first Error for which ok holds, in the order of errors.As.
func first(err error, ok func(*Error) bool) *Error {
	if e, is := err.(*Error); is && ok(e) {
		return e
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return first(wrapper.Unwrap(), ok)
	case interface{ Unwrap() []error }:
		for _, err := range wrapper.Unwrap() {
			if e := first(err, ok); e != nil {
				return e
			}
		}
	}
	return nil
}

// Reason is what users are told of an error that packages tell apart with errors.Is.
type Reason struct {
	Err  error
	Code Code
	Hint string // empty: the advice that the error has
}

// Explain returns the [Coded] Error of err, or else a new one for the first reason that err has, nil if it has none.
func Explain(err error, reasons []Reason) *Error {
	if e := Coded(err); e != nil {
		return e
	}
	for _, r := range reasons {
		if errors.Is(err, r.Err) {
			hint, _ := Of(err)
			return &Error{Code: r.Code, Hint: cmp.Or(r.Hint, hint), Err: err}
		}
	}
	return nil
}
