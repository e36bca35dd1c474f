package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

// TestShares: hubs that start one after the other come to equal shares of the partitions, each has one holder, and what
// a silent hub had goes to the others.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4, 7} {
		b := newMemory()
		var all []*leases
		held := make(map[string][]int)
		look := func(at int, hubs []*leases) (text string) {
			for _, l := range hubs {
				held[l.name], _ = l.hold(t.Context(), start.Add(time.Duration(at)*time.Second))
			}
			var owned []int
			for _, l := range hubs {
				text += fmt.Sprint(" ", len(held[l.name]))
				owned = append(owned, held[l.name]...)
			}
			slices.Sort(owned)
			if len(owned) != partitions || len(slices.Compact(owned)) != partitions {
				text += " and not one holder each"
			}
			return text
		}
		for at, name := range []string{"one", "two", "three"} {
			all = append(all, newLeases(b, name, partitions, leaseTime))
			look(20*at, all) // a hub that was first has what the last one takes, until it looks again
			look(20*at+5, all)
		}
		want := map[int]string{1: " 1 0 0", 4: " 2 1 1", 7: " 3 2 2"}[partitions]
		for at := 60; at < 120; at += 10 {
			if got := look(at, all); got != want {
				t.Errorf("%d partitions, %d s: shares%s, want%s", partitions, at, got, want)
			}
		}
		look(120, all[1:])
		look(136, all[1:])
		want = map[int]string{1: " 1 0", 4: " 2 2", 7: " 4 3"}[partitions]
		for at := 140; at < 200; at += 10 {
			if got := look(at, all[1:]); got != want {
				t.Errorf("%d partitions, the first hub is silent, %d s: shares%s, want%s", partitions, at, got, want)
			}
		}
	}
}

// TestShareOfHub: a hub merges the segments of its partitions alone, of which each build has one, and those of
// partitions that there are no more.
func TestShareOfHub(t *testing.T) {
	t.Parallel()
	b := newMemory()
	const of = 3
	r := rand.New(rand.NewPCG(5, 5))
	in := newIntake(b, "hub", of, 0, newCounters(prometheus.NewRegistry()))
	var all []sent
	for i := range 12 {
		s := newSent(t, testKey(fmt.Sprintf("web%d", i), 1, 1), randomProfile(r, 3).Snapshot())
		if _, err := in.enqueue(idOf(s.Key), s.frame); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	in.flush(t.Context())
	if segments := keysOf(t, b, segmentsDir); len(segments) != of {
		t.Fatalf("segments %q, want one a partition", segments)
	}
	for p := range of {
		a := testAggregator(b)
		a.share = share{of, []int{p}}
		if err := a.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := keysOf(t, b, segmentsDir); len(left) != of-1-p || slices.ContainsFunc(left, a.share.hasSegment) {
			t.Errorf("after partition %d there are %q", p, left)
		}
		for _, s := range all {
			if merged := manifestOf(t, b, s).Contributions > 0; merged != (partitionOf(idOf(s.Key), of) <= p) {
				t.Errorf("after partition %d: %s is merged: %v", p, s.Target, merged)
			}
		}
	}
	checkSums(t, b, all)

	late := newSent(t, testKey("late", 1, 1), randomProfile(r, 3).Snapshot())
	for i, dir := range []string{"17/", "", "foreign/"} {
		key := fmt.Sprintf("%s%s%013d-hub-%d-1", segmentsDir, dir, start.UnixMilli(), 100+i)
		if err := b.Put(t.Context(), key, late.frame, bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	one := testAggregator(b)
	one.share = share{1, []int{0}}
	if err := one.round(t.Context()); err != nil || !one.oldest.Equal(start) {
		t.Errorf("the oldest segment is of %v: %v", one.oldest, err)
	}
	if left := keysOf(t, b, segmentsDir); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	checkSums(t, b, append(all, late))
}

// TestOldestOfAll: a hub forgets no epoch while a segment of another partition may have contributions of it: from
// before the number of partitions changed.
func TestOldestOfAll(t *testing.T) {
	t.Parallel()
	b := newMemory()
	for p, at := range []time.Time{start, start.Add(time.Hour)} {
		if err := b.Put(t.Context(), fmt.Sprintf("%s%d/%013d-hub-%d-1", segmentsDir, p, at.UnixMilli(), p), nil, bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	a := testAggregator(b)
	a.share = share{2, []int{1}}
	keys, err := a.list(t.Context())
	if err != nil || len(keys) != 1 || !strings.HasPrefix(keys[0], segmentsDir+"1/") || !a.oldest.Equal(start) {
		t.Errorf("segments %q, the oldest of all is of %v: %v", keys, a.oldest, err)
	}
}

// BenchmarkMerge merges what waits of 40 builds, by a hub for each partition. The hubs share this machine.
func BenchmarkMerge(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	var all []sent
	for i := range 400 {
		all = append(all, newSent(b, testKey(fmt.Sprintf("web%d", i%40), i/40, 1), randomProfile(r, 1000).Snapshot()))
	}
	for _, of := range []int{1, 2} {
		b.Run(fmt.Sprintf("partitions=%d", of), func(b *testing.B) {
			for b.Loop() {
				mergeBy(b, of, all)
			}
			b.ReportMetric(float64(len(all)*b.N)/b.Elapsed().Seconds(), "contributions/s")
		})
	}
}

// mergeBy writes contributions into a new directory, and has the hubs of partitions merge them at the same time.
func mergeBy(b *testing.B, of int, all []sent) {
	b.StopTimer()
	d, err := bucket.OpenDir(b.TempDir() + "/bucket")
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	in := newIntake(d, "hub", of, 0, newCounters(prometheus.NewRegistry()))
	for chunk := range slices.Chunk(all, 100) {
		for _, s := range chunk {
			if _, err := in.enqueue(idOf(s.Key), s.frame); err != nil {
				b.Fatal(err)
			}
		}
		in.flush(b.Context())
	}
	b.StartTimer()
	done := make(chan error)
	for p := range of {
		go func() {
			a := testAggregator(d)
			a.share = share{of, []int{p}}
			done <- a.round(b.Context())
		}()
	}
	for range of {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
