package mergefiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ccmapd/ccmapd/export"
)

// Input is a profile to be merged.
type Input struct {
	Path   string        // Stdin: standard input
	Weight export.Weight // how often it counts
}

// Stdin is the path of standard input.
const Stdin = "-"

// standardInput is its name in messages.
const standardInput = "standard input"

func (in Input) name() string {
	if in.Path == Stdin {
		return standardInput
	}
	return in.Path
}

// isRegular reports whether the profile can be read again.
func (in Input) isRegular() bool {
	info, err := os.Stat(in.Path)
	return err == nil && info.Mode().IsRegular()
}

// ParseInput takes FILE=WEIGHT apart, unless a file has that name as a whole, or there is
// no '='.
func ParseInput(s string) (Input, error) {
	in := Input{Path: s}
	cut := strings.LastIndexByte(s, '=')
	if cut < 0 {
		return in, nil
	}
	if _, err := os.Lstat(s); !errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	weight, err := export.ParseWeight(s[cut+1:])
	if err != nil {
		return in, fmt.Errorf("%s: weight %q: %w", s[:cut], s[cut+1:], err)
	}
	return Input{Path: s[:cut], Weight: weight}, nil
}

// ReadList returns the lines of a file, or of stdin, that are not blank. If the file cannot
// be opened, the error is an [InputError].
func ReadList(path string, stdin io.Reader) ([]string, error) {
	if path == Stdin {
		return nonBlankLines(stdin, standardInput)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, InputError{err}
	}
	defer f.Close()
	return nonBlankLines(f, path)
}

func nonBlankLines(r io.Reader, name string) ([]string, error) {
	var lines []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		if line := scanner.Text(); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read list %s: %w", name, err)
	}
	return lines, nil
}
