// Package output writes profiles to the places that users name: a file, whose name gives
// the format, standard output, a pipe or a device. [Check] and [New] refuse a bad name before
// anything is sampled or read, and their errors name the remedy.
package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// StdPath, as a path, means standard input or output.
const StdPath = "-"

// Stdout is the name of standard output in lists of outputs.
const Stdout = "standard output"

// Output is where a command writes a profile to: a file, whose name gives the
// format, standard output, or a stream without such a name, for example /dev/fd/3.
type Output struct {
	Path   string
	stdout io.Writer     // nil for a file or stream
	format export.Format // of standard output and of a stream; 0: the name gives it
}

// IsStdout reports whether an output is standard output: '-', or a name without a format
// that leads there, such as /dev/stdout.
func IsStdout(path string) bool {
	fd, ok := export.Descriptor(path)
	return path == StdPath || ok && fd == syscall.Stdout && !hasFormat(path)
}

// hasFormat reports whether the name of an output gives its format.
func hasFormat(path string) bool {
	_, _, err := export.FormatOf(path)
	return err == nil
}

// IsNameless reports whether an output has no name that gives a format: standard
// output, a pipe or a device.
func IsNameless(path string) bool {
	return IsStdout(path) || !hasFormat(path) && export.IsStream(path)
}

// New opens no file yet. It refuses a path without a known format, so that no user waits
// for a result that cannot be written.
func New(path string, format export.Format, stdout io.Writer) (Output, error) {
	name := path
	if IsStdout(path) {
		name = Stdout
	}
	if err := checkDescriptor(path); err != nil {
		return Output{}, err
	}
	switch {
	case IsNameless(path) && format == 0:
		return Output{}, usage.Errorf("%s has no name that gives a format: say --to %s", name, terminal.OrList(export.Formats()))
	case IsStdout(path):
		return Output{Path: Stdout, stdout: stdout, format: format}, nil
	case IsNameless(path):
		return Output{Path: path, format: format}, nil
	case format != 0:
		return Output{}, usage.Errorf("--to %s is for standard output: the name of %s gives its format", format, path)
	}
	if _, _, err := export.FormatOf(path); err != nil {
		return Output{}, usage.Errorf("output %s: %w", path, err)
	}
	return Output{Path: path}, nil
}

// checkDescriptor refuses an output that means a descriptor that is not open.
func checkDescriptor(path string) error {
	if fd, ok := export.Descriptor(path); ok && !export.IsStream(path) {
		return usage.Errorf("output %s: ccmapd was started without a descriptor %d", path, fd)
	}
	return nil
}

// Format returns the format of the output.
func (o Output) Format() export.Format {
	if o.format != 0 {
		return o.format
	}
	format, _, _ := export.FormatOf(o.Path) // was checked by New
	return format
}

// Write writes a profile.
func (o Output) Write(s *ccmap.Snapshot) error {
	switch {
	case o.stdout != nil:
		return Explain(export.Write(o.stdout, o.format, s))
	case o.format != 0:
		return Explain(export.WriteFileAs(o.Path, o.format, s))
	}
	return Explain(export.WriteFile(o.Path, s))
}

// Explain adds advice to an error in writing a profile, and its code where a right is missing.
func Explain(err error) error {
	switch {
	case errors.Is(err, export.ErrForeignPipe):
		return denied(err, "Choose another name or, if you trust its reader, write '-o - > FILE'.")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return denied(err, "Choose a directory that you may write to.")
	case errors.Is(err, fs.ErrNotExist):
		return advice.Add(err, "Make the directory first.")
	case errors.Is(err, fs.ErrExist):
		return advice.Add(err, "A directory has that name: choose another.")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return advice.Add(err, "The device is full: make room, or choose another.")
	}
	return err
}

func denied(err error, hint string) error {
	return &advice.Error{Code: advice.CodeNotPermitted, Hint: hint, Err: err}
}

// PIDMark in the name of an output becomes the pid of the sampled process.
const PIDMark = "%p"

// Default is the output if the user names none, so that no sample is lost. Only a
// further session with the same pid replaces it.
const Default = "ccmapd-" + PIDMark + ".pb.gz"

