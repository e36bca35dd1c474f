package store

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store/internal/cutdisk"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

var (
	cuts  = flag.Int("cuts", 15, "power cuts of TestPowerCuts")
	kills = flag.Int("kills", 5, "kills of TestKills")
)

// profile returns a map of so many samples.
func profile(samples int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: samples, Time: 10 * samples})
	m.Meta().Known, m.Meta().Repeated = uint64(samples), 0
	return m.Snapshot()
}

var day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// source counts for one key, as the daemon does.
type source struct {
	key    Key
	stream *Stream
	now    int64   // samples counted in the period
	acked  int64   // that the store has said to have, in files or in the log
	filed  int64   // in files
	tried  int64   // acked, or more where the last call failed
	before []int64 // tried by calls that failed since
	began  time.Time
}

// workload drives a store.
type workload struct {
	rnd     *rand.Rand
	clock   time.Time
	sources []*source
}

func newWorkload(rnd *rand.Rand, clock time.Time, keys int) *workload {
	w := &workload{rnd: rnd, clock: clock}
	for i := range keys {
		k := Key{Target: fmt.Sprint("target", i%2), Build: strings.Repeat(fmt.Sprint(i), 20), Owner: process.Owner{UID: i, GID: i, Traceable: i%2 == 0}}
		w.sources = append(w.sources, &source{key: k})
	}
	return w
}

// resume goes on with what a store has, and returns how many frames of it are lost.
func (w *workload) resume(s *Store) (lost int, err error) {
	recovered := make(map[Key]Recovered)
	for _, r := range s.Recovered() {
		lost += r.Lost
		recovered[r.Key] = r
	}
	l := s.Reader().List(Filter{})
	for _, c := range w.sources {
		c.filed, c.now, c.stream, c.began = 0, 0, s.NewStream(c.key), w.clock
		for _, e := range l.Entries {
			if e.Kind == KindPeriod && e.Target == c.key.Target && e.Build == BuildName(c.key.Build) {
				m, err := s.Reader().Read(e)
				if err != nil {
					return lost, err
				}
				c.filed += m.Snapshot().Total().Samples
			}
		}
		if r, ok := recovered[c.key]; ok {
			c.now, c.stream = r.Map.Snapshot().Total().Samples, r.Stream
		}
	}
	return lost, nil
}

// check compares what a store has with what it has acknowledged, and with what calls that failed have tried.
func (w *workload) check(t *testing.T) {
	t.Helper()
	for _, c := range w.sources {
		got := c.filed + c.now
		if got != c.acked && !slices.Contains(append(c.before, c.tried), got) {
			t.Errorf("%v: %d samples (%d in files, %d in the log), want %d that were acknowledged, or tried: %d, %v",
				c.key, got, c.filed, c.now, c.acked, c.tried, c.before)
		}
		c.ack(got)
	}
}

func (c *source) try() {
	c.before = append(c.before, c.tried)
	c.tried = c.filed + c.now
}

func (c *source) ack(n int64) { c.acked, c.tried, c.before = n, n, nil }

// step makes a call, and returns its error.
func (w *workload) step(s *Store) error {
	w.clock = w.clock.Add(10 * time.Minute)
	switch n := w.rnd.IntN(20); {
	case n < 12:
		return w.append(s, n == 0)
	case n < 17:
		return w.file(s, w.sources[w.rnd.IntN(len(w.sources))])
	case n < 18:
		s.Retain(w.clock)
		return nil
	case n < 19:
		_, err := s.Compact(context.Background(), w.clock.AddDate(0, 0, 2+28*w.rnd.IntN(2))) // hours, or days
		return err
	}
	s.mu.Lock()
	s.journal.Roll()
	s.mu.Unlock()
	return nil
}

func (w *workload) append(s *Store, whole bool) error {
	var frames []Frame
	for _, c := range w.sources {
		c.now += int64(w.rnd.IntN(10))
		f := Frame{Stream: c.stream, Process: Process{1, 2}, From: c.began, To: w.clock, Whole: whole, Delta: profile(c.now)}
		if !whole {
			f.Delta = profile(c.now - (c.acked - c.filed))
		}
		frames = append(frames, f)
		c.try()
	}
	err := s.Append(frames...)
	if err == nil {
		for _, c := range w.sources {
			c.ack(c.tried)
		}
	}
	return err
}

func (w *workload) file(s *Store, c *source) error {
	c.now += int64(w.rnd.IntN(10))
	c.try()
	_, err := s.File(c.key, c.began, w.clock, profile(c.now), c.stream)
	if err == nil {
		c.ack(c.tried)
		c.filed, c.now, c.began = c.tried, 0, w.clock
	}
	return err
}

