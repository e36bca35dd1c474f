package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// Bounds of a step of the aggregator: it commits, and then forgets what it has read. A commit costs requests, so steps
// are large; but the first of an aggregator is small, and each may have twice as much as the one before. So one that is
// killed soon gets on with each life.
const (
	stepFirst   = 200 // contributions
	stepMost    = 10_000
	stepBytes   = 32 << 20 // after which no segment more is read
	mostSegment = 80 << 20 // bytes
	mostTries   = 100      // of a commit that others are always before
)

// aggregator merges segments into the aggregates of builds. One goroutine calls its methods; others, and other
// processes, may work on the same bucket.
type aggregator struct {
	bucket  bucket.Bucket
	backlog *backlog
	log     *slog.Logger
	count   *counters
	now     func() time.Time
	share   share
	oldest  time.Time // of all segments of all partitions, when they were listed
	most    int       // contributions of the next step; 0: of the first

	keep     time.Duration // see Options
	maxBytes int64
}

// segment is a segment that was read.
type segment struct {
	key  string
	left bool // it has something for a later version, or for another try: it stays
}

// arrived is a contribution of a segment.
type arrived struct {
	contribution.Frame
	place   int             // in the segment, from 1
	profile *ccmap.Snapshot // while it is merged
	of      *segment
}

// round merges all segments of its share that there are when it begins. An error of one build leaves its segments for
// the next round, and the others go on.
func (a *aggregator) round(ctx context.Context) error {
	keys, err := a.list(ctx)
	if err != nil {
		return err
	}
	var all error
	for len(keys) > 0 && ctx.Err() == nil {
		n, err := a.step(ctx, keys)
		all = errors.Join(all, err)
		if n == 0 {
			break
		}
		keys = keys[n:]
	}
	return all
}

// list returns the keys of the segments of its share, the oldest first. It notes when the oldest of all was written: any
// may have contributions of any build, from before the number of partitions changed.
func (a *aggregator) list(ctx context.Context) (keys []string, err error) {
	all, err := a.backlog.list(ctx, a.now())
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		a.oldest = segmentTime(all[0])
	}
	return slices.DeleteFunc(all, func(key string) bool { return !a.share.hasSegment(key) }), nil
}

