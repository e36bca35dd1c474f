package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{errors.New("anything"), exitFailed},
		{usage.Errorf("bad flag"), exitUsage},
		{withHint(usage.Errorf("bad flag"), "hint"), exitUsage},
		{fmt.Errorf("attach: %w", sampler.ErrPermission), exitPermission},
		{fmt.Errorf("attach: %w", sampler.ErrNoProcess), exitNoTarget},
		{fmt.Errorf("attach: %w", sampler.ErrNotManaged), exitNoTarget},
		{&advice.Error{Code: advice.CodeNotPermitted, Err: sampler.ErrNoProcess}, exitPermission},
		{fmt.Errorf("ask: %w", &advice.Error{Code: advice.CodeNoTarget, Err: sampler.ErrPermission}), exitNoTarget},
		{&advice.Error{Code: advice.CodeUsage, Err: errors.New("ask")}, exitUsage},
		{&advice.Error{Code: advice.CodeBusy, Err: errors.New("ask")}, exitFailed},
		{exitError{code: 42}, 42},
		{errors.Join(errors.New("other"), exitError{code: 42}), 42},
		{exitError{exitRunFailed, sampler.ErrPermission}, exitRunFailed},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("exit code of %v is %d, want %d", test.err, got, test.want)
		}
	}
}

func TestReportError(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{Use: "ccmapd"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{exitError{code: 3}, ""},
		{errors.New("no luck"), "ccmapd: no luck\n"},
		{usage.Errorf("bad flag"), "ccmapd: bad flag\n  Try 'ccmapd --help'.\n"},
		{withHint(errors.New("no luck"), "Try\nagain."), "ccmapd: no luck\n  Try\n  again.\n"},
		{exitError{7, errors.New("no luck")}, "ccmapd: no luck\n"},
	} {
		var out strings.Builder
		reportError(&out, cmd, test.err)
		if out.String() != test.want {
			t.Errorf("report of %v is %q, want %q", test.err, out.String(), test.want)
		}
	}
}

func TestHintKeepsNil(t *testing.T) {
	t.Parallel()
	if err := withHint(nil, "hint"); err != nil {
		t.Errorf("hint to no error: %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"atach", "--nonsense", "attach", "attach --match (", "attach 0", "attach -1", "attach 1 2", "attach --nonsense 1",
		"attach -d -1s 1", "attach -i 0s 1", "attach --tune-low 20 1", "attach --tune-low NaN 1",
		"attach --max-overhead 101 1", "attach --max-overhead NaN 1", "attach --max-host-overhead 101 1", "attach --min-interval 1s --max-interval 1ms 1",
		"attach --tune-window -1 1", "attach --tune-window 0 1", "attach --min-interval 1s 1", "attach --max-interval 1ms 1",
		"attach --tune-high 100 1", "demo -d 0s", "attach --engine magic 1", "attach -o x.doc 1", "attach -o a.xml -o a.xml 1",
		"attach -q -v 1", "attach -q --json 1",
		"attach -q --dump-values 1", "attach --hits -1 1", "attach --hits NaN 1", "attach --janitor often 1", "demo --hits x", "run", "run --nonsense -- true", "version x", "demo x",
	} {
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, strings.Fields(line)...)
		if r.code != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, "ccmapd: ") {
			t.Errorf("ccmapd %s: exit code %d, want %d; output %q, %q", line, r.code, exitUsage, r.stdout, r.stderr)
		}
		if strings.Count(r.stderr, "\n") < 2 {
			t.Errorf("ccmapd %s: %q does not say what to do", line, r.stderr)
		}
	}
}

// TestUsageErrorsSpeakOfFlags: what is wrong is said in the words and units of
// the command line.
func TestUsageErrorsSpeakOfFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"attach":                      "attach wants one process id, name or URL, and got 0 arguments",
		"attach 1 2":                  "attach wants one process id, name or URL, and got 2 arguments",
		"run":                         "run wants a program, and got 0 arguments",
		"attach -q --json 1":          "--quiet and --json exclude each other",
		"attach --tune-low 20 1":      "--tune-low 20 and --tune-high 15 are not in the order",
		"attach --min-interval 1s 1":  "--interval 10ms is shorter than --min-interval 1s",
		"attach --max-interval 1ms 1": "--interval 10ms is longer than --max-interval 1ms",
		"attach -o / 1":               "output / is a directory",
	} {
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, strings.Fields(line)...)
		if r.code != exitUsage || !strings.HasPrefix(r.stderr, "ccmapd: "+want) {
			t.Errorf("ccmapd %s: exit code %d, %q, want %q", line, r.code, r.stderr, want)
		}
	}
}

