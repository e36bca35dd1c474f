package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestStoredNames: the name of a stored profile comes from an executable of any name, and leads nowhere.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	for executable, want := range map[string]string{
		"/usr/bin/web": "web", "": "unnamed", "/": "_", "/x/..": "unnamed", "/x/.web": "web", "/x/a b\n\x1b": "a_b__", "/x/-v": "v",
		"/x/" + strings.Repeat("w", 300): strings.Repeat("w", 64),
	} {
		if got := storedName(ccmap.Target{Executable: executable, CommandLine: []string{"x", "-jar", "y.jar"}}); got != want {
			t.Errorf("%q is stored as %q, want %q", executable, got, want)
		}
	}
	for line, want := range map[string]string{
		"java -cp a com.acme.Main": "com.acme.Main", "java -jar /srv/h2.jar -tcp": "h2", "java -m m/Main": "Main", "java -version": "java", "java": "java",
	} {
		if got := storedName(ccmap.Target{Executable: "/usr/bin/java", CommandLine: strings.Fields(line)}); got != want {
			t.Errorf("%q is stored as %q, want %q", line, got, want)
		}
	}
}

// TestSince: people name today by the hour, this week by the day, and the rest by the date.
func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 15, 0, 0, 0, time.FixedZone("", 3600))
	for text, at := range map[string]time.Time{
		"09:30":               time.Date(2026, 11, 26, 8, 30, 0, 0, time.UTC),
		"00:00":               time.Date(2026, 11, 25, 23, 0, 0, 0, time.UTC),
		"Wednesday":           time.Date(2026, 11, 25, 22, 59, 0, 0, time.UTC),
		"Friday":              time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		"2026-11-19":          time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC),
		"2026-11-27 01:00:00": time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC),
	} {
		if got := sinceText(at, now); got != text {
			t.Errorf("%v is %q, want %q", at, got, text)
		}
	}
}

