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

// FuzzFrames: whatever comes over the socket is frames with their bytes, or an error; and a frame a profile, none, or an
// error.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	if err := errors.Join(writeFrame(&b, helloFrame, []byte("web")), writeProfile(&b, profiletest.Thicket(1).Snapshot())); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("h\x03\x00\x00\x00webm\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := bytes.NewReader(text)
		name, err := readFrame(in, helloFrame, mostName)
		for read := len(name) + 5; err == nil; {
			var frame []byte
			if frame, err = readFrame(in, profileFrame, mostProfile); err != nil {
				break
			}
			if read += len(frame) + 5; read > len(text) {
				t.Fatalf("%d bytes of %d were read", read, len(text))
			}
			if s, err := decode(frame); (s == nil) == (err == nil) {
				t.Errorf("%v, %v", s, err)
			}
		}
	})
}
