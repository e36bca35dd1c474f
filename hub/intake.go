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

// intake writes contributions as segments, those of a moment and a partition together: an object store charges for each
// write.
//
//	waiting     under mu
//	n           of the goroutine that runs
type intake struct {
	bucket bucket.Bucket
	name   string        // of this hub: no other has it
	window time.Duration // that a contribution waits for others
	count  *counters

	mu      sync.Mutex
	waiting []batch       // by partition
	wake    chan struct{} // of size 1: something waits

	n int // segments so far
}

// batch is what one segment will have.
type batch struct {
	bytes []byte
	done  []chan error // one for each contribution, of size 1
}

func newIntake(b bucket.Bucket, name string, partitions int, window time.Duration, c *counters) *intake {
	return &intake{bucket: b, name: name, window: window, count: c, waiting: make([]batch, partitions), wake: make(chan struct{}, 1)}
}

// add has a frame of a build written, and waits until it is durable. After an error it may be durable or not: it is
// sent again.
func (t *intake) add(ctx context.Context, id string, frame []byte) error {
	done, err := t.enqueue(id, frame)
	if err != nil {
		return err
	}
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

// enqueue has a frame wait for its segment. Together they have no more than one segment may have.
func (t *intake) enqueue(id string, frame []byte) (done chan error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count, size := 0, len(frame)
	for _, b := range t.waiting {
		count, size = count+len(b.done), size+len(b.bytes)
	}
	if count >= segmentCount || size > segmentBytes {
		return nil, errFull
	}
	done = make(chan error, 1)
	b := &t.waiting[partitionOf(id, len(t.waiting))]
	b.bytes, b.done = append(b.bytes, frame...), append(b.done, done)
	return done, nil
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

// flush writes what waits, the segments of all partitions at once.
func (t *intake) flush(ctx context.Context) {
	t.mu.Lock()
	batches := t.waiting
	t.waiting = make([]batch, len(batches))
	t.mu.Unlock()
	var all sync.WaitGroup
	for partition, b := range batches {
		if len(b.done) > 0 {
			t.n++
			n := t.n
			all.Go(func() { t.deliver(ctx, t.keyOf(partition, n, len(b.done)), b) })
		}
	}
	all.Wait()
}

// keyOf returns the key of the n-th segment of this hub.
func (t *intake) keyOf(partition, n, contributions int) string {
	return fmt.Sprintf("%s%d/%013d-%s-%d-%d", segmentsDir, partition, time.Now().UnixMilli(), t.name, n, contributions)
}

// deliver writes a segment, and tells those who wait.
func (t *intake) deliver(ctx context.Context, key string, b batch) {
	err := t.write(ctx, key, b)
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

func (t *intake) write(ctx context.Context, key string, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := t.bucket.Put(ctx, key, b.bytes, bucket.Condition{Absent: true})
	if errors.Is(err, bucket.ErrCondition) && equalBytes(ctx, t.bucket, key, b.bytes) {
		err = nil // its answer was lost
	}
	if err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	return nil
}
