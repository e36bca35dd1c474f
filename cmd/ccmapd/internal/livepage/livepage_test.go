package livepage

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// growing is a session whose profile has another sample each time.
type growing struct {
	m     *ccmap.Map
	asked int
}

func (g *growing) Fresh(context.Context) (*ccmap.Snapshot, error) {
	g.asked++
	g.m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: g.m.Names().Intern(ccmap.Method{Name: "new"})}}, Weight: 10})
	return g.m.Snapshot(), nil
}

// TestSession: the page's process sees the profile of now, not more often than it may, and the last one when the
// session has gone.
func TestSession(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	p := &Process{conn: ours, ended: make(chan struct{})}
	of := &growing{m: profiletest.Thicket(1)}
	begin := of.m.Snapshot().Total().Samples
	shown := make(chan error, 1)
	go func() { shown <- p.Show("web (42)", of) }()
	s, err := accept(theirs)
	if err != nil || s.Name != "web (42)" {
		t.Fatal(s, err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	if err := errors.Join(s.Ready(), <-shown); err != nil {
		t.Fatal(err)
	}
	get := func() int64 {
		t.Helper()
		got, err := s.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got.Total().Samples
	}
	if got := get() - begin; got != 1 {
		t.Errorf("%d new samples at first", got)
	}
	if get(); of.asked != 1 {
		t.Error("it asks again at once")
	}
	now = now.Add(leastKept)
	if got := get() - begin; got != 2 {
		t.Errorf("%d new samples later", got)
	}
	ours.Close()
	<-s.Gone()
	now = now.Add(leastKept)
	if got := get() - begin; got != 2 || s.Snapshot().Total().Samples != begin+2 {
		t.Errorf("%d new samples at the end", got)
	}
}

// TestFrames: what is no frame of the letter, or too long, is an error.
func TestFrames(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeFrame(&b, helloFrame, []byte("name")); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if got, err := readFrame(bytes.NewReader(whole), helloFrame, 4); err != nil || string(got) != "name" {
		t.Errorf("%q, %v", got, err)
	}
	for n := range whole {
		if _, err := readFrame(bytes.NewReader(whole[:n]), helloFrame, 4); err == nil {
			t.Errorf("%d bytes of %d are a frame", n, len(whole))
		}
	}
	for _, bad := range []struct {
		letter byte
		most   uint32
	}{{profileFrame, 4}, {helloFrame, 3}} {
		if _, err := readFrame(bytes.NewReader(whole), bad.letter, bad.most); err == nil {
			t.Errorf("%+v is a frame", bad)
		}
	}
}
