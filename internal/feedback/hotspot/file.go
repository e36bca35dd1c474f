package hotspot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// fileFormat is the value of "format" that begins a file of hints.
const fileFormat = "ccmapd-hints"

// File is a file of hints, as JSON.
type File struct {
	Format  string   `json:"format"`  // ccmapd-hints
	Version int      `json:"version"` // 1
	Hints   []Hint   `json:"hints"`
	LeftOut []string `json:"left_out"` // why there is no hint where one was due
}

// NewFile returns the file of some hints.
func NewFile(hints []Hint, leftOut []string) File {
	return File{fileFormat, 1, append([]Hint{}, hints...), append([]string{}, leftOut...)}
}

// Bounds of a file of hints.
const (
	largestFile = 1 << 20 // bytes
	mostHints   = 1000
)

var (
	errFile = errors.New("not a file of hints")
	errHint = errors.New("bad hint")
)

// ReadFile reads a file of hints.
func ReadFile(r io.Reader) ([]Hint, error) {
	text, err := io.ReadAll(io.LimitReader(r, largestFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read hints: %w", err)
	case len(text) > largestFile:
		return nil, fmt.Errorf("%w: it has more than %d bytes", errFile, largestFile)
	}
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", errFile, err)
	}
	if f.Format != fileFormat || f.Version != 1 {
		return nil, fmt.Errorf("%w of version 1: %.40q of version %d", errFile, f.Format, f.Version)
	}
	return f.Hints, check(f.Hints)
}

// check checks hints whose methods were parsed.
func check(hints []Hint) error {
	if len(hints) > mostHints {
		return fmt.Errorf("%w: %d hints, more than %d", errFile, len(hints), mostHints)
	}
	for i, h := range hints {
		switch {
		case h.Action != Inline && h.Action != KeepOut:
			return fmt.Errorf("%w %d: its action is %.40q, want %q or %q", errHint, i+1, h.Action, Inline, KeepOut)
		case h.Root == Method{} || h.Callee == Method{} || h.Caller == Method{}:
			return fmt.Errorf("%w %d: it has no root, caller or callee", errHint, i+1)
		case h.Bytecode < 0:
			return fmt.Errorf("%w %d: its bytecode is %d", errHint, i+1, h.Bytecode)
		case h.ThrownBefore < 0:
			return fmt.Errorf("%w %d: code was thrown away %d times", errHint, i+1, h.ThrownBefore)
		}
	}
	return nil
}
