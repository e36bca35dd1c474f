package hub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

// Bounds of a segment.
const (
	segmentCount = 1000 // contributions
	segmentBytes = 32 << 20
)

var errFull = errors.New("too many contributions wait for the bucket")

// intake writes contributions as segments, those of a moment together: an object store charges for each write.
//
//	waiting     under mu
//	n           of the goroutine that runs
type intake struct {
	bucket bucket.Bucket
	name   string        // of this hub: no other has it
	window time.Duration // that a contribution waits for others
	count  *counters

	mu      sync.Mutex
	waiting batch
	wake    chan struct{} // of size 1: something waits

	n int // segments so far
}

// batch is what one segment will have.
type batch struct {
	bytes []byte
	done  []chan error // one for each contribution, of size 1
}

func newIntake(b bucket.Bucket, name string, window time.Duration, c *counters) *intake {
	return &intake{bucket: b, name: name, window: window, count: c, wake: make(chan struct{}, 1)}
}

// add has a frame written, and waits until it is durable. After an error it may be durable or not: it is sent again.
func (t *intake) add(ctx context.Context, frame []byte) error {
	done := make(chan error, 1)
	t.mu.Lock()
	if len(t.waiting.done) >= segmentCount || len(t.waiting.bytes)+len(frame) > segmentBytes {
		t.mu.Unlock()
		return errFull
	}
	t.waiting.bytes = append(t.waiting.bytes, frame...)
	t.waiting.done = append(t.waiting.done, done)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes segments until ctx is done, and then the last one.
func (t *intake) run(ctx context.Context) {
	for {
		select {
		case <-t.wake:
		case <-ctx.Done():
			t.flush(context.WithoutCancel(ctx))
			return
		}
		select {
		case <-time.After(t.window):
		case <-ctx.Done():
		}
		t.flush(context.WithoutCancel(ctx))
	}
}

// flush writes what waits.
func (t *intake) flush(ctx context.Context) {
	t.mu.Lock()
	b := t.waiting
	t.waiting = batch{}
	t.mu.Unlock()
	if len(b.done) == 0 {
		return
	}
	err := t.write(ctx, b)
	if err != nil {
		t.count.failures.Inc()
	} else {
		t.count.segments.Inc()
		t.count.accepted.Add(float64(len(b.done)))
	}
	for _, done := range b.done {
		done <- err
	}
}

const writeTime = 30 * time.Second

func (t *intake) write(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	t.n++
	key := fmt.Sprintf("%s%013d-%s-%d-%d", segmentsDir, time.Now().UnixMilli(), t.name, t.n, len(b.done))
	err := t.bucket.Put(ctx, key, b.bytes, bucket.Condition{Absent: true})
	if errors.Is(err, bucket.ErrCondition) && equalBytes(ctx, t.bucket, key, b.bytes) {
		err = nil // its answer was lost
	}
	if err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	return nil
}
