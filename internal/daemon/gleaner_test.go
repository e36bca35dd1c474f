package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// fakeFans is a hub that knows fan-in. mu guards all.
type fakeFans struct {
	*fakeHub
	mu     sync.Mutex
	answer func(known string) (file []byte, tag string, err error)
	asked  []string // builds and tags
}

func (h *fakeFans) FanIn(_ context.Context, of uplink.Build, known string) ([]byte, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, of.Target+" "+of.Build+" "+of.Unit+" "+known)
	return h.answer(known)
}

func (h *fakeFans) says(answer func(known string) (file []byte, tag string, err error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// has answers with a file, unless its tag is known.
func (h *fakeFans) has(tag string, file []byte) {
	h.says(func(known string) ([]byte, string, error) {
		if known == tag {
			return nil, tag, nil
		}
		return file, tag, nil
	})
}

func (h *fakeFans) questions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

func (h *fakeFans) prepare(d *Daemon) {
	h.fakeHub.prepare(d)
	d.gleaner.dial = func(uplink.Options) (knowsFanIn, error) { return h, nil }
}

// fansOf returns a file of methods that others call so often.
func fansOf(samples map[string]int) []byte {
	m := ccmap.New(ccmap.Options{})
	caller := ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: "caller"}), Offset: 3}
	for name, n := range samples {
		id := m.Names().Intern(ccmap.Method{Name: name})
		for range n {
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, caller}, Weight: 1, Fresh: ccmap.FreshUnknown})
		}
	}
	return fanin.Encode(fanin.Of(m.Snapshot()))
}

// keptFans returns what a store keeps of the fan-in of a method of web.
func keptFans(t *testing.T, dir, method string) (samples uint64, tag string) {
	t.Helper()
	r, err := store.NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.FanIn("web", "build-1")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ""
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := fanin.Read(f.File)
	if err != nil || f.Methods != len(all) {
		t.Fatalf("%d methods, %d said, error %v", len(all), f.Methods, err)
	}
	e, _ := all.Find(fanin.Key{Name: method})
	return e.Samples, f.Tag
}

// keepEarlier makes what is kept of web a file of an earlier version.
func keepEarlier(t *testing.T, g *gleaner) {
	t.Helper()
	f, err := g.archive.FanIn("web", "build-1")
	if err != nil {
		t.Fatal(err)
	}
	f.File[4]--
	if err := g.keep.PutFanIn("web", f); err != nil {
		t.Fatal(err)
	}
}

// TestGleans: the file of each program is asked for once each hub.every by its tag, stored by the rules of the cache, kept
// while the hub fails or lies, got anew if it is of another version, and gone when the hub does not know the build any more.
func TestGleans(t *testing.T) {
	t.Parallel()
	dir, hub := t.TempDir(), &fakeFans{fakeHub: newFakeHub()}
	hub.has("1", fansOf(map[string]int{"a": 100, "b": 100}))
	whole := fansOf(map[string]int{"a": 1})
	inPreparedDaemon(t, sending(dir), nil, hub.prepare, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.every = 100 * time.Millisecond
		h.start(web(10))
		h.start(web(12)) // a replica: one program
		quiet := web(11)
		quiet.Executable, quiet.file.Inode = "/srv/quiet", 2
		h.start(quiet)
		for i, step := range []struct {
			says    func()
			a, b    uint64
			tag     string
			is      FanInOfFleet
			reasons string
		}{
			{nil, 100, 100, "1", FanInOfFleet{Programs: 1, Methods: 3, Fetched: 1, Stored: fanin.Stored{Created: 3}}, ""},
			{func() { hub.has("2", fansOf(map[string]int{"a": 900, "b": 101})) }, 900, 100, "2",
				FanInOfFleet{Programs: 1, Methods: 3, Fetched: 1, Stored: fanin.Stored{Overwritten: 1, Ties: 2}}, ""},
			{func() { hub.has("3", fansOf(map[string]int{"a": 10, "c": 7})) }, 900, 100, "3",
				FanInOfFleet{Programs: 1, Methods: 4, Fetched: 1, Stored: fanin.Stored{Created: 1, Worse: 1, Ties: 1}}, ""},
			{func() { hub.says(func(string) ([]byte, string, error) { return nil, "", errors.New("away") }) }, 900, 100, "3",
				FanInOfFleet{Programs: 1, Methods: 4}, "away"},
			{func() { hub.says(func(string) ([]byte, string, error) { return []byte("<html>"), "4", nil }) }, 900, 100, "3",
				FanInOfFleet{Programs: 1, Methods: 4}, "damaged"},
			{func() { hub.says(func(string) ([]byte, string, error) { return whole[:len(whole)-3], "5", nil }) }, 900, 100, "3",
				FanInOfFleet{Programs: 1, Methods: 4}, "damaged"},
			{func() { hub.says(func(string) ([]byte, string, error) { return nil, "", fs.ErrNotExist }) }, 0, 0, "", FanInOfFleet{}, ""},
			{func() { hub.has("6", fansOf(map[string]int{"a": 5})) }, 5, 0, "6", FanInOfFleet{Programs: 1, Methods: 2, Fetched: 1, Stored: fanin.Stored{Created: 2}}, ""},
			{func() { keepEarlier(t, d.gleaner) }, 5, 0, "6", FanInOfFleet{Programs: 1, Methods: 2, Fetched: 1, Stored: fanin.Stored{Created: 2}}, ""},
		} {
			before := d.gleaner.status()
			if step.says != nil {
				step.says()
			}
			time.Sleep(3 * time.Minute)
			is := d.gleaner.status()
			a, tag := keptFans(t, dir, "a")
			b, _ := keptFans(t, dir, "b")
			if a != step.a || b != step.b || tag != step.tag {
				t.Errorf("step %d: %d and %d samples, tag %q", i, a, b, tag)
			}
			gained := FanInOfFleet{Programs: is.Programs, Methods: is.Methods, Fetched: is.Fetched - before.Fetched, Stored: fanin.Stored{
				Created: is.Created - before.Created, Overwritten: is.Overwritten - before.Overwritten, Ties: is.Ties - before.Ties, Worse: is.Worse - before.Worse,
			}}
			if gained != step.is || (is.Reason == "") != (step.reasons == "") || !strings.Contains(is.Reason, step.reasons) || (is.Failures > before.Failures) != (step.reasons != "") {
				t.Errorf("step %d: gained %+v, is %+v", i, gained, is)
			}
		}
		asked := hub.questions()
		if n := len(asked); n < 20 || n > 29 {
			t.Errorf("asked %d times in 27 minutes: %q", n, asked)
		}
		for _, q := range asked {
			if !strings.HasPrefix(q, "web build-1 cpu/nanoseconds") {
				t.Errorf("asked for %s", q)
			}
		}
		if is := d.gleaner.status(); is.Unchanged < 4 {
			t.Errorf("%+v", is)
		}
	})
}

