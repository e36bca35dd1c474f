package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/export"
)

// profile is a profile that was read, and the measure of what is hot in it.
type profile struct {
	*ccmap.Snapshot                 // what is shown
	whole           *ccmap.Snapshot // the whole run: the same, unless its window is shown
	path            string
	measure         measure
	cautioned       bool    // the caution has been printed
	phase           *uint32 // of the caught calls; nil: all
}

// countsSamples reports whether the profile says how many samples it was made
// of. Folded stacks hold one figure, which is not that one.
func (p *profile) countsSamples() bool {
	total := p.Total()
	return total.Samples > 0 || total.Time == 0
}

// stdPath, as a path, means standard input or output.
const stdPath = "-"

// loadProfile reads a profile from a file or from standard input.
func loadProfile(env *environment, path string, o export.ReadOptions) (*profile, error) {
	m, err := readMap(env, path, o)
	if err != nil {
		return nil, err
	}
	return newProfile(path, m.Snapshot()), nil
}

func newProfile(path string, s *ccmap.Snapshot) *profile {
	return &profile{Snapshot: s, whole: s, path: path, measure: measureOf(s)}
}

// readMap reads a map from a file or from standard input.
func readMap(env *environment, path string, o export.ReadOptions) (m *ccmap.Map, err error) {
	if o = env.memory.bound(o); path == stdPath {
		if m, _, err = export.Read(env.stdin, o); err != nil {
			err = fmt.Errorf("standard input: %w", err)
		}
	} else {
		m, _, err = export.ReadFile(path, o)
	}
	if err != nil {
		return nil, explainRead(err)
	}
	env.memory.hold(m)
	return m, nil
}

// explainRead adds to an error in reading a profile what to do about it, and the
// exit code where it is not the usual one.
func explainRead(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return exitError{exitPermission, withHint(err, "Run as the owner of the file, or as root.")}
	case errors.Is(err, fs.ErrNotExist):
		return withHint(err, "Check the name. It is relative to the working directory.")
	case errors.Is(err, syscall.EISDIR):
		return withHint(err, "Name one of the profiles in it.")
	case errors.Is(err, export.ErrEmpty):
		return withHint(err, "Whatever wrote it did not finish, or had nothing to say: take the profile again.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return withHint(err, "It was cut: copy it again, or take the profile again.")
	case errors.Is(err, export.ErrMemory):
		return withHint(err, readMemoryHint)
	case errors.Is(err, export.ErrTooDeep):
		return withHint(err, "No profiler writes that: take the profile again.")
	case errors.Is(err, export.ErrTooLarge):
		return withHint(err, readMemoryHint)
	case errors.Is(err, export.ErrVersion), errors.Is(err, export.ErrSampleType):
		return err // says which to take
	}
	return withHint(err, "A profile is a file that 'ccmapd attach -o' or 'go tool pprof -proto' wrote, or folded stacks.")
}

// checkStdinOnce refuses a list of inputs with standard input in it twice.
func checkStdinOnce(paths []string) error {
	if i := slices.Index(paths, stdPath); i >= 0 && slices.Contains(paths[i+1:], stdPath) {
		return usagef("'-' stands twice in the list: standard input can be read once")
	}
	return nil
}

// loadWithMethods reads the profile of the arguments FILE [METHOD], and returns
// with it the methods that METHOD or --match means: nil, which is all, without one.
func (l *listing) loadWithMethods(env *environment, args []string) (*profile, query.Methods, error) {
	p, err := l.load(env, args[0])
	text, isRegexp := l.method(args)
	if err != nil || text == "" {
		return p, nil, err
	}
	methods, err := finder(isRegexp)(p.Names(), text)
	return p, methods, err
}
