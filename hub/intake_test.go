package hub

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// stuck is a bucket that writes no segment until it is let go.
type stuck struct {
	bucket.Bucket
	free chan struct{}
}

func (s stuck) Put(ctx context.Context, key string, body []byte, c bucket.Condition) error {
	if strings.HasPrefix(key, segmentsDir) {
		select {
		case <-s.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Bucket.Put(ctx, key, body, c)
}

// TestCrowd: when all daemons of a fleet come at once and the bucket does not answer, a hub holds what two segments may
// have, and asks the others to come again. In the end each contribution is durable.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const daemons, leastRefused = 2200, 2200 - 2*segmentCount
	b := stuck{newMemory(), make(chan struct{})}
	tokens, err := ReadTokens(strings.NewReader("write " + hash("any") + " * *"))
	if err != nil {
		t.Fatal(err)
	}
	h := New(Options{Bucket: b, Tokens: tokens, Window: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go h.intake.run(ctx) // nothing is merged
	profile := randomProfile(rand.New(rand.NewPCG(3, 30)), 5).Snapshot()
	refused := make(chan struct{}, daemons)
	var all sync.WaitGroup
	for i := range daemons {
		frame := newSent(t, testKey("web", i, 1), profile).frame
		all.Go(func() {
			for waits := true; t.Context().Err() == nil; {
				switch status := postHere(t, h, frame); {
				case status == http.StatusNoContent:
					return
				case status != http.StatusServiceUnavailable:
					t.Errorf("status %d", status)
					return
				case waits: // as the hub has asked
					waits = false
					refused <- struct{}{}
					<-b.free
				}
			}
		})
	}
	for range leastRefused {
		<-refused
	}
	close(b.free)
	all.Wait()
	durable := make(map[string]bool)
	for _, key := range keysOf(t, b, segmentsDir) {
		body, _, err := b.Get(t.Context(), key, mostSegment)
		if err != nil {
			t.Fatal(err)
		}
		for f, err := range contribution.Scan(body) {
			if err != nil {
				t.Fatal(err)
			}
			durable[f.Key.Instance] = true
		}
	}
	if len(durable) != daemons {
		t.Errorf("%d of %d contributions are durable", len(durable), daemons)
	}
}

// postHere posts a contribution without a connection: there are not as many as daemons. It returns the status.
func postHere(t *testing.T, h *Hub, frame []byte) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/contributions", bytes.NewReader(frame))
	r.Header.Set("Authorization", "Bearer any")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		t.Error("a daemon is not told when to come again")
	}
	return w.Code
}
