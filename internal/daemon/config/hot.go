package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ccmapd/ccmapd/manager"
)

// Hot says which methods, edges and paths of a target raise an event when they become hot.
type Hot struct {
	Method manager.Threshold // zero: none is hot
	Edge   manager.Threshold
	Paths  string // each a line, as manager.HotPath prints it: types of a configuration are comparable
}

const (
	// mostPaths of a target are watched. Each costs a pass over the map at each look.
	mostPaths = 64
	// longestPath bounds a path, bytes.
	longestPath = 4096
)

func (h *Hot) fields() []field {
	return []field{
		{"method", threshold(&h.Method)},
		{"edge", threshold(&h.Edge)},
		{"path", paths(&h.Paths)},
	}
}

// Thresholds returns the thresholds for a manager.
func (h Hot) Thresholds() manager.Thresholds {
	t := manager.Thresholds{Method: h.Method, Edge: h.Edge}
	for line := range strings.Lines(h.Paths) {
		var p manager.HotPath
		if p.UnmarshalText([]byte(strings.TrimSuffix(line, "\n"))) == nil { // paths has checked it
			t.Paths = append(t.Paths, p)
		}
	}
	return t
}

// threshold sets a threshold of what is hot.
func threshold(to *manager.Threshold) func(any) error {
	return func(value any) error {
		if s, is := value.(string); !is || to.UnmarshalText([]byte(s)) != nil {
			return errors.New(`must be a CPU time in quotes, "10s", a share of the recent CPU time, "1%/10m", or "0" for none`)
		}
		return nil
	}
}

// paths sets paths that are watched.
func paths(to *string) func(any) error {
	return func(value any) error {
		list, is := value.([]any)
		if !is || len(list) > mostPaths {
			return fmt.Errorf(`must be at most %d paths, such as ["A > B > C", "A > B = 10s"]`, mostPaths)
		}
		var lines []string
		for i, element := range list {
			var p manager.HotPath
			s, is := element.(string)
			if !is || len(s) > longestPath {
				return fmt.Errorf("must be paths in quotes, of at most %d bytes: the %d. is not", longestPath, i+1)
			}
			if err := p.UnmarshalText([]byte(s)); err != nil {
				return fmt.Errorf("must be paths, such as %q: %w", "A > B = 10s", err)
			}
			lines = append(lines, p.String())
		}
		*to = strings.Join(lines, "\n")
		return nil
	}
}
