package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

// Hubs share the work of merging by partitions. Each build belongs to one, by its id, and so do its segments. A lease
// tells which hub merges a partition. All that is for efficiency: hubs that disagree, even about the number of
// partitions, do work twice, and the manifests keep the sums right.

const (
	leasesDir = "lease/"
	leaseTime = 15 * time.Second // of a hub that is silent
)

// MostPartitions bounds the partitions of a bucket: each costs a read and a write in ten seconds.
const MostPartitions = 64

// partitionOf returns the partition of a build, of so many.
func partitionOf(id string, of int) int {
	hash, err := strconv.ParseUint(id[:min(len(id), 8)], 16, 32)
	if err != nil {
		return 0 // no hub makes such an id
	}
	return int(hash % uint64(max(of, 1)))
}

// segmentPartition returns the partition of a segment, as its hub has divided builds.
func segmentPartition(key string) int {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, segmentsDir), "/")
	n, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// share is the partitions that a hub merges, of so many. The zero share is all.
type share struct {
	of   int
	held []int
}

// hasSegment reports whether this hub merges a segment. One of a time, or of a hub, with more partitions goes to
// the partition that is left after division.
func (s share) hasSegment(key string) bool { return s.has(segmentPartition(key)) }

// hasBuild reports whether this hub collects the garbage of a build.
func (s share) hasBuild(id string) bool { return s.has(partitionOf(id, s.of)) }

func (s share) has(partition int) bool {
	return s.of == 0 || slices.Contains(s.held, partition%s.of)
}

// leases tell hubs of one bucket which of them merges a partition. Two that think so do no harm. Nobody's clock is
// compared: a holder that has not changed its lease while this hub has seen it for so long has lost it.
//
// A hub takes what is free. It also takes from the hub that has most, until that has at most one more than itself: so
// hubs that start one after the other come to equal shares.
type leases struct {
	bucket bucket.Bucket
	name   string        // of this hub
	time   time.Duration // after which a silent holder has lost
	seen   []seenLease   // by partition
}

// seenLease is a lease as this hub saw it last.
type seenLease struct {
	tag, holder string // empty: nobody has it
	since       time.Time
}

func newLeases(b bucket.Bucket, name string, partitions int, silent time.Duration) *leases {
	return &leases{bucket: b, name: name, time: silent, seen: make([]seenLease, partitions)}
}

func leaseKey(partition int) string { return leasesDir + strconv.Itoa(partition) }

// hold takes or renews leases. It returns the partitions that this hub has, and whether it has just taken one.
func (l *leases) hold(ctx context.Context, now time.Time) (held []int, taken bool) {
	has := make(map[string]int) // partitions, by holder
	var known []int
	for p := range l.seen {
		if l.look(ctx, p, now) {
			known = append(known, p)
			has[l.seen[p].holder]++
		}
	}
	for _, p := range known {
		holder := l.seen[p].holder
		if holder != l.name && holder != "" && has[holder] < has[l.name]+2 {
			continue
		}
		if l.write(ctx, p, now) {
			held = append(held, p)
			taken = taken || holder != l.name
			has[holder]--
			has[l.name]++
		}
	}
	return held, taken
}

// look reads a lease, and reports whether it could. A holder that was silent for too long is none.
func (l *leases) look(ctx context.Context, partition int, now time.Time) bool {
	body, tag, err := l.bucket.Get(ctx, leaseKey(partition), 1<<10)
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return false
	}
	is := &l.seen[partition]
	if tag != is.tag {
		is.tag, is.since = tag, now
	}
	is.holder, _, _ = strings.Cut(string(body), " ")
	if is.holder != l.name && now.Sub(is.since) >= l.time {
		is.holder = ""
	}
	return true
}

// write makes this hub the holder, unless the lease has changed.
func (l *leases) write(ctx context.Context, partition int, now time.Time) bool {
	text := fmt.Sprintf("%s %d", l.name, now.UnixNano())
	tag := l.seen[partition].tag
	return l.bucket.Put(ctx, leaseKey(partition), []byte(text), bucket.Condition{Absent: tag == "", Tag: tag}) == nil
}
