package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store/internal/cutdisk"
)

func compiled(name string, level int) compilation.Record {
	return compilation.Record{Method: compilation.Method{Name: name, Signature: "()V"}, Level: level, OSR: compilation.NoOSR, Time: 1}
}

// TestRecordsOfOwners: records are listed and read by build, and for those alone who may see their owner.
func TestRecordsOfOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	own, other := process.Owner{UID: 1000, GID: 1000, Traceable: true}, process.Owner{UID: 1001, GID: 1001, Traceable: true}
	for _, o := range []process.Owner{own, other, process.Unowned} {
		if err := s.AppendRecords(Key{Target: "web", Build: "b1", Owner: o}, compiled("m", 3), compiled("m", 4)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AppendRecords(Key{Target: "web", Build: "b2"}, compiled("m", 3)); err != nil {
		t.Fatal(err)
	}
	r := s.Reader()
	if all := r.Records(Filter{Target: "web", Build: "b1"}); len(all) != 3 {
		t.Errorf("%+v", all)
	}
	seen := r.Records(Filter{Build: "b1", Visible: func(o process.Owner) bool { return o == own }})
	if len(seen) != 1 || seen[0].Owner != own {
		t.Fatalf("user 1000 sees %+v", seen)
	}
	if l, err := r.ReadRecords(seen[0]); err != nil || len(l.Records) != 2 || l.Records[1].Level != 4 {
		t.Errorf("%+v, %v", l, err)
	}
	seen[0].Owner = other
	if _, err := r.ReadRecords(seen[0]); err == nil {
		t.Error("records were read as another user's")
	}
	if l := r.List(Filter{}); l.Skipped != 0 || len(l.Entries) != 0 {
		t.Errorf("files of records are no profiles: %+v", l)
	}
}

// TestRecordsAfterAKill: what a killed writer left is one lost record, and no other is lost with it.
func TestRecordsAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := Key{Target: "web", Build: "b"}
	s := mustOpen(t, Options{Dir: dir})
	if err := s.AppendRecords(k, compiled("a", 3), compiled("b", 3)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	path := filepath.Join(dir, s.Reader().Records(Filter{})[0].Name)
	whole, _ := os.ReadFile(path)
	if err := os.Truncate(path, int64(len(whole)-5)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Options{Dir: dir})
	if err := s.AppendRecords(k, compiled("c", 3)); err != nil {
		t.Fatal(err)
	}
	l, err := s.Reader().ReadRecords(s.Reader().Records(Filter{})[0])
	if err != nil || len(l.Records) != 2 || l.Records[1].Name != "c" || l.Damaged != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	s.Close()
	if err := s.AppendRecords(k, compiled("d", 3)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}

// TestRecordsBecomeSmaller: a large file is written anew with what counts.
func TestRecordsBecomeSmaller(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := Key{Target: "web", Build: "b"}
	many := slices.Repeat([]compilation.Record{compiled("a", 3), compiled("b", 4)}, 40_000)
	s := mustOpen(t, Options{Dir: dir})
	if err := s.AppendRecords(k, many...); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = mustOpen(t, Options{Dir: dir})
	if err := s.AppendRecords(k, compiled("c", 3)); err != nil {
		t.Fatal(err)
	}
	of := s.Reader().Records(Filter{})[0]
	l, err := s.Reader().ReadRecords(of)
	if err != nil || len(l.Records) != 3 || of.Size > 1000 {
		t.Errorf("%d records in %d bytes, %v", len(l.Records), of.Size, err)
	}
}

// TestRecordsGoWithTheirBuild: records stay as long as their build has a profile, or is young.
func TestRecordsGoWithTheirBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir, Keep: time.Hour})
	now := time.Now()
	for _, build := range []string{"gone", "kept", "young"} {
		if err := s.AppendRecords(Key{Target: "web", Build: build}, compiled("a", 3)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, targetsDir, "web", build, "records.log")
		if build != "young" {
			if err := os.Chtimes(path, now, now.Add(-2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fileAt(t, s, Key{Target: "web", Build: "kept"}, now.Add(-time.Minute), settled(100))
	s.Retain(now)
	var left []string
	for _, r := range s.Reader().Records(Filter{}) {
		left = append(left, r.Build)
	}
	if !slices.Equal(left, []string{"kept", "young"}) {
		t.Errorf("left are the records of %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, targetsDir, "web", "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory stays: %v", err)
	}
}

// TestRecordsOutliveThePower: what AppendRecords has acknowledged is there after the power was cut.
func TestRecordsOutliveThePower(t *testing.T) {
	t.Parallel()
	k := Key{Target: "web", Build: "b"}
	for seed := range uint64(200) {
		d := cutdisk.New(seed, int(10+seed/2))
		acked := 0
		if s, err := open(Options{}, d); err == nil {
			for s.AppendRecords(k, compiled("m", 3)) == nil {
				acked++
			}
		}
		s, err := open(Options{}, d.Cut(1_000_000))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, of := range s.Reader().Records(Filter{}) {
			l, err := s.Reader().ReadRecords(of)
			if err != nil {
				t.Fatal(err)
			}
			found += len(l.Records)
		}
		if found < acked || found > acked+1 {
			t.Fatalf("seed %d: %d of %d records", seed, found, acked)
		}
	}
}

// TestRecorder: runs without a daemon append records at the same time, and beside a process that keeps the lock, which
// appends its own. None is lost. A large file is written anew only by who has the lock.
func TestRecorder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := Key{Target: "web", Build: "b"}
	record := func(r io.Writer, method string) {
		text, err := compilation.Append(nil, compiled(method, 4))
		if err == nil {
			_, err = r.Write(text)
		}
		if err != nil {
			t.Error(err)
		}
	}
	var runs sync.WaitGroup
	for i := range 4 {
		runs.Go(func() {
			r := Recorder(Options{Dir: dir}, k)
			for j := range 5 {
				record(r, fmt.Sprint(i, ",", j))
			}
		})
	}
	runs.Wait()
	s := mustOpen(t, Options{Dir: dir})
	many := slices.Repeat([]compilation.Record{compiled("m", 3)}, 80_000)
	if err := s.AppendRecords(k, many...); err != nil {
		t.Fatal(err)
	}
	lines := func() int {
		l, err := s.Reader().ReadRecords(s.Reader().Records(Filter{})[0])
		if err != nil || l.Damaged > 0 {
			t.Fatalf("%d lines damaged, %v", l.Damaged, err)
		}
		return len(l.Records)
	}
	record(Recorder(Options{Dir: dir}, k), "beside")
	if got := lines(); got != 20+len(many)+1 {
		t.Errorf("%d records beside a process with the lock", got)
	}
	s.Close()
	record(Recorder(Options{Dir: dir}, k), "alone")
	if got := lines(); got != 20+1+1+1 {
		t.Errorf("%d records in a file that was written anew", got)
	}
}
