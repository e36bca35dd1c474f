package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func TestAttach(t *testing.T) {
	t.Parallel()
	xml, folded := filepath.Join(t.TempDir(), "a-%p.xml"), filepath.Join(t.TempDir(), "b.folded.gz")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", xml, "-o", folded)
	if r.code != exitOK {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	xml = strings.Replace(xml, "%p", "42", 1)
	for _, want := range []string{
		"Target exited with code 0.\n", xml + ": 30 samples, 300ms of CPU time, of fake (pid 42, go1.26.8), for ",
		" flat    cum  method\n", "Too few samples to trust methods, call sites or contexts", "main.work", "Written: " + xml + ", " + folded,
		"ccmapd top " + xml,
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("report lacks %q:\n%s", want, r.stdout)
		}
	}
	for _, want := range []string{"Sampling 42 (fake) every 10ms", "the best engine, and permitted", "left out: this is a test."} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, r.stderr)
		}
	}
	for _, file := range []string{xml, folded} {
		m, _, err := export.ReadFile(file, export.ReadOptions{})
		if err != nil {
			t.Error(err)
		} else if got := m.Snapshot().Total().Time; got != int64(300*time.Millisecond) && got != 30 {
			t.Errorf("%s has %d ns", file, got)
		}
	}
}

// TestAttachWritesPage: the page is named with the outputs, and is the one that html makes of the profile.
func TestAttachWritesPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	profile, page, again := filepath.Join(dir, "a.json"), filepath.Join(dir, "a-%p.html"), filepath.Join(dir, "again.html")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", profile, "--html", page)
	page = strings.Replace(page, "%p", "42", 1)
	if r.code != exitOK || !strings.Contains(r.stdout, "Written: "+profile+", "+page) {
		t.Fatalf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := runEngines(t, nil, "html", profile, "-o", again); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, path := range []string{page, again} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `id="data"`) || !strings.HasSuffix(string(text), "</html>\n") {
			t.Errorf("%s is no page: %v, %d bytes", path, err, len(text))
		}
	}
}

// TestAttachKeepsWhatItSays reads the description of a session back.
func TestAttachKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	forbidden := refusingEngine("better", sampler.ErrPermission)
	if r := runEngines(t, []engine.Engine{forbidden, fakeEngine(false)}, "attach", "42", "-o", file); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	m, _, err := export.ReadFile(file, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta := m.Snapshot().Meta()
	if meta.Target.PID != 42 || meta.Engine != "fake" || meta.Ended != "target exited with code 0" {
		t.Errorf("metadata %+v", meta)
	}
	const why = "engine fake: the best engine permitted; better: not permitted"
	if !slices.Contains(meta.Comments, why) {
		t.Errorf("comments %q lack %q", meta.Comments, why)
	}
}

func TestAttachStopsAfterItsDuration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runEngines(t, []engine.Engine{fakeEngine(true)}, "attach", "42", "-o", file, "-d", "20ms")
	if r.code != exitOK || !strings.Contains(r.stdout, "Stopped: duration is over.\n") {
		t.Errorf("exit code %d, output %q, %q", r.code, r.stdout, r.stderr)
	}
}

func TestAttachQuiet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", file, "-q")
	if diff := cmp.Diff(result{}, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// decodedSession is a report with the members of its profile that tests read.
type decodedSession struct {
	session.ReportJSON
	Profile struct {
		File     string
		Samples  int64
		WindowNS int64 `json:"window_ns"`
		Settled  *struct{ Samples int64 }
	} `json:"profile"`
	Methods []any                   `json:"methods"`
	Source  struct{ Samples int64 } `json:"source"`
}

func TestAttachJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", file, "--json")
	var got decodedSession
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	if got.Profile.Samples != 30 || got.Profile.File != file || len(got.Methods) != 2 || got.Source.Samples != 30 {
		t.Errorf("report %+v", got)
	}
	if diff := cmp.Diff([]string{file}, got.Written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestAttachVerbose(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", file, "-v")
	for _, want := range []string{"msg=engine name=fake", `msg="set interval" to=10ms`} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("log lacks %q:\n%s", want, r.stderr)
		}
	}
}

func TestWarningsAreForEverybody(t *testing.T) {
	t.Parallel()
	warns := engine.Engine{Name: "warning", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		a.Logger.Warn("not all threads")
		return &fakeSource{ProcessOptions: a}, nil
	}}
	file := filepath.Join(t.TempDir(), "a.json")
	for flag, want := range map[string]bool{"": true, "-v": true, "-q": false} {
		r := runEngines(t, []engine.Engine{warns}, append([]string{"attach", "42", "-o", file}, strings.Fields(flag)...)...)
		if got := strings.Contains(r.stderr, "not all threads"); got != want {
			t.Errorf("with %q, a warning is printed: %v, want %v", flag, got, want)
		}
	}
}