// countsOf returns what a profile has counted, and nothing of how.
func countsOf(t *testing.T, file string) string {
	t.Helper()
	m, _, err := export.ReadFile(file, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Snapshot()
	var b strings.Builder
	if err := export.Write(&b, export.Folded, s); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%+v\n", s.Total())
	for _, p := range s.Points() {
		fmt.Fprintln(&b, s.Names().At(p.Method).Name, p.Offset, p.Count, p.Other, len(p.Values))
	}
	return b.String()
}

// runFake runs a command line by the fake engine, with a store.
func runFake(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(loneName, args...)
	cmd.Env = append(append(os.Environ(), storeVariable+"="+dir), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// loneName is ccmapd with the fake engine, whose program has a build.
const loneName, loneBuild = "ccmapd-lone", "aaaa11112222"

func loneEngine() engine.Engine {
	e := fakeEngine(false)
	open := e.Open
	e.Open = func(ctx context.Context, o sampler.ProcessOptions) (engine.Source, error) {
		s, err := open(ctx, o)
		if err == nil {
			s.(*fakeSource).build = loneBuild
		}
		return s, err
	}
	return e
}

// addTuned stores a profile of the fake program whose tuner had settled at 4 ms.
func addTuned(t *testing.T, dir string, env []string) {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.other"})), ccmap.Counters{Samples: 1000, Time: 1e9})
	meta := m.Meta()
	meta.Target = ccmap.Target{Executable: "/usr/bin/fake", BuildID: loneBuild}
	meta.Start, meta.Duration = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), time.Minute
	meta.Interval = []ccmap.IntervalChange{{Interval: 1e7, Reason: "initial"}, {At: 1e9, Interval: 4e6, Reason: "repetitions: interval 10ms → 4ms"}}
	file := filepath.Join(programtest.PublicDir(t, 0o755), "tuned.json")
	if err := export.WriteFile(file, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	k := keyOf("fake", loneBuild, ccmap.CPUTime)
	own := profiles(ownStore{dir, nil})
	if len(env) == 0 {
		if err := own.add(k, meta.Start, meta.Start.Add(meta.Duration), m.Snapshot()); err != nil {
			t.Fatal(err)
		}
		return
	}
	self, err := exec.LookPath(loneName)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, self, loneName), "store", "add", "--dir", dir, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestStoredNeverCounts: what is stored of a program never changes what a run counts, though the run begins at its
// interval. Filing it changes nothing either.
func TestStoredNeverCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	want := ""
	for i := range 3 {
		if i == 1 {
			addTuned(t, state, nil)
		}
		file := filepath.Join(dir, fmt.Sprint(i, ".json"))
		out, err := runFake(t, state, nil, "attach", "42", "--store", "-o", file)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if begins := strings.Contains(out, "It begins there"); begins != (i > 0) {
			t.Errorf("run %d: %s", i, out)
		}
		got := countsOf(t, file)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("run %d beside %d stored ones counts\n%s\nwant\n%s", i, i, got, want)
		}
	}
	r, err := store.NewReader(state)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range r.List(store.Filter{}).Entries {
		if e.Kind != store.KindPeriod || e.Quality.Samples == 1000 {
			continue
		}
		files++
		if got := countsOf(t, e.Path); got != want {
			t.Errorf("%s has\n%s", e.Name, got)
		}
	}
	if files != 3 {
		t.Errorf("%d files", files)
	}
}

// sudoed are the variables that sudo sets for a user.
var sudoed = []string{fmt.Sprint("SUDO_UID=", nobody), fmt.Sprint("SUDO_GID=", nobody), "SUDO_USER=nobody"}

// TestSudo: under sudo a profile is filed as the user who called it, whose files it becomes. What the kernel would
// refuse that user, it refuses: root's rights reach no file.
func TestSudo(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, c := range map[string]struct {
		make func(top string) error // top is the user's
		want string                 // "": it is filed
	}{
		"new": {func(string) error { return nil }, ""},
		"read-only": {func(top string) error {
			return errors.Join(os.Mkdir(top+"/s", 0o555), os.Chown(top+"/s", nobody, nobody))
		}, "permission denied"},
		"root's": {func(top string) error { return os.Mkdir(top+"/s", 0o700) }, "permission denied"},
		"a link": {func(top string) error {
			return errors.Join(os.Mkdir(top+"/root", 0o700), os.Symlink(top+"/root", top+"/s"), os.Lchown(top+"/s", nobody, nobody))
		}, "permission denied"},
		"a link within": {func(top string) error {
			return errors.Join(os.Mkdir(top+"/root", 0o700), os.MkdirAll(top+"/s/targets", 0o700), os.Symlink(top+"/root", top+"/s/targets/fake"),
				os.Chown(top+"/s", nobody, nobody), os.Chown(top+"/s/targets", nobody, nobody), os.Lchown(top+"/s/targets/fake", nobody, nobody))
		}, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := programtest.PublicDir(t, 0o755)
			if err := errors.Join(os.Chown(top, nobody, nobody), c.make(top)); err != nil {
				t.Fatal(err)
			}
			out, err := runFake(t, top+"/s", sudoed, "attach", "42", "--store", "-o", t.TempDir()+"/x.json")
			if c.want != "" {
				if err == nil || !strings.Contains(out, c.want) || !strings.Contains(out, "who called sudo") {
					t.Errorf("%v: %s", err, out)
				}
				if left, _ := os.ReadDir(top + "/root"); len(left) > 0 {
					t.Errorf("root's directory has %v", left)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			filed := 0
			err = filepath.WalkDir(top+"/s", func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				st := info.Sys().(*syscall.Stat_t)
				if st.Uid != nobody || st.Gid != nobody || st.Mode&0o027 != 0 {
					t.Errorf("%s is of user %d, group %d, mode %o", path, st.Uid, st.Gid, st.Mode)
				}
				if strings.HasSuffix(path, ".json.zst") {
					filed++
				}
				return nil
			})
			if err != nil || filed != 2 { // and the best
				t.Errorf("%v, %d files", err, filed)
			}
			addTuned(t, top+"/s", sudoed)
			out, err = runFake(t, top+"/s", sudoed, "attach", "42", "--store")
			if err != nil || !strings.Contains(out, "every 4ms") || !strings.Contains(out, "It begins there") || !strings.Contains(out, "2 earlier profiles since 2026-11-20") {
				t.Errorf("once more: %v: %s", err, out)
			}
		})
	}
}

// TestSudoOfNobodyKnown: without a home of the caller nothing is stored, and nothing sampled that should be.
func TestSudoOfNobodyKnown(t *testing.T) {
	t.Parallel()
	needRoot(t)
	env := []string{"SUDO_UID=3999999"}
	if out, err := runFake(t, t.TempDir(), env, "attach", "42", "--store"); err == nil || !strings.Contains(out, "who called sudo") || strings.Contains(out, "Sampling") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := runFake(t, t.TempDir(), env, "attach", "42", "-o", t.TempDir()+"/x.json"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestStoreThatFails: a profile that the store does not take is kept elsewhere, and the error says where and why.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/state", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	out, err := runFake(t, dir+"/state", []string{"TMPDIR=" + tmp}, "attach", "42", "--store", "--json")
	if err == nil || !strings.Contains(out, "not a directory") || !strings.Contains(out, "The profile is in "+tmp) {
		t.Errorf("%v: %s", err, out)
	}
	var report struct {
		Written []string `json:"written"`
	}
	text := out[strings.Index(out, "{\n"):]
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&report); err != nil || len(report.Written) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	m, _, err := export.ReadFile(report.Written[0], export.ReadOptions{})
	if err != nil || m.Snapshot().Total().Samples != 30 {
		t.Errorf("%v", err)
	}
}

// TestRunsOfOtherEvents: of another event than CPU time the name of what was stored would need the event, too.
func TestRunsOfOtherEvents(t *testing.T) {
	t.Parallel()
	l := &lone{own: ownStore{at: "/state"}}
	if got := l.output(ccmap.Target{Executable: "/bin/web", BuildID: "b"}, ccmap.CPUTime).Name; got != "recent:web@b" {
		t.Errorf("%q", got)
	}
	if got := l.output(ccmap.Target{Executable: "/bin/web", BuildID: "b"}, ccmap.Instructions).Name; got != "the store in /state" {
		t.Errorf("%q", got)
	}
}

// TestExportPoints: the points of the best profile and of the recent one become one file, without contexts.
func TestExportPoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if out, err := runFake(t, dir+"/s", nil, "attach", "42", "--store"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := runFake(t, dir+"/s", nil, "store", "export", "--points", "best:fake", dir+"/points.json")
	if err != nil || !strings.Contains(out, "points of 1 method: of 0 as in best:fake, of 1 as in recent:fake@"+loneBuild+"; 0 left out") {
		t.Fatalf("%v: %s", err, out)
	}
	m, _, err := export.ReadFile(dir+"/points.json", export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Snapshot()
	if len(s.Points()) == 0 || s.Len() != 1 || s.Meta().Target.BuildID != loneBuild {
		t.Errorf("%d points, %d contexts, build %q", len(s.Points()), s.Len()-1, s.Meta().Target.BuildID)
	}
	if out, err := runFake(t, dir+"/s", nil, "store", "export", "--points", "targets/fake", dir+"/x.json"); err == nil || !strings.Contains(out, "Write KIND:NAME") {
		t.Errorf("%v: %s", err, out)
	}
}
