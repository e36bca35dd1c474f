// Package refusal has the reasons why a process cannot be sampled, as errors that others wrap. It is below all
// that reads /proc. Package sampler has them under the same names, for callers from outside.
package refusal

import (
	"errors"
	"fmt"
)

// The reasons. Test for them with errors.Is.
var (
	ErrNoProcess   = errors.New("no such process")
	ErrNotManaged  = errors.New("neither a Go program nor a JVM")
	ErrPermission  = errors.New("not permitted")
	ErrUnsupported = errors.New("not supported here")

	// ErrProgram: no engine reads the program, whoever asks, until its file changes: another version of Go or
	// another VM has made it. It is an ErrUnsupported.
	ErrProgram = fmt.Errorf("a program that no engine reads: %w", ErrUnsupported)
)
