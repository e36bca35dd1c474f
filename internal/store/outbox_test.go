package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/store/internal/cutdisk"
)

// aHub counts each contribution once, as a hub does.
type aHub struct {
	bodies  map[string][]byte // by the number of a contribution
	samples map[build]int64
}

func newHub() *aHub { return &aHub{map[string][]byte{}, map[build]int64{}} }

func (h *aHub) take(t *testing.T, frame []byte) contribution.Key {
	t.Helper()
	f, err := contribution.One(frame)
	if err != nil {
		t.Fatal(err)
	}
	of, name := buildOf(f.Key), nameOf(f.Key)
	if before, twice := h.bodies[name]; twice {
		if !bytes.Equal(before, f.Body) {
			t.Fatalf("%+v has two bodies", f.Key)
		}
		return f.Key
	}
	m, _, err := export.Read(bytes.NewReader(f.Body), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.bodies[name] = f.Body
	h.samples[of] += m.Snapshot().Total().Samples
	return f.Key
}

// nameOf names what counts once.
func nameOf(k contribution.Key) string {
	return fmt.Sprint(buildOf(k), k.Instance, k.Epoch, k.Seq)
}

func all(Key) bool { return true }

// sendSome seals, and sends what waits. Some answers are lost, and some contributions have to be renewed.
func (h *aHub) sendSome(t *testing.T, rnd *rand.Rand, o *Outbox) {
	o.Seal(2)
	sealed, _ := o.Waiting()
	for _, s := range sealed {
		frame, err := o.Frame(s)
		switch {
		case err != nil:
		case rnd.IntN(8) == 0 && h.bodies[nameOf(s.Key)] == nil:
			o.Renew(s, rnd.IntN(2) == 0)
		default:
			h.take(t, frame)
			if rnd.IntN(4) > 0 {
				o.Done(s)
			}
		}
	}
}

// takeAll seals and sends until nothing waits.
func (h *aHub) takeAll(t *testing.T, o *Outbox) {
	t.Helper()
	for files, sealed := 1, 0; files+sealed > 0; {
		if err := o.Seal(2); err != nil {
			t.Fatal(err)
		}
		list, _ := o.Waiting()
		for _, one := range list {
			frame, err := o.Frame(one)
			if err != nil {
				t.Fatal(err)
			}
			h.take(t, frame)
			if err := o.Done(one); err != nil {
				t.Fatal(err)
			}
		}
		list, files = o.Waiting()
		sealed = len(list)
	}
}

// TestOutboxCuts: whatever the disk does and wherever the power is cut, the hub has each filed sample once.
func TestOutboxCuts(t *testing.T) {
	t.Parallel()
	for seed := range *cuts {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		d := cutdisk.New(uint64(seed), 1+rnd.IntN(400))
		w, hub := newWorkload(rnd, day, 3), newHub()
		for life := range 8 {
			if life == 7 {
				d = d.Cut(1 << 40)
			}
			s, err := open(Options{Logger: slog.New(slog.DiscardHandler)}, d)
			if err == nil {
				live(t, w, hub, s, d, life == 7)
			}
			if err != nil && !errors.Is(err, cutdisk.ErrOff) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if life < 7 {
				d = d.Cut(1 + rnd.IntN(400))
			}
		}
		for _, c := range w.sources {
			of := build{c.key.Target, c.key.Build, c.key.Unit.Kind(), c.key.Unit.Base()}
			if hub.samples[of] != c.filed || c.filed == 0 {
				t.Fatalf("seed %d: %v: the hub has %d samples of %d", seed, c.key, hub.samples[of], c.filed)
			}
		}
	}
}

// live files and sends until the power is cut, or, at last, until nothing waits. Some calls of the disk fail.
func live(t *testing.T, w *workload, hub *aHub, s *Store, d *cutdisk.Disk, last bool) {
	o, err := s.OpenOutbox("machine", all)
	if err != nil {
		return // its files are not noted: so none is written
	}
	if _, err := w.resume(s); err != nil || d.Left() <= 0 {
		return // it may have read less than there is
	}
	w.check(t)
	d.Fail = func(call, _ string) error {
		if w.rnd.IntN(30) == 0 && call != "remove" {
			return syscall.EIO
		}
		return nil
	}
	for step := 0; d.Left() > 0 && (!last || step < 40); step++ {
		w.clock = w.clock.Add(10 * time.Minute)
		switch w.rnd.IntN(4) {
		case 0:
			w.append(s, false)
		case 1:
			hub.sendSome(t, w.rnd, o)
		default:
			w.file(s, w.sources[w.rnd.IntN(len(w.sources))])
		}
	}
	d.Fail = nil
	if !last {
		return
	}
	s.Close()
	s, err = open(Options{}, d) // a broken outbox needs another life
	if err != nil {
		t.Fatal(err)
	}
	if o, err = s.OpenOutbox("machine", all); err != nil {
		t.Fatal(err)
	}
	if _, err := w.resume(s); err != nil {
		t.Fatal(err)
	}
	hub.takeAll(t, o)
	if infos, _ := d.List(outboxDir); len(infos) != 1 || path.Join(outboxDir, infos[0].Name()) != identityName {
		t.Errorf("the outbox still has %v", infos)
	}
}

// outboxOf returns the outbox of a store in a directory.
func outboxOf(t *testing.T, dir, machine string, takes func(Key) bool) (*Store, *Outbox) {
	t.Helper()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	o, err := s.OpenOutbox(machine, takes)
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

// TestOutboxIdentity: an instance stays, its epochs rise, and a copy of its store on another machine is another one.
func TestOutboxIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, o := outboxOf(t, dir, "one", all)
	first := o.is
	s.Close()
	s, o = outboxOf(t, dir, "one", all)
	if o.is.Instance != first.Instance || o.is.Epoch != first.Epoch+1 {
		t.Errorf("%+v after %+v", o.is, first)
	}
	s.Close()
	if _, o = outboxOf(t, dir, "two", all); o.is.Instance == first.Instance || len(o.is.Instance) != 32 {
		t.Errorf("%+v on another machine", o.is)
	}
}

// TestOutboxContents: a contribution has nothing of users or of the machine, and only keys that are taken; what comes
// while it waits is in the next; a renewed one is the same under another number.
func TestOutboxContents(t *testing.T) {
	t.Parallel()
	s, o := outboxOf(t, t.TempDir(), "one", func(k Key) bool { return k.Target == "web" })
	file := func(target string, minute int, samples int64) {
		t.Helper()
		m := ccmap.New(ccmap.Options{})
		id := m.Names().Intern(ccmap.Method{Name: "main.main", Module: "b1"})
		m.Names().SetMapping("b1", ccmap.Mapping{File: "/srv/web", Start: 1 << 22, Limit: 1 << 23})
		labels := m.Names().Intern(ccmap.LabelsMethod([]ccmap.Label{{Key: "user", Value: "eve"}}))
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, {Method: labels, Offset: ccmap.NoOffset}}, Weight: samples})
		m.Meta().Target = ccmap.Target{PID: 7, Executable: "/srv/web", CommandLine: []string{"web", "-key=secret"}, BuildID: "b1"}
		m.Meta().Comments = []string{"of host h"}
		from := day.Add(time.Duration(minute) * time.Minute)
		if _, err := s.File(Key{Target: target, Build: "b1", Unit: ccmap.CPUTime}, from, from.Add(time.Minute), m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	file("db", 0, 1)
	file("web", 0, 1)
	file("web", 1, 1)
	sealOne := func() Sealed {
		t.Helper()
		if err := o.Seal(4); err != nil {
			t.Fatal(err)
		}
		sealed, _ := o.Waiting()
		if len(sealed) != 1 {
			t.Fatalf("%d contributions wait", len(sealed))
		}
		return sealed[0]
	}
	one := sealOne()
	if k := one.Key; k.Target != "web" || k.Build != "b1" || k.Seq != 1 || k.CPUs != 4 || !k.From.Equal(day) || !k.To.Equal(day.Add(2*time.Minute)) {
		t.Errorf("%+v", k)
	}
	file("web", 2, 1)
	if sealOne().Name != one.Name {
		t.Error("a contribution that waits was replaced")
	}
	text, err := o.Frame(one)
	if err != nil {
		t.Fatal(err)
	}
	f, err := contribution.One(text)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := export.Read(bytes.NewReader(f.Body), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := export.Write(&plain, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"eve", "secret", "/srv/web", "host h"} {
		if strings.Contains(plain.String(), secret) {
			t.Errorf("it has %q", secret)
		}
	}
	if n := m.Snapshot().Total().Samples; n != 2 || m.Meta().Target.BuildID != "b1" || m.Names().Mapping("b1").Limit != 1<<23 {
		t.Errorf("%d samples of %+v", n, m.Meta().Target)
	}
	before := o.Instance()
	if err := o.Renew(one, true); err != nil {
		t.Fatal(err)
	}
	renewed := sealOne()
	again, err := o.Frame(renewed)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := contribution.One(again); err != nil || !bytes.Equal(g.Body, f.Body) || g.Key.Instance == before || g.Key != renewed.Key {
		t.Errorf("renewed as %+v, error %v", renewed.Key, err)
	}
	if err := o.Done(renewed); err != nil {
		t.Fatal(err)
	}
	if next := sealOne(); next.Key.Seq != renewed.Key.Seq+1 {
		t.Errorf("the next has number %d", next.Key.Seq)
	}
}

// TestOutboxLosesFiles: a file that was removed before it was sent is left out, and counted.
func TestOutboxLosesFiles(t *testing.T) {
	t.Parallel()
	s, o := outboxOf(t, t.TempDir(), "one", all)
	name, err := s.File(Key{Target: "web", Build: "b1", Unit: ccmap.CPUTime}, day, day.Add(time.Minute), profile(3))
	if err != nil {
		t.Fatal(err)
	}
	rel := strings.TrimPrefix(name, s.Dir+"/")
	if err := s.disk.Remove(rel); err != nil {
		t.Fatal(err)
	}
	if err := o.Seal(1); err != nil {
		t.Fatal(err)
	}
	if sealed, files := o.Waiting(); len(sealed)+files > 0 || o.Lost() != 1 {
		t.Errorf("%d and %d wait, %d lost", len(sealed), files, o.Lost())
	}
}
