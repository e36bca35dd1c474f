package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestFanInIsKept: what a hub knows of a program stands as a whole until it is replaced or dropped, is no profile, and is
// of one build, however much of the ids is in names.
func TestFanInIsKept(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	r := s.Reader()
	const build = "0123456789ab/one"
	if _, err := r.FanIn("web", build); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	for _, text := range []string{"first", "second\nwith a line", "", strings.Repeat("much\n", 1<<16)} {
		put := FanIn{Build: build, Unit: "cpu/nanoseconds", Hub: "https://hub", Tag: `"7"`, Methods: 3, Got: time.Unix(1, 0).UTC(), File: []byte(text)}
		if err := s.PutFanIn("web", put); err != nil {
			t.Fatal(err)
		}
		got, err := r.FanIn("web", build)
		if err != nil || string(got.File) != text || got.Tag != put.Tag || !got.Got.Equal(put.Got) || got.Methods != 3 {
			t.Errorf("%+v, error %v", got, err)
		}
		head, err := r.FanInHead("web", build)
		if err != nil || !bytes.HasPrefix(got.File, head.File) || len(head.File) < min(len(got.File), fanInBegin) || len(head.File) > mostFanInHead+fanInBegin {
			t.Errorf("the head has %d bytes of %d, error %v", len(head.File), len(got.File), err)
		}
		if head.File = got.File; !reflect.DeepEqual(head, got) {
			t.Errorf("the head is %+v, want %+v", head, got)
		}
	}
	for _, other := range []string{"0123456789ab/two", "", "x"} {
		if f, err := r.FanIn("web", other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of build %q: %+v, error %v", other, f, err)
		}
	}
	if l := r.List(Filter{}); l.Skipped != 0 || len(l.Entries) != 0 {
		t.Errorf("it is no profile: %+v", l)
	}
	for _, wrong := range []FanIn{{Build: ""}, {Build: "b", File: make([]byte, mostFanIn)}, {Build: "b", Hub: strings.Repeat("h", mostFanInHead)}} {
		if err := s.PutFanIn("web", wrong); err == nil {
			t.Errorf("%d bytes of build %q are kept", len(wrong.File), wrong.Build)
		}
	}
	if err := s.PutFanIn("../web", FanIn{Build: "b"}); err == nil {
		t.Error("a name leads elsewhere")
	}
	for range 2 {
		if err := s.DropFanIn("web", build); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.FanIn("web", build); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after: %v", err)
	}
}

// TestFanInGoes: fan-in goes with the profiles of its build, and never has more than a part of the room.
func TestFanInGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir, Keep: time.Hour, MaxBytes: 1 << 20})
	now := time.Now()
	for _, build := range []string{"lives", "gone", "new"} {
		if err := s.PutFanIn("web", FanIn{Build: build, File: []byte("of " + build)}); err != nil {
			t.Fatal(err)
		}
	}
	fileAt(t, s, Key{Target: "web", Build: "lives"}, now, settled(100))
	old := now.Add(-2 * time.Hour)
	for _, build := range []string{"lives", "gone"} {
		if err := os.Chtimes(filepath.Join(dir, targetsDir, "web", build, fanInName), old, old); err != nil {
			t.Fatal(err)
		}
	}
	has := func(build string) bool { _, err := s.Reader().FanIn("web", build); return err == nil }
	s.Retain(now)
	if !has("lives") || has("gone") || !has("new") {
		t.Errorf("of a build that lives %v, that has gone %v, that begins %v", has("lives"), has("gone"), has("new"))
	}
	if _, err := os.Stat(filepath.Join(dir, targetsDir, "web", "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory stays: %v", err)
	}
	if err := s.PutFanIn("web", FanIn{Build: "new", File: bytes.Repeat([]byte("x"), 110<<10)}); err != nil {
		t.Fatal(err)
	}
	s.Retain(now)
	if has("lives") || has("new") {
		t.Errorf("more than a tenth of the room is kept: %v, %v", has("lives"), has("new"))
	}
	if l := s.Reader().List(Filter{}); len(l.Entries) == 0 {
		t.Error("profiles went for what a hub has sent")
	}
}

func FuzzFanIn(f *testing.F) {
	f.Add([]byte("{\"build\":\"b\",\"tag\":\"7\"}\nccFi"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseFanIn(text)
		if err == nil && !bytes.HasSuffix(text, got.File) {
			t.Errorf("%q is the file of %q", got.File, text)
		}
	})
}