// Nothing that was acknowledged is lost or counted twice, wherever the power is cut: what was not synced may be gone,
// or there in part, and so may names.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for seed := range *cuts {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		d := cutdisk.New(uint64(seed), 1+rnd.IntN(300))
		w := newWorkload(rnd, day, 3)
		for range 8 { // one cut after another
			if s, err := open(Options{}, d); err == nil {
				lost, err := w.resume(s)
				if d.Left() > 0 {
					if err != nil || lost > 0 {
						t.Errorf("seed %d: %d frames lost, error %v", seed, lost, err)
					}
					w.check(t)
				}
				for d.Left() > 0 {
					if err := w.step(s); err != nil && !errors.Is(err, cutdisk.ErrOff) {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
			} else if !errors.Is(err, cutdisk.ErrOff) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d = d.Cut(1 + rnd.IntN(300))
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// Calls that fail, and go on: what was not acknowledged is in the next frame or file, and counts once.
func TestFailingCalls(t *testing.T) {
	t.Parallel()
	for seed := range *cuts {
		rnd := rand.New(rand.NewPCG(uint64(seed), 2))
		d := cutdisk.New(uint64(seed), 1<<40)
		w := newWorkload(rnd, day, 3)
		for range 3 {
			d.Fail = nil
			s, err := open(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, d)
			if err != nil {
				t.Fatal(err)
			}
			if lost, err := w.resume(s); err != nil || lost > 0 {
				t.Errorf("seed %d: %d frames lost, error %v", seed, lost, err)
			}
			w.check(t)
			d.Fail = func(call, _ string) error {
				if rnd.IntN(15) == 0 && call != "remove" { // a file that cannot be removed is one that stays
					return []error{syscall.EIO, syscall.ENOSPC}[rnd.IntN(2)]
				}
				return nil
			}
			for range 60 {
				if err := w.step(s); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

const childEnv = "CCMAPD_STORE_CHILD"

// TestMain is the process that is killed, if it was told so.
func TestMain(m *testing.M) {
	guarded := testrun.Guard(m)
	if dir := os.Getenv(childEnv); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(guarded.Run())
}

// writeUntilKilled prints each source's counts before and after each call.
func writeUntilKilled(dir string) {
	seed, _ := strconv.ParseUint(os.Getenv(childEnv+"_SEED"), 10, 64)
	s, err := Open(Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	w := newWorkload(rand.New(rand.NewPCG(seed, 3)), day.Add(time.Duration(seed)*240*time.Hour), 3)
	if lost, err := w.resume(s); err != nil || lost > 0 {
		fmt.Println("error", lost, err)
		os.Exit(1)
	}
	for _, c := range w.sources {
		c.ack(c.filed + c.now)
	}
	for {
		if err := w.step(s); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		for i, c := range w.sources {
			fmt.Println("acked", i, c.acked)
		}
	}
}

// A process that is killed at any moment loses nothing that was acknowledged, and counts nothing twice.
func TestKills(t *testing.T) {
	t.Parallel()
	const often = 50 // kills of one store: each reads all files of before
	var dir string
	var acked []int64
	for kill := range *kills {
		if kill%often == 0 {
			dir, acked = t.TempDir(), make([]int64, 3)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir, fmt.Sprintf("%s_SEED=%d", childEnv, kill))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(uint64(kill), 4))
		lines := bufio.NewScanner(out)
		for after := 3 * (1 + rnd.IntN(40)); lines.Scan(); after-- {
			var i int
			var n int64
			if _, err := fmt.Sscanf(lines.Text(), "acked %d %d", &i, &n); err != nil {
				t.Fatal(lines.Text())
			}
			acked[i] = n
			if after == 0 {
				time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, func() { cmd.Process.Kill() })
			}
		}
		cmd.Wait()
		acked = checkTotals(t, dir, acked)
		if t.Failed() {
			t.Fatalf("kill %d", kill)
		}
	}
}

// checkTotals compares what a store has with what was acknowledged. The call that was killed counts 0 to 9 samples a
// source.
func checkTotals(t *testing.T, dir string, acked []int64) (now []int64) {
	t.Helper()
	r := &Reader{dir: dir, disk: disk.At(dir), index: new(indexCache)}
	for i, c := range newWorkload(nil, day, len(acked)).sources {
		got := int64(0)
		for _, e := range r.List(Filter{Target: c.key.Target, Build: c.key.Build, Running: true}).Entries {
			if e.Kind == KindBest {
				continue
			}
			m, err := r.Read(e)
			if err != nil {
				t.Fatal(err)
			}
			got += m.Snapshot().Total().Samples
		}
		if got < acked[i] || got > acked[i]+9 {
			t.Errorf("%v: %d samples, want %d that were acknowledged, and 9 more at most", c.key, got, acked[i])
		}
		now = append(now, got)
	}
	return now
}

// The tail of the log is cut at each byte: each frame that is whole is there.
func TestTruncatedLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	k := Key{Target: "web", Build: "b"}
	stream := s.NewStream(k)
	var ends []int
	for range 5 {
		if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(7)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(onlySegment(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	s.Close()
	name := onlySegment(t, dir)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut += 11 {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l := (&Reader{dir: dir, disk: disk.At(dir), index: new(indexCache)}).List(Filter{Running: true})
		want, _ := slices.BinarySearch(ends, cut+1)
		if want == 0 {
			if len(l.Entries) != 0 {
				t.Errorf("cut at %d: %d entries", cut, len(l.Entries))
			}
			continue
		}
		m, err := s.Reader().Read(l.Entries[0])
		if err != nil || m.Snapshot().Total().Samples != int64(7*want) {
			t.Errorf("cut at %d: %v samples, error %v, want %d", cut, m.Snapshot().Total().Samples, err, 7*want)
		}
	}
}

func onlySegment(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir + "/log")
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d segments, error %v", len(entries), err)
	}
	return dir + "/log/" + entries[0].Name()
}

// A bit of the log that flips costs one frame, and is said; the store opens.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	stream := s.NewStream(Key{Target: "web"})
	for range 5 {
		if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(7)}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	name := onlySegment(t, dir)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 8
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Options{Dir: dir})
	r := s.Recovered()
	if len(r) != 1 || r[0].Map.Snapshot().Total().Samples != 28 || !strings.Contains(s.Damage(), "1 damaged place") {
		t.Errorf("%d keys, damage %q", len(r), s.Damage())
	}
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func only[T any](t *testing.T, list []T) T {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("%d, want 1", len(list))
	}
	return list[0]
}

// VM points are a VM's own counts since the start of its process: of two runs of this one beside the same process the
// last counts, and of two processes both do.
func TestPointsOfVMs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := Key{Target: "web"}
	point := func(count int64, o ccmap.Origin) ccmap.Point {
		return ccmap.Point{Origin: o, Kind: ccmap.PointCall, Method: ccmap.UnknownID, Count: count, Nulls: ccmap.NullsUnknown}
	}
	for i, run := range []struct {
		process Process
		counts  []int64 // of the deltas
	}{{Process{1, 1}, []int64{100, 20}}, {Process{1, 1}, []int64{150, 1}}, {Process{2, 9}, []int64{1000}}} {
		s := mustOpen(t, Options{Dir: dir})
		stream := s.NewStream(k)
		if r := s.Recovered(); i > 0 {
			stream = only(t, r).Stream
		}
		for _, n := range run.counts {
			m := ccmap.New(ccmap.Options{})
			m.AddPoint(point(n, ccmap.OriginVM))
			m.AddPoint(point(1, ccmap.OriginBurst))
			if err := s.Append(Frame{Stream: stream, Process: run.process, From: day, To: day, Delta: m.Snapshot()}); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
	}
	r := only(t, mustOpen(t, Options{Dir: dir}).Recovered())
	counts := make(map[ccmap.Origin]int64)
	for _, p := range r.Map.Snapshot().Points() {
		counts[p.Origin] += p.Count
	}
	if counts[ccmap.OriginVM] != 1151 || counts[ccmap.OriginBurst] != 5 || r.Process != (Process{2, 9}) {
		t.Errorf("%v of %v", counts, r.Process)
	}
}

// TestFileComesBack: a file may be there again after a power cut if its directory could be synced neither after it was
// written nor after it was taken back. Then nothing counts twice, here or for a hub, and nothing is left out.
func TestFileComesBack(t *testing.T) {
	t.Parallel()
	for seed := range 40 {
		d := cutdisk.New(uint64(seed), 1<<40)
		w, hub := newWorkload(rand.New(rand.NewPCG(uint64(seed), 5)), day, 1), newHub()
		for life := range 4 {
			s, err := open(Options{Logger: slog.New(slog.DiscardHandler)}, d)
			if err != nil {
				t.Fatal(err)
			}
			o, err := s.OpenOutbox("machine", all)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.resume(s); err != nil {
				t.Fatal(err)
			}
			w.check(t)
			if life == 3 {
				hub.takeAll(t, o)
				break
			}
			w.append(s, false)
			d.Fail = func(call, name string) error {
				if call == "syncdir" && strings.HasPrefix(name, "targets/") {
					return syscall.EIO
				}
				return nil
			}
			if err := w.file(s, w.sources[0]); err == nil {
				t.Fatal("filed, though no name is safe")
			}
			d.Fail = nil
			for range seed % 3 { // or the power is cut before anything else
				w.append(s, false)
			}
			d = d.Cut(1 << 40)
		}
		if c := w.sources[0]; hub.samples[build{c.key.Target, c.key.Build, "cpu", "nanoseconds"}] != c.filed {
			t.Errorf("the hub has %v, want %d", hub.samples, c.filed)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
