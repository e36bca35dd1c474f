package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
)

// hotFlags are the flags of attach and run about what becomes hot, and where that is said.
type hotFlags struct {
	method, edge heatFlag
	paths        []string
	on           string // form, and a file after ':'

	watched manager.Thresholds
	to      *hotTeller
}

// Forms of events about what is hot.
const (
	hotText = "text"
	hotJSON = "json"
)

func (f *hotFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.method, "hot-method", "say when a method has used a `HEAT` of CPU time, 10s, or has had such a share lately, 1%/10m")
	flags.Var(&f.edge, "hot-edge", "say the same of each call of one method by another: a `HEAT`, 10s or 1%/10m")
	flags.StringArrayVar(&f.paths, "hot-path", nil, "say the same of a `PATH` of calls, 'A > B' or 'A > B = 10s'; may be repeated")
	flags.StringVar(&f.on, "on-hot", hotText, "say what is hot in this `FORM` on standard error: text or json, a line each; into a file: json:FILE")
}

// check finds what is wrong before anything is sampled. A file is made, or emptied.
func (f *hotFlags) check(cmd *cobra.Command) error {
	f.watched = manager.Thresholds{Method: f.method.Threshold, Edge: f.edge.Threshold}
	for _, text := range f.paths {
		var p manager.HotPath
		if err := p.UnmarshalText([]byte(text)); err != nil {
			return usage.Errorf("--hot-path %q: %w", text, err)
		}
		f.watched.Paths = append(f.watched.Paths, p)
	}
	form, file, hasFile := strings.Cut(f.on, ":")
	f.to = &hotTeller{asJSON: form == hotJSON, file: file}
	switch {
	case form != hotText && form != hotJSON:
		return usage.Errorf("--on-hot %q is neither %s nor %s, after which :FILE may stand", f.on, hotText, hotJSON)
	case hasFile && file == "":
		return usage.Errorf("--on-hot %s: names no file", form)
	case cmd.Flags().Changed("on-hot") && !f.isOn():
		return usage.Errorf("--on-hot is for --hot-method, --hot-edge and --hot-path, of which none is given")
	case hasFile:
		return f.to.append(nil, os.O_CREATE|os.O_TRUNC)
	}
	return nil
}

// isOn reports whether anything is watched.
func (f *hotFlags) isOn() bool {
	return f.method != heatFlag{} || f.edge != heatFlag{} || len(f.paths) > 0
}

// listener returns the function that takes events of the process with a pid; nil: nothing is watched. Any goroutine
// may call it.
func (f *hotFlags) listener(stderr io.Writer) func(pid int, e manager.Event) {
	if !f.isOn() {
		return nil
	}
	return func(pid int, e manager.Event) { f.to.tell(stderr, pid, recording.HotOf(e)) }
}

// hotTeller writes events, each in a line. Sessions of child processes share it.
//
//	asJSON, file   never change
//	number, failed under mu
type hotTeller struct {
	asJSON bool
	file   string // empty: standard error

	mu     sync.Mutex
	number uint64 // of the last event
	failed bool   // the file could not be written, which was said
}

// tell writes an event. Any goroutine may call it.
func (t *hotTeller) tell(stderr io.Writer, pid int, hot recording.Hot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	line, err := t.line(pid, hot)
	switch {
	case err != nil:
	case t.file != "":
		err = t.append(line, 0)
	default:
		_, err = terminal.AboveLive(stderr).Write(line)
	}
	if err != nil && !t.failed {
		t.failed = true
		fmt.Fprintf(terminal.AboveLive(stderr), "%s\n", terminal.PrintableError(err))
	}
}

// line returns an event as the daemon has it, or as text.
func (t *hotTeller) line(pid int, hot recording.Hot) ([]byte, error) {
	e := daemon.Event{Seq: t.number, At: time.Now(), Kind: daemon.EventHot, PID: pid, Text: hot.Text()}
	if !t.asJSON {
		return fmt.Appendf(nil, "%s  hot (%d): %s\n", e.At.Format(time.TimeOnly), pid, terminal.Reason(e.Text)), nil
	}
	var err error
	if e.Data, err = json.Marshal(hot); err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	line, err := terminal.LineJSON(e)
	return append(line, '\n'), err
}

// append adds a line to the file, which is opened for each: it may be renamed meanwhile. A pipe without a reader is
// an error, rather than a wait.
func (t *hotTeller) append(line []byte, how int) error {
	file, err := os.OpenFile(t.file, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK|how, 0o644)
	if err == nil {
		_, err = file.Write(line)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return output.Explain(fmt.Errorf("write events: %w", err))
	}
	return nil
}

// heatFlag is a flag that is a threshold.
type heatFlag struct{ manager.Threshold }

// Set reads a threshold.
func (f *heatFlag) Set(s string) error { return f.UnmarshalText([]byte(s)) }

// Type names the value.
func (f *heatFlag) Type() string { return "heat" }

// String returns the threshold; empty: there is none, and the help names no default.
func (f *heatFlag) String() string {
	if f.Threshold == (manager.Threshold{}) {
		return ""
	}
	return f.Threshold.String()
}
