// Package campaign holds the common parts of the commands that measure ccmapd on running
// programs and write a table into a page of docs:
//
//   - flags, the work folder, ccmapd built from this tree, progress ([Campaign]);
//   - programs that start, say that they are ready, and use CPU time ([Process]);
//   - a ccmapd that is attached to one of them ([Session]);
//   - means and medians with their 95 % intervals ([MeanOf], [MedianOf]).
//
// Package report writes the tables.
package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// Campaign is the state that all campaigns have: the values of flags.
type Campaign struct {
	Work   string // folder of executables and profiles
	Only   string // patterns of names, with commas between them; empty: all
	Report string // the Markdown file to rewrite; empty: print
	Quick  bool
	Ccmapd string // executable; empty: Prepare builds it from this tree
	Log    io.Writer
}

// Flags registers the flags. The campaign's name is part of the default work folder.
func (c *Campaign) Flags(flags *flag.FlagSet, name, report string) {
	c.Log = os.Stderr
	flags.StringVar(&c.Work, "work", filepath.Join(os.TempDir(), "ccmapd-"+name), "keep executables and profiles in `FOLDER`")
	flags.StringVar(&c.Only, "only", "", "measure only what matches `PATTERN`, as sqlite or 'go1.2*,fortio'")
	flags.StringVar(&c.Report, "o", report, "rewrite the campaign's portion of `FILE`; empty: print it")
	flags.BoolVar(&c.Quick, "quick", false, "a little of everything, for CI")
	flags.StringVar(&c.Ccmapd, "ccmapd", "", "the `COMMAND` to measure; empty: build it from this tree")
}

// Main runs a command in the folder of the tree, until it ends or is interrupted, and exits.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := EnterTree()
	if err == nil {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Prepare makes the work folder, which other users' programs may read, and ccmapd. The
// returned function removes a ccmapd that Prepare has built.
func (c *Campaign) Prepare(ctx context.Context) (remove func(), err error) {
	if c.Work, err = filepath.Abs(c.Work); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Work, 0o755); err != nil {
		return nil, err
	}
	if c.Ccmapd != "" {
		c.Ccmapd, err = filepath.Abs(c.Ccmapd)
		return func() {}, err
	}
	c.Ccmapd = c.Path(fmt.Sprintf("ccmapd-%d", os.Getpid())) // campaigns of other trees may use the folder
	c.Say("building ccmapd")
	return func() { os.Remove(c.Ccmapd) }, Build(ctx, c.Ccmapd, "./cmd/ccmapd")
}

// Path returns the path of a file in the work folder.
func (c *Campaign) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Work}, elements...)...)
}

// Say reports progress.
func (c *Campaign) Say(format string, args ...any) {
	fmt.Fprintf(c.Log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Wants reports whether Only includes a name.
func (c *Campaign) Wants(name string) bool {
	return c.Only == "" || slices.ContainsFunc(strings.Split(c.Only, ","), func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return matched || err != nil && pattern == name
	})
}

// Write replaces a portion of the report, or prints it without a report.
func (c *Campaign) Write(p report.Portion, body string) error {
	if c.Report == "" {
		_, err := fmt.Println(body)
		return err
	}
	return p.Rewrite(c.Report, body)
}

// Command runs a command and shows its output only if it fails.
func Command(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Once makes a file unless it exists.
func Once(path string, make func() error) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return make()
}

// WriteJSON writes a value into a file.
func WriteJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// ReadJSON reads a value from a file.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// ReadProfile reads a profile of any format.
func ReadProfile(file string) (*ccmap.Snapshot, error) {
	m, _, err := export.ReadFile(file, export.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return m.Snapshot(), nil
}
