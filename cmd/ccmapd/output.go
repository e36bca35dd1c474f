package main

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// output is where a command writes a profile to: a file, whose name gives the
// format, or standard output.
type output struct {
	path   string
	stdout io.Writer     // nil for a file
	format export.Format // of standard output
}

// formats are those that --to knows by their names.
var formats = []export.Format{export.Pprof, export.XML, export.JSON, export.Folded}

// registerTo adds the flag that gives the format of standard output.
func registerTo(cmd *cobra.Command, to *choice) {
	for _, f := range formats {
		to.from = append(to.from, f.String())
	}
	registerChoice(cmd, to, "to", "`FORMAT` of standard output: "+orList(to.from))
}

// stdoutName is how standard output is called where profiles are listed.
const stdoutName = "standard output"

func isStdout(path string) bool { return path == stdPath || path == "/dev/stdout" }

// newOutput checks what is known before anything was read, so that nobody waits
// for a result that has nowhere to go.
func newOutput(env *environment, path string, to choice) (output, error) {
	toStdout := isStdout(path)
	switch {
	case toStdout && to.value == "":
		return output{}, usagef("standard output has no name that gives a format: say --to pprof, xml, json or folded")
	case toStdout:
		return output{path: stdoutName, stdout: env.stdout, format: formats[slices.Index(to.from, to.value)]}, nil
	case to.value != "":
		return output{}, usagef("--to %s is for standard output: the format of %s is that of its name", to.value, path)
	}
	if _, _, err := export.FormatOf(path); err != nil {
		return output{}, usagef("output %s: %w", path, err)
	}
	return output{path: path}, nil
}

// writes returns the format of the output.
func (o output) writes() export.Format {
	if o.stdout != nil {
		return o.format
	}
	format, _, _ := export.FormatOf(o.path) // was checked by newOutput
	return format
}

func (o output) write(s *ccmap.Snapshot) error {
	if o.stdout != nil {
		return explainWrite(export.Write(o.stdout, o.format, s))
	}
	return explainWrite(export.WriteFile(o.path, s))
}

// explainWrite adds to an error in writing a profile what to do about it, and
// the exit code where it is not the usual one.
func explainWrite(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return exitError{exitPermission, withHint(err, "Choose a directory that you may write to.")}
	case errors.Is(err, fs.ErrNotExist):
		return withHint(err, "Make the directory first.")
	case errors.Is(err, fs.ErrExist):
		return withHint(err, "A directory has that name: choose another.")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return withHint(err, "The device is full: make room, or choose another.")
	}
	return err
}
