package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/usage"
	"github.com/ccmapd/ccmapd/manager"
)

// pidMark in the name of an output becomes the pid of the sampled process.
const pidMark = "%p"

// defaultOutput is written where no output is named, so that nothing that was
// sampled is lost. Only a further session with the same pid replaces it.
const defaultOutput = "ccmapd-" + pidMark + ".pb.gz"

// checkOutputs checks what can be checked before a long session: formats, and
// that the directories can be written to. Where the pid is part of a
// directory's name that is not known yet.
func checkOutputs(patterns []string) error {
	for i, pattern := range patterns {
		if pattern == "" {
			return usage.Errorf("--output names no file")
		}
		if slices.ContainsFunc(patterns[:i], func(other string) bool { return isSameOutput(other, pattern) }) {
			return usage.Errorf("output %s is named twice", pattern)
		}
		if isNameless(pattern) {
			continue
		}
		if err := checkDescriptor(pattern); err != nil {
			return err
		}
		if info, err := os.Stat(pattern); err == nil && info.IsDir() {
			return usage.Errorf("output %s is a directory", pattern)
		}
		if _, _, err := export.FormatOf(pattern); err != nil {
			return usage.Errorf("output %s: %w", pattern, err)
		}
		if dir := filepath.Dir(pattern); !strings.Contains(dir, pidMark) && !export.IsStream(pattern) {
			if err := checkWritable(pattern, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSameOutput reports whether two names are of one output.
func isSameOutput(a, b string) bool {
	return isStdout(a) && isStdout(b) || filepath.Clean(a) == filepath.Clean(b)
}

// checkWritable checks that a file can be created in dir. The kernel is asked
// rather than a file created, so that nothing is left behind.
func checkWritable(path, dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return explainWrite(fmt.Errorf("output %s: %w", path, err))
	case !info.IsDir():
		return usage.Errorf("output %s: %s is not a directory", path, dir)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return explainWrite(fmt.Errorf("output %s: write to directory %s: %w", path, dir, err))
	}
	return nil
}

// dumps returns the dumps into the outputs, for a pid.
func (f *samplingFlags) dumps(env *environment, pid int) []manager.Dump {
	var dumps []manager.Dump
	for _, pattern := range f.outputs {
		o := f.output(env, pattern, pid)
		dumps = append(dumps, manager.Dump{Name: o.path, Write: o.write})
	}
	return dumps
}

func (f *samplingFlags) output(env *environment, pattern string, pid int) output {
	switch {
	case isStdout(pattern):
		return output{path: session.Stdout, stdout: env.profile, format: f.streamFormat()}
	case isNameless(pattern):
		return output{path: pattern, format: f.streamFormat()}
	}
	return output{path: strings.ReplaceAll(pattern, pidMark, strconv.Itoa(pid))}
}
