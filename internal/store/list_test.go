package store

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// watchedDisk notes what is opened and listed.
type watchedDisk struct {
	fileSystem
	mu    sync.Mutex
	names []string
}

func (w *watchedDisk) note(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = append(w.names, name)
}

func (w *watchedDisk) Open(name string) (disk.Source, error) {
	w.note(name)
	return w.fileSystem.Open(name)
}

func (w *watchedDisk) List(name string) ([]fs.FileInfo, error) {
	w.note(name)
	return w.fileSystem.List(name)
}

// TestListOfOneTarget: the process that writes a store lists a target out of its names and the index, which is read once.
// It looks into no directory of another target, and into neither a profile nor the log.
func TestListOfOneTarget(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	for _, target := range []string{"web", "db", "webs"} {
		k := Key{Target: target, Build: "b"}
		fileAt(t, s, k, day, settled(5))
		if err := s.Append(Frame{Stream: s.NewStream(k), From: day, To: day.Add(time.Hour), Delta: profile(1)}); err != nil {
			t.Fatal(err)
		}
	}
	w := &watchedDisk{fileSystem: s.disk}
	r := s.Reader()
	r.disk = w
	for range 2 {
		var kinds []string
		for _, e := range r.List(Filter{Target: "web", Running: true}).Entries {
			kinds = append(kinds, e.Label())
		}
		if diff := cmp.Diff([]string{"best", "period", "running"}, slices.Sorted(slices.Values(kinds))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	index := 0
	for _, name := range w.names {
		if name == indexName {
			index++
		} else if name != mergeName && name != "targets/web" && !strings.HasPrefix(name, "targets/web/") || strings.HasSuffix(name, fileType) {
			t.Errorf("it opens %s", name)
		}
	}
	if index != 1 {
		t.Errorf("it reads the index %d times", index)
	}
	for _, bad := range []string{"../targets/web", "none", "."} {
		if l := r.List(Filter{Target: bad}); len(l.Entries) > 0 {
			t.Errorf("target %q has %d entries", bad, len(l.Entries))
		}
	}
}

// TestWriterListsAsOthers: whatever is appended, filed, renamed and given up, the process that writes a store lists the
// same as one that reads its log.
func TestWriterListsAsOthers(t *testing.T) {
	t.Parallel()
	dirs, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		s, err := Open(Options{Dir: filepath.Join(dirs, strconv.Itoa(runs))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		keys := []Key{{Target: "web", Build: "a"}, {Target: "web", Build: "b"}, {Target: "db", Build: "a"}}
		streams := []*Stream{s.NewStream(keys[0]), s.NewStream(keys[1]), s.NewStream(keys[2])}
		at := day
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			i := rapid.IntRange(0, len(streams)-1).Draw(t, "stream")
			at = at.Add(time.Minute)
			switch rapid.SampledFrom([]string{"append", "append", "append", "whole", "file", "drop", "rename"}).Draw(t, "step") {
			case "append":
				err = s.Append(Frame{Stream: streams[i], From: at, To: at, Delta: profile(1)})
			case "whole":
				err = s.Append(Frame{Stream: streams[i], From: at, To: at, Delta: profile(2), Whole: true})
			case "file":
				_, err = s.File(streams[i].Key(), at, at, profile(3), streams[i])
			case "drop":
				err = s.Drop(streams[i])
			case "rename":
				k := rapid.SampledFrom(keys).Draw(t, "key")
				streams[i] = s.Renamed(streams[i], k)
				err = s.Append(Frame{Stream: streams[i], From: at, To: at, Delta: profile(2), Whole: true})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		other, err := NewReader(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		f := Filter{Target: rapid.SampledFrom([]string{"", "web", "db"}).Draw(t, "target"), Running: true}
		want, got := other.List(f), s.Reader().List(f)
		if diff := cmp.Diff(want.Entries, got.Entries, cmpopts.IgnoreUnexported(Entry{}), exported); diff != "" || want.Damage != got.Damage {
			t.Fatalf("damage %q and %q (-reader +writer):\n%s", want.Damage, got.Damage, diff)
		}
		for i, e := range got.Entries {
			m, err := s.Reader().Read(e)
			if err != nil {
				t.Fatal(err)
			}
			of, err := other.Read(want.Entries[i])
			if err != nil {
				t.Fatal(err)
			}
			if got, want := m.Snapshot().Total(), of.Snapshot().Total(); got != want {
				t.Errorf("%v: the writer has %v, others %v", e.Label(), got, want)
			}
		}
	})
}
