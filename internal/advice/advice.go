// Package advice adds lines for the user to errors: what happened is in the error, how to
// mend it in the advice.
package advice

import (
	"errors"
	"fmt"
)

// Error is an error with advice. Its text is the text of the error alone.
type Error struct {
	error
	Text string // one or more lines; foreign parts are not printable yet
}

func (e Error) Unwrap() error { return e.error }

// Add adds advice to err. It keeps nil.
func Add(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Error{err, fmt.Sprintf(format, args...)}
}

// Of returns the outermost advice of an error.
func Of(err error) (text string, ok bool) {
	var e Error
	ok = errors.As(err, &e)
	return e.Text, ok
}