// segmentTime returns when a segment was written, by the clock of its hub; the zero time if its name does not say.
func segmentTime(key string) time.Time {
	stamp, _, _ := strings.Cut(path.Base(key), "-")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// step reads the first segments, commits what they have, and removes them. It returns how many it has read.
func (a *aggregator) step(ctx context.Context, keys []string) (n int, err error) {
	a.most = max(a.most, stepFirst)
	var segments []*segment
	builds := make(map[string][]arrived)
	for count, size := 0, 0; n < len(keys) && count < a.most && size < stepBytes; n++ {
		s, list, bytes, err := a.read(ctx, keys[n])
		if err != nil {
			return n, err
		}
		if s == nil {
			continue // another aggregator has removed it
		}
		segments = append(segments, s)
		count, size = count+len(list), size+bytes
		for _, c := range list {
			id := idOf(c.Key)
			builds[id] = append(builds[id], c)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(builds)) {
		if failed := a.commit(ctx, id, builds[id]); failed != nil {
			err = errors.Join(err, failed)
			for _, c := range builds[id] {
				c.of.left = true
			}
		}
	}
	for _, s := range segments {
		if !s.left {
			err = errors.Join(err, a.bucket.Delete(ctx, s.key))
		}
	}
	if err == nil {
		a.most = min(2*a.most, stepMost)
	}
	return n, err
}

// read reads a segment. What is damaged goes to bad/; what is of a later version stays for a later aggregator. The
// segment is nil if it is gone.
func (a *aggregator) read(ctx context.Context, key string) (s *segment, list []arrived, size int, err error) {
	body, _, err := a.bucket.Get(ctx, key, mostSegment)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read segment: %w", err)
	}
	s = &segment{key: key}
	place := 0
	for frame, err := range contribution.Scan(body) {
		place++
		c := arrived{Frame: frame, place: place, of: s}
		if err != nil {
			if err := a.setAside(ctx, c, err); err != nil {
				return nil, nil, 0, err
			}
			continue
		}
		list = append(list, c)
	}
	return s, list, len(body), nil
}

// setAside leaves a contribution of a later version to a later aggregator, and puts one that cannot be read into bad/.
func (a *aggregator) setAside(ctx context.Context, c arrived, why error) error {
	if errors.Is(why, contribution.ErrNewer) || errors.Is(why, export.ErrVersion) {
		c.of.left = true
		a.count.newer.Inc()
		return nil
	}
	a.log.Warn("set a contribution aside", "segment", c.of.key, "number", c.place, "error", why)
	a.count.bad.Inc()
	name := badDir + path.Base(c.of.key) + "-" + strconv.Itoa(c.place)
	if err := a.bucket.Put(ctx, name, c.Bytes, bucket.Condition{}); err != nil {
		return fmt.Errorf("set aside: %w", err)
	}
	return nil
}

// errUnreadable is the error of a contribution whose profile cannot be read. No hub takes one: an earlier hub may have,
// or the bucket was changed.
var errUnreadable = errors.New("a contribution cannot be read")

// readable sets aside what cannot be read, and returns the rest.
func (a *aggregator) readable(ctx context.Context, list []arrived) (good []arrived, err error) {
	for _, c := range list {
		if _, why := readContribution(c.Frame); why == nil {
			good = append(good, c)
		} else if err := a.setAside(ctx, c, why); err != nil {
			return nil, err
		}
	}
	return good, nil
}

// mostHalves bounds the tries to find contributions that do not fit: other builds wait meanwhile.
const mostHalves = 32

// commit merges the contributions that are new into the aggregate of their build. Those that do not fit into it are set
// aside.
func (a *aggregator) commit(ctx context.Context, id string, list []arrived) error {
	return fit(list, func(list []arrived) error { return a.commitAll(ctx, id, list) }, func(c arrived) error { return a.setAside(ctx, c, errSumFull) })
}

// fit adds a list, and drops what does not fit. It tries halves of the list, as others may fit; after mostHalves of them
// it drops all that are left.
func fit[T any](list []T, add func([]T) error, drop func(T) error) error {
	tries := 0
	var try func(list []T) error
	try = func(list []T) error {
		if tries++; tries <= mostHalves {
			if err := add(list); !errors.Is(err, errSumFull) {
				return err
			}
			if half := len(list) / 2; half > 0 {
				return errors.Join(try(list[:half]), try(list[half:]))
			}
		}
		var err error
		for _, one := range list {
			err = errors.Join(err, drop(one))
		}
		return err
	}
	return try(list)
}

// commitAll merges all that are new, or none.
func (a *aggregator) commitAll(ctx context.Context, id string, list []arrived) error {
	for range mostTries {
		m, tag, err := readManifest(ctx, a.bucket, id)
		if err != nil {
			return err
		}
		fresh := a.take(m, list)
		if len(fresh) == 0 {
			return nil
		}
		before := m.Generation
		m.advance()
		events, err := a.merge(ctx, id, m, fresh)
		if errors.Is(err, errUnreadable) {
			if list, err = a.readable(ctx, list); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, bucket.ErrNotFound) {
			if is, _, err2 := readManifest(ctx, a.bucket, id); err2 == nil && is.Generation != before {
				continue // another aggregator was faster, and garbage was collected
			}
		}
		if err != nil {
			return fmt.Errorf("merge build %s: %w", id, err)
		}
		done, err := swap(ctx, a.bucket, id, m, tag)
		if err != nil {
			return err
		}
		if done {
			a.count.merged.Add(float64(len(fresh)))
			a.tell(m, events)
			return nil
		}
		a.count.lostRaces.Inc()
	}
	return fmt.Errorf("merge build %s: others were faster %d times", id, mostTries)
}

// take notes contributions in a manifest, and returns those that it did not have.
func (a *aggregator) take(m *manifest, list []arrived) (new []arrived) {
	now := a.now()
	for _, c := range list {
		if m.isDeleted(now) {
			a.count.deleted.Inc()
			continue
		}
		switch m.judge(c.Key, c.Body) {
		case fresh:
			m.note(c.Key, c.Body, now)
			new = append(new, c)
		case cloned:
			a.count.cloned.Inc()
		default:
			a.count.duplicates.Inc()
		}
	}
	m.forget(now, a.oldest)
	return new
}