// TestGleanedHostile: a file that would take too much is not read.
func TestGleanedHostile(t *testing.T) {
	t.Parallel()
	all := make(fanin.List, ofHub.Methods+1)
	for i := range all {
		all[i].Name = fmt.Sprintf("%08d", i)
	}
	for name, file := range map[string][]byte{"methods": fanin.Encode(all), "names": fanin.Encode(longNames(40, 1<<20)), "callers": fanin.Encode(manyCallers())} {
		if l, err := ofHub.Read(file); !errors.Is(err, fanin.ErrTooLarge) && !errors.Is(err, fanin.ErrDamaged) {
			t.Errorf("%s: %d entries are read of %d bytes: %v", name, len(l), len(file), err)
		}
	}
	if _, err := ofHub.Read(fanin.Encode(all[:ofHub.Methods])); err != nil {
		t.Errorf("as many methods as may be: %v", err)
	}
}

// longNames returns methods with names of so many bytes.
func longNames(n, size int) (all fanin.List) {
	for i := range n {
		all = append(all, fanin.Entry{Key: fanin.Key{Name: fmt.Sprintf("%08d", i) + strings.Repeat("n", size)}})
	}
	return all
}

// manyCallers returns methods that list more callers than may be.
func manyCallers() (all fanin.List) {
	for i := range ofHub.Callers/fanin.MostCallers + 1 {
		all = append(all, fanin.Entry{Key: fanin.Key{Name: fmt.Sprintf("%08d", i)}})
	}
	for i := range all {
		for range fanin.MostCallers {
			all[i].Listed, all[i].Samples = append(all[i].Listed, fanin.Caller{Key: all[0].Key, Samples: 1}), all[i].Samples+1
		}
	}
	return all
}

// TestGleanedOfAnotherHub: what another hub knew is neither asked for by its tag nor mixed with what this one knows.
func TestGleanedOfAnotherHub(t *testing.T) {
	t.Parallel()
	dir, hub := t.TempDir(), &fakeFans{fakeHub: newFakeHub()}
	hub.has("1", fansOf(map[string]int{"a": 5}))
	c := sending(dir)
	inPreparedDaemon(t, c, nil, func(d *Daemon) {
		hub.prepare(d)
	}, func(t *testing.T, h *fakeHost, d *Daemon) {
		other := store.FanIn{Build: "build-1", Unit: "cpu/nanoseconds", Hub: "https://other", Tag: "1", Methods: 2, File: fansOf(map[string]int{"a": 900})}
		if err := d.gleaner.keep.PutFanIn("web", other); err != nil {
			t.Fatal(err)
		}
		h.start(web(10))
		time.Sleep(3 * time.Minute)
		if a, tag := keptFans(t, dir, "a"); a != 5 || tag != "1" || hub.questions()[0] != "web build-1 cpu/nanoseconds " {
			t.Errorf("%d samples, tag %q, asked %q", a, tag, hub.questions())
		}
	})
}

// TestSameCode: of what is kept of a program, hints get the methods that its profile has with the same code.
func TestSameCode(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := ccmap.NewNames()
	sampled := func(unit ccmap.Unit, bodies map[string]uint64) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{Names: names})
		m.Meta().Unit, m.Meta().Target.BuildID = unit, "b1"
		for name, body := range bodies {
			id := m.Names().Intern(ccmap.Method{Name: name, Body: body})
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}}, Weight: 1, Fresh: ccmap.FreshUnknown})
		}
		return m.Snapshot()
	}
	fleet := fanin.List{{Key: fanin.Key{Name: "none"}}, {Key: fanin.Key{Name: "other", Body: 2}}, {Key: fanin.Key{Name: "same", Body: 1}}, {Key: fanin.Key{Name: "secret", Body: 5}}}
	if err := s.PutFanIn("web", store.FanIn{Build: "b1", File: fanin.Encode(fleet)}); err != nil {
		t.Fatal(err)
	}
	g := &gleaner{means: &means{archive: s.Reader()}}
	own := map[string]uint64{"none": 0, "other": 3, "same": 1}
	if got := g.sameCode("web", sampled(ccmap.CPUTime, own)); len(got) != 1 || got[0].Key != fleet[2].Key {
		t.Errorf("%+v", got)
	}
	for what, got := range map[string]fanin.List{
		"waiting": g.sameCode("web", sampled(ccmap.NewUnit("wait", "nanoseconds"), own)), "another target": g.sameCode("batch", sampled(ccmap.CPUTime, own)),
		"no store": (&gleaner{means: &means{}}).sameCode("web", sampled(ccmap.CPUTime, own)),
	} {
		if len(got) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
