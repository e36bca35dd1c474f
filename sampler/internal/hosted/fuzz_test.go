package hosted

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// FuzzLook: whatever a server answers, a look fails or has gains that no map of the server exceeds. A second look
// at the same answers gains nothing.
func FuzzLook(f *testing.F) {
	p := newProgram()
	p.run("f", 3)
	var small, large bytes.Buffer
	for _, text := range []*bytes.Buffer{&small, &large} {
		if err := export.Write(text, export.JSON, p.m.Snapshot()); err != nil {
			f.Fatal(err)
		}
		p.run("g", 2)
	}
	const list = `{"targets": [{"name": "vm", "hosted": true, "processes": [{"exe": "/srv/vm"}]}, {"name": "a/b", "hosted": true}]}`
	f.Add(list, small.Bytes(), large.Bytes())
	f.Add(list, large.Bytes(), small.Bytes())
	f.Add(`{"targets": [{"name": "web"}]}`, small.Bytes(), []byte("{}"))
	f.Add(`{"targets": null}`, []byte(nil), []byte(nil))

	var answers struct{ list, body []byte }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/map") {
			w.Write(answers.body)
		} else {
			w.Write(answers.list)
		}
	}))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, list string, first, second []byte) {
		answers.list, answers.body = []byte(list), first
		s, err := Open(t.Context(), Options{
			URL: server.URL, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}, MaxBytes: 1 << 20, MaxMemory: 8 << 20,
			Read: func(r io.Reader, memory int64) (*ccmap.Map, error) {
				m, _, err := export.Read(r, export.ReadOptions{MaxMemory: memory})
				return m, err
			},
		})
		if err != nil {
			return
		}
		defer s.Close()
		for _, body := range [][]byte{first, second, second} {
			answers.body = body
			l, err := s.look(t.Context())
			if err != nil {
				return
			}
			var most ccmap.Counters
			for _, session := range l.now {
				most = most.Add(session.snapshot.Total())
			}
			gain := l.sum.Snapshot().Total()
			if gain.Samples < 0 || gain.Time < 0 || gain.Samples > most.Samples || gain.Time > most.Time {
				t.Fatalf("a gain of %+v of maps with %+v", gain, most)
			}
			s.keep(l)
		}
		l, err := s.look(t.Context())
		if err == nil && !l.sum.Snapshot().Total().IsZero() {
			t.Fatalf("the same answers once more gain %+v", l.sum.Snapshot().Total())
		}
	})
}