// TestAttachWritesTheOtherOutputs: one output fails when all has been sampled.
func TestAttachWritesTheOtherOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.json")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", filepath.Join(dir, "%p", "bad.json"), "-o", good)
	if r.code != exitFailed || !strings.Contains(r.stderr, "bad.json: no such file or directory\n") {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
	if !strings.Contains(r.stdout, "Written: "+good+".") {
		t.Errorf("report %q", r.stdout)
	}
}

// TestAttachKeepsWhatNoOutputTakes: the only output fails when all has been
// sampled. It sets the environment, and so is not parallel.
func TestAttachKeepsWhatNoOutputTakes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", filepath.Join(dir, "%p", "bad.json"))
	kept, err := filepath.Glob(filepath.Join(dir, "ccmapd-*", "ccmapd-42.pb.gz"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %q, %v; %s", kept, err, r.stderr)
	}
	if r.code != exitFailed || !strings.Contains(r.stderr, "The profile is in "+kept[0]) || !strings.Contains(r.stdout, "Written: "+kept[0]) {
		t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	m, _, err := export.ReadFile(kept[0], export.ReadOptions{})
	if err != nil || m.Snapshot().Total().Samples != 30 {
		t.Errorf("kept profile: %v", err)
	}
}

// TestAttachHasNowhereToKeepAProfile: both errors are reported, and what was
// found at least.
func TestAttachHasNowhereToKeepAProfile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", filepath.Join(dir, "%p", "bad.json"))
	for _, want := range []string{"bad.json: no such file", "keep profile: "} {
		if r.code != exitFailed || !strings.Contains(r.stderr, want) {
			t.Errorf("exit code %d, %q lacks %q", r.code, r.stderr, want)
		}
	}
	if !strings.Contains(r.stdout, "main.work") {
		t.Errorf("report %q", r.stdout)
	}
}

// TestAttachSaysTheIntervalInForce: an engine may not sample as often as asked.
func TestAttachSaysTheIntervalInForce(t *testing.T) {
	t.Parallel()
	slow := engine.Engine{Name: "slow", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		a.Interval = max(a.Interval, time.Millisecond)
		return &fakeSource{ProcessOptions: a}, nil
	}}
	r := runEngines(t, []engine.Engine{slow}, "attach", "42", "-o", filepath.Join(t.TempDir(), "a.json"), "-i", "1us")
	for _, want := range []string{"every 1ms of CPU time", "cannot sample every 1µs"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q lacks %q", r.stderr, want)
		}
	}
}

func TestTuningOfTheFlags(t *testing.T) {
	t.Parallel()
	f := newSamplingFlags(nil)
	if c := f.tuning(); c.Off || c.MaxOverhead != 0.01 || c.Low != 0.01 || c.High != 0.15 || c.Initial != 10*time.Millisecond {
		t.Errorf("by default: %+v", c)
	}
	if c := f.tuning(); c.Settle != 98 {
		t.Errorf("slower from %v %% on, by default", c.Settle)
	}
	f.settle = 0
	if c := f.tuning(); c.Settle >= 0 {
		t.Errorf("never slower: %+v", c)
	}
	f.overhead = 0
	if c := f.tuning(); c.MaxOverhead >= 0 {
		t.Errorf("without a limit: %+v", c)
	}
	f.overhead, f.tune = 2, false
	if c := f.tuning(); !c.Off || c.MaxOverhead >= 0 || c.MaxDaemonCPU >= 0 {
		t.Errorf("without tuning: %+v", c)
	}
	f.overheadGiven = true
	if c := f.tuning(); c.MaxOverhead != 0.02 {
		t.Errorf("without tuning, with a limit: %+v", c)
	}
}

// TestUntilIsNotReached: the target ends before its 30 samples say anything.
func TestUntilIsNotReached(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", file, "--until", "contexts:90%")
	const want = "Target exited with code 0.\nContexts were to settle to 90 %, and came to "
	if r.code != exitOK || !strings.HasPrefix(r.stdout, want) {
		t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	r = runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", file, "--until", "90", "--json")
	var got decodedSession
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	if u := got.Until; u == nil || u.Of != "edges" || u.Percent != 90 || u.Reached {
		t.Errorf("goal %+v", u)
	}
	if got.Profile.Settled == nil || got.Profile.Settled.Samples != 30 || got.Profile.WindowNS != int64(15*time.Minute) {
		t.Errorf("profile %+v", got.Profile)
	}
}
