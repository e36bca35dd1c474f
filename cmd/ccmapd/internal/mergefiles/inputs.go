package mergefiles

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
)

// Input is a profile to be merged.
type Input struct {
	Path   string        // as package client names profiles
	Weight export.Weight // how often it counts
}

func (in Input) name() string { return client.Name(in.Path) }

// ParseInput takes FILE=WEIGHT apart, unless a file has that name as a whole, it is a URL with
// a query, or there is no '='.
func ParseInput(s string) (Input, error) {
	in := Input{Path: s}
	cut := strings.LastIndexByte(s, '=')
	if cut < 0 || client.IsRemote(s) && strings.Contains(s, "?") {
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
	if path == client.Stdin {
		return nonBlankLines(stdin, client.Name(path))
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
