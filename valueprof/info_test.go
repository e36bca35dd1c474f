package valueprof

import "testing"

func newFake(j *Janitor, calls uint64) (*Info, *fakeBody) {
	b := &fakeBody{}
	b.calls.Store(calls)
	return NewInfo(j, b), b
}

func TestBetter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		later, old Evidence
		want       bool
	}{
		{"nothing recorded", Evidence{}, Evidence{}, false},
		{"as good, enough", Evidence{256, 256, 0}, Evidence{1e6, 1e6, 0}, true},
		{"as good, too few", Evidence{255, 255, 0}, Evidence{1e6, 1e6, 0}, false},
		{"few, but as many as before", Evidence{20, 20, 0}, Evidence{20, 20, 0}, true},
		{"more of other", Evidence{1e6, 8e5, 2e5}, Evidence{1e6, 9e5, 1e5}, false},
		{"less of other", Evidence{1e6, 9e5, 1e5}, Evidence{1e6, 8e5, 2e5}, true},
		{"more of other, within noise", Evidence{1e6, 895, 105}, Evidence{1e6, 9e5, 1e5}, true},
		{"blocks only", Evidence{1000, 0, 0}, Evidence{500, 0, 0}, true},
	} {
		if got := c.later.Better(c.old); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	j := NewJanitor(JanitorOptions{})
	var h History
	if h.Retain() != nil {
		t.Error("best of nothing")
	}
	first, firstBody := newFake(j, 1000)
	h.Renew(first)
	first.Release()
	mustBeBest(t, &h, first)

	second, secondBody := newFake(j, 100)
	h.Renew(second)
	mustBeBest(t, &h, first) // the second has seen too little
	secondBody.calls.Store(256)
	mustBeBest(t, &h, second)
	if j.Look(); firstBody.freed.Load() != 1 || first.TryRetain() {
		t.Error("superseded info lives on")
	}

	second.Release()
	h.Drop()
	if did := j.Look(); did.Freed != 1 || secondBody.freed.Load() != 1 || j.all.Load() != nil {
		t.Errorf("dropped info lives on: %+v", did)
	}
}

func mustBeBest(t *testing.T, h *History, want *Info) {
	t.Helper()
	var a Accessed
	defer a.Release()
	if got := a.Best(h); got != want {
		t.Errorf("best is %+v, want %+v", got, want)
	}
}

func TestReleaseTooOften(t *testing.T) {
	t.Parallel()
	i, _ := newFake(NewJanitor(JanitorOptions{}), 0)
	i.Release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	i.Release()
}