// Check checks outputs before a long session: each has a format, and its directory can
// be written to. A directory with the pid in its name is not known yet.
func Check(patterns []string) error {
	for i, pattern := range patterns {
		if pattern == "" {
			return usage.Errorf("--output names no file")
		}
		if slices.ContainsFunc(patterns[:i], func(other string) bool { return isSameOutput(other, pattern) }) {
			return usage.Errorf("output %s is named twice", pattern)
		}
		if IsNameless(pattern) {
			continue
		}
		if err := checkPlace(pattern); err != nil {
			return err
		}
		if _, _, err := export.FormatOf(pattern); err != nil {
			return usage.Errorf("output %s: %w", pattern, err)
		}
	}
	return nil
}

// CheckPage checks where a page goes that is written beside profiles: its name needs no format.
func CheckPage(path string, profiles []string) error {
	switch {
	case path == "" || IsStdout(path):
		return usage.Errorf("--html wants the name of a file")
	case slices.ContainsFunc(profiles, func(other string) bool { return isSameOutput(other, path) }):
		return usage.Errorf("output %s is named twice", path)
	}
	return checkPlace(path)
}

// checkPlace checks that a file can be made where a pattern says.
func checkPlace(pattern string) error {
	if err := checkDescriptor(pattern); err != nil {
		return err
	}
	if isDirectory(pattern) {
		return usage.Errorf("output %s is a directory", pattern)
	}
	if dir := filepath.Dir(pattern); !strings.Contains(dir, PIDMark) && !export.IsStream(pattern) {
		return checkWritable(pattern, dir)
	}
	return nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isSameOutput reports whether two names are of one output.
func isSameOutput(a, b string) bool {
	return IsStdout(a) && IsStdout(b) || filepath.Clean(a) == filepath.Clean(b)
}

// checkWritable checks that a file can be created in dir. The kernel is asked
// rather than a file created, so that nothing is left behind.
func checkWritable(path, dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return Explain(fmt.Errorf("output %s: %w", path, err))
	case !info.IsDir():
		return usage.Errorf("output %s: %s is not a directory", path, dir)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return Explain(fmt.Errorf("output %s: write to directory %s: %w", path, dir, err))
	}
	return nil
}

// WriteTemp writes a profile to a file in a new directory, for this user only,
// and returns its name.
func WriteTemp(s *ccmap.Snapshot, pid int) (string, error) {
	dir, err := os.MkdirTemp("", "ccmapd-*")
	if err != nil {
		return "", fmt.Errorf("keep profile: %w", err)
	}
	path := filepath.Join(dir, PathOf(Default, pid))
	if err := export.WriteFile(path, s); err != nil {
		return "", fmt.Errorf("keep profile: %w", errors.Join(err, os.Remove(dir)))
	}
	return path, nil
}

// PathOf returns the file that a pattern names, for the process with a pid.
func PathOf(pattern string, pid int) string {
	return strings.ReplaceAll(pattern, PIDMark, strconv.Itoa(pid))
}

// Of returns the output that a checked pattern names, for the process with a pid. Format is
// for standard output and for streams.
func Of(pattern string, pid int, format export.Format, stdout io.Writer) Output {
	switch {
	case IsStdout(pattern):
		return Output{Path: Stdout, stdout: stdout, format: format}
	case IsNameless(pattern):
		return Output{Path: pattern, format: format}
	}
	return Output{Path: PathOf(pattern, pid)}
}

// Beside returns the pattern of the output for a further program: the pattern itself if it has the
// pid, and otherwise with the name of the program and the pid before the extension. The name may be
// anything.
func Beside(pattern, name string) string {
	if strings.Contains(pattern, PIDMark) {
		return pattern
	}
	stem, extension := export.CutExtension(pattern)
	return stem + "." + safeName(name) + "-" + PIDMark + extension
}

// safeName makes a part of a file's name of a name: no separators, nothing that a shell or a terminal
// obeys.
func safeName(name string) string {
	const most = 40
	name = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), most)]
}
