// Command field compares ccmapd with other profilers on foreign programs, and with the
// truth on programs that know it, while they run. No deterministic test can do that.
//
//	go run ./scripts/field programs           about half an hour
//	go run ./scripts/field programs -quick    a minute and a half, in CI
//	go run ./scripts/field --help             lists the campaigns
//
// Each campaign is a subcommand with a file of its own. It builds its programs
// ([field.build]), starts them ([field.start]), attaches ccmapd built from this tree
// ([field.attach]), and writes a portion of a Markdown file ([report.Portion]).
// Executables and profiles are kept in the work folder, for a look at them afterwards.
// Existing executables are not built again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// campaign is a subcommand.
type campaign struct {
	name    string
	about   string // one line
	example string // command lines, each with its purpose
	run     func(context.Context, *field) error
}

// campaigns lists the subcommands in the order of the help.
func campaigns() []campaign {
	return []campaign{programsCampaign, lockstepCampaign, repetitionsCampaign, pgoCampaign}
}

// field is the campaigns' common state: the flags, and ccmapd.
type field struct {
	work   string // folder of executables and profiles
	only   string // patterns of names, with commas between them; empty: all
	report string // the written Markdown file
	quick  bool
	window time.Duration // watching time of a program
	ccmapd string        // executable; empty: built from this tree
	log    io.Writer
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		printHelp(stdout)
		return 0
	}
	all := campaigns()
	i := slices.IndexFunc(all, func(c campaign) bool { return c.name == args[0] })
	if i < 0 {
		fmt.Fprintf(stderr, "field: there is no campaign %q; 'go run ./scripts/field --help' lists them\n", args[0])
		return 2
	}
	f, err := parse(all[i], args[1:], stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.campaign(ctx, all[i]); err != nil {
		fmt.Fprintln(stderr, "field:", err)
		return 1
	}
	return 0
}

func (f *field) campaign(ctx context.Context, c campaign) error {
	build := f.ccmapd == ""
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if build {
		defer os.Remove(f.ccmapd)
	}
	return c.run(ctx, f)
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "Field attaches ccmapd to running programs and holds its profiles against other\nwitnesses.\n\nCampaigns:\n")
	for _, c := range campaigns() {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.about)
	}
	fmt.Fprint(w, "\nExamples:\n")
	for _, c := range campaigns() {
		fmt.Fprintln(w, c.example)
	}
	fmt.Fprint(w, "\n'go run ./scripts/field CAMPAIGN --help' lists the flags.\n")
}

// parse reads the flags, which all campaigns share.
func parse(c campaign, args []string, stderr io.Writer) (*field, error) {
	f := &field{log: stderr}
	flags := flag.NewFlagSet("field "+c.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "%s: %s\n\nExamples:\n%s\n\nFlags:\n", c.name, c.about, c.example)
		flags.PrintDefaults()
	}
	flags.StringVar(&f.work, "work", filepath.Join(os.TempDir(), "ccmapd-field"), "keep executables and profiles in `FOLDER`")
	flags.StringVar(&f.only, "only", "", "measure only programs that match `PATTERN`, as sqlite or 'go1.2*,fortio'")
	flags.StringVar(&f.report, "o", "docs/accuracy.md", "rewrite the campaign's portion of `FILE`; empty: print it")
	flags.BoolVar(&f.quick, "quick", false, "little of everything, and fail only where a reach is missed by far")
	flags.DurationVar(&f.window, "window", 20*time.Second, "`TIME` that a program is watched for")
	flags.StringVar(&f.ccmapd, "ccmapd", "", "the `COMMAND` to measure; empty: build it from this tree")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "field: %q is not a flag\n", flags.Arg(0))
		return nil, errors.New("argument")
	}
	return f, nil
}

// prepare makes the work folder, readable for other users' programs, and ccmapd.
func (f *field) prepare(ctx context.Context) error {
	var err error
	if f.work, err = filepath.Abs(f.work); err != nil {
		return err
	}
	if err := os.MkdirAll(f.work, 0o755); err != nil {
		return err
	}
	if f.ccmapd != "" {
		f.ccmapd, err = filepath.Abs(f.ccmapd)
		return err
	}
	// Campaigns of other trees may run in the same folder.
	f.ccmapd = f.path(fmt.Sprintf("ccmapd-%d", os.Getpid()))
	f.say("building ccmapd")
	return command(exec.CommandContext(ctx, "go", "build", "-o", f.ccmapd, "./cmd/ccmapd"))
}

// write replaces a campaign's portion of the report, or prints it without a report.
func (f *field) write(p report.Portion, body string) error {
	if f.report == "" {
		_, err := fmt.Println(body)
		return err
	}
	return p.Rewrite(f.report, body)
}

// say reports progress.
func (f *field) say(format string, args ...any) {
	fmt.Fprintf(f.log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// path returns the path of a file in the work folder.
func (f *field) path(elements ...string) string {
	return filepath.Join(append([]string{f.work}, elements...)...)
}

// wants reports whether -only includes a name.
func (f *field) wants(name string) bool {
	if f.only == "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(f.only, ","), func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return matched || err != nil && pattern == name
	})
}

// command runs a command and shows its output only if it fails.
func command(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
