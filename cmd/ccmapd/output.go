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
	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/usage"
)

// output is where a command writes a profile to: a file, whose name gives the
// format, standard output, or a stream without such a name, for example /dev/fd/3.
type output struct {
	path   string
	stdout io.Writer     // nil for a file or stream
	format export.Format // of standard output and of a stream; 0: of the name
}

// formats are those that --to knows by their names.
var formats = []export.Format{export.Pprof, export.XML, export.JSON, export.Folded}

// registerTo adds the flag that gives the format of standard output.
func registerTo(cmd *cobra.Command, to *choice) {
	for _, f := range formats {
		to.from = append(to.from, f.String())
	}
	registerChoice(cmd, to, "to", "`FORMAT` of standard output, a pipe or a device: "+terminal.OrList(to.from))
}

// isStdout reports whether an output is standard output: '-', or a name without a format
// that leads there, such as /dev/stdout.
func isStdout(path string) bool {
	fd, ok := export.Descriptor(path)
	return path == stdPath || ok && fd == syscall.Stdout && !hasFormat(path)
}

// hasFormat reports whether the name of an output gives its format.
func hasFormat(path string) bool {
	_, _, err := export.FormatOf(path)
	return err == nil
}

// isNameless reports whether an output has no name that gives a format: standard
// output, a pipe or a device.
func isNameless(path string) bool {
	return isStdout(path) || !hasFormat(path) && export.IsStream(path)
}

// formatNamed returns the format that --to names, 0 if it does not.
func formatNamed(to choice) export.Format {
	if i := slices.Index(to.from, to.value); i >= 0 {
		return formats[i]
	}
	return 0
}

// newOutput checks what is known before anything was read, so that nobody waits
// for a result that has nowhere to go.
func newOutput(env *environment, path string, to choice) (output, error) {
	format := formatNamed(to)
	name := path
	if isStdout(path) {
		name = session.Stdout
	}
	if err := checkDescriptor(path); err != nil {
		return output{}, err
	}
	switch {
	case isNameless(path) && format == 0:
		return output{}, usage.Errorf("%s has no name that gives a format: say --to pprof, xml, json or folded", name)
	case isStdout(path):
		return output{path: session.Stdout, stdout: terminal.Unguarded(env.stdout), format: format}, nil
	case isNameless(path):
		return output{path: path, format: format}, nil
	case format != 0:
		return output{}, usage.Errorf("--to %s is for standard output: the format of %s is that of its name", to.value, path)
	}
	if _, _, err := export.FormatOf(path); err != nil {
		return output{}, usage.Errorf("output %s: %w", path, err)
	}
	return output{path: path}, nil
}

// checkDescriptor refuses an output that means a descriptor that is not open.
func checkDescriptor(path string) error {
	if fd, ok := export.Descriptor(path); ok && !export.IsStream(path) {
		return usage.Errorf("output %s: ccmapd was started without a descriptor %d", path, fd)
	}
	return nil
}

// writes returns the format of the output.
func (o output) writes() export.Format {
	if o.format != 0 {
		return o.format
	}
	format, _, _ := export.FormatOf(o.path) // was checked by newOutput
	return format
}

func (o output) write(s *ccmap.Snapshot) error {
	switch {
	case o.stdout != nil:
		return explainWrite(export.Write(o.stdout, o.format, s))
	case o.format != 0:
		return explainWrite(export.WriteFileAs(o.path, o.format, s))
	}
	return explainWrite(export.WriteFile(o.path, s))
}

// explainWrite adds to an error in writing a profile what to do about it, and
// the exit code where it is not the usual one.
func explainWrite(err error) error {
	switch {
	case errors.Is(err, export.ErrForeignPipe):
		return exitError{exitPermission, withHint(err, "Choose another name or, if you trust its reader, write '-o - > FILE'.")}
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
