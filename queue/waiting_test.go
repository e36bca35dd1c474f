package queue

import (
	"sync"
	"testing"
)

// A producer that waits loses nothing in a ring that has room for two samples.
func TestPushWaitingLosesNothing(t *testing.T) {
	t.Parallel()
	const samples = 500
	q := New(Options{RingWords: 32})
	var producer sync.WaitGroup
	producer.Go(func() {
		r := q.Ring()
		defer r.Close()
		for i := range int64(samples) {
			if !r.PushWaiting(numbered(i, 8), nil) {
				t.Errorf("sample %d was refused", i)
			}
		}
	})
	for next := int64(0); next < samples; {
		<-q.Ready()
		for _, got := range drained(q) {
			if got != next {
				t.Fatalf("sample %d after %d", got, next-1)
			}
			next++
		}
	}
	producer.Wait()
	checkStats(t, q, Stats{Pushed: samples, Delivered: samples, Rings: 1})
}

// Where waiting is in vain, the sample is dropped and counted.
func TestPushWaitingGivesUp(t *testing.T) {
	t.Parallel()
	q := New(Options{RingWords: 32})
	r := q.Ring()
	stop := make(chan struct{})
	if r.PushWaiting(numbered(0, 26), stop) {
		t.Error("a sample larger than the ring was taken")
	}
	for i := range int64(2) {
		if !r.PushWaiting(numbered(i, 8), stop) {
			t.Errorf("sample %d was refused", i)
		}
	}
	close(stop)
	if r.PushWaiting(numbered(2, 8), stop) {
		t.Error("a full ring took a sample")
	}
	r.Close()
	if r.PushWaiting(numbered(3, 8), stop) {
		t.Error("a closed ring took a sample")
	}
	checkStats(t, q, Stats{Pushed: 5, Delivered: 0, Dropped: 3, Oversized: 1, Rings: 1})
}