func TestUnknownCommandSuggests(t *testing.T) {
	t.Parallel()
	if r := runEngines(t, nil, "atach", "-d", "3s"); !strings.Contains(r.stderr, "Did you mean attach or detach?") {
		t.Errorf("no suggestion in %q", r.stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"help"}, {"--help"}} {
		r := runEngines(t, nil, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, "Exit codes:") || !strings.Contains(r.stdout, "  attach ") {
			t.Errorf("ccmapd %q: exit code %d, output %q", args, r.code, r.stdout)
		}
	}
}

// TestEveryCommandIsDocumented: the help of each command has a description and an example,
// its lines fit a terminal, and it fits a screen: longer texts are pages under docs.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot(&environment{stdout: io.Discard, stderr: io.Discard, engines: engine.All()}).Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, "ccmapd "+cmd.Name()) {
			t.Errorf("%s has no short or long help or no example", cmd.Name())
		}
		most := 42
		if cmd.Name() == "attach" || cmd.Name() == "run" {
			most = 70 // most of them flags
		}
		if n := strings.Count(cmd.Long+"\n\n"+cmd.UsageString(), "\n"); n > most {
			t.Errorf("help of %s: %d lines, more than %d", cmd.Name(), n, most)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 90 {
				t.Errorf("help of %s: a line of %d columns: %s", cmd.Name(), n, line)
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := runEngines(t, nil, "completion", shell); r.code != exitOK || len(r.stdout) < 1000 {
			t.Errorf("completion for %s: exit code %d, %d bytes", shell, r.code, len(r.stdout))
		}
	}
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "__complete", "attach", "--engine", "")
	if !strings.Contains(r.stdout, "fake\n") {
		t.Errorf("completions of --engine: %q", r.stdout)
	}
	// Programs and modules are files; the directives are cobra's, "default" and
	// "directories".
	for args, want := range map[string]string{"run": ":0\n", "run app.wasm": ":0\n", "run --dir": ":16\n"} {
		r := runEngines(t, nil, append([]string{"__complete"}, append(strings.Fields(args), "")...)...)
		if !strings.HasSuffix(r.stdout, want) {
			t.Errorf("completions of %s: %q", args, r.stdout)
		}
	}
}

// TestTooManySymbols: who meets the bounds of a load is told what to do.
func TestTooManySymbols(t *testing.T) {
	t.Parallel()
	r := runEngines(t, []engine.Engine{refusingEngine("full", fmt.Errorf("load symbols: %w", gosym.ErrTooMuch))}, "attach", "42")
	if r.code != exitFailed || !strings.Contains(r.stderr, "net/http/pprof can profile it") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	able := engine.Engine{Name: "able", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		return &fakeSource{ProcessOptions: a, probes: 1}, nil
	}}
	all := []engine.Engine{able, fakeEngine(false), refusingEngine("forbidden", sampler.ErrPermission)}
	r := runEngines(t, all, "version")
	for _, want := range []string{
		"ccmapd ", "go1.", "engine able: permitted, and hardware breakpoints\n",
		"engine fake: permitted, without hardware breakpoints: it catches no calls\n", "engine forbidden: not permitted\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("output %q lacks %q", r.stdout, want)
		}
	}
}

// TestFinderHints: an error in a name says which names are like it, or what to do.
func TestFinderHints(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for _, name := range []string{"main.(*Server).handle", "main.(*Client).handle", "net/http.(*conn).serve", "main.Observer.handler"} {
		names.Intern(ccmap.Method{Name: name})
	}
	for text, want := range map[string]string{
		"handle":      "Give more of the name, or --match REGEXP: main.(*Client).handle, main.(*Server).handle",
		"Server.hand": "Near it: main.(*Server).handle, main.Observer.handler",
		"srve":        "Near it: net/http.(*conn).serve",
		"quux":        listsAllMethods,
		"quux>quuux":  "A path is written with spaces around the separators: 'A > B > C'.",
	} {
		_, err := finder(false)(names, text)
		if hint, _ := advice.Of(err); hint != want {
			t.Errorf("%q: %v, hint %q, want %q", text, err, hint, want)
		}
	}
	if _, err := finder(true)(names, "("); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "not a regular expression") {
		t.Errorf("bad expression: %v, exit code %d, want %d", err, exitCode(err), exitUsage)
	}
	_, err := finder(true)(names, "xyz")
	if hint, _ := advice.Of(err); hint != listsAllMethods {
		t.Errorf("an expression that matches nothing: %v", err)
	}
	if set, err := finder(true)(names, `\.handle$`); err != nil || len(set.IDs()) != 2 {
		t.Errorf("%d methods, %v", len(set.IDs()), err)
	}
}
