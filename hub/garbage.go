package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

const (
	garbageAge = time.Hour
	badKept    = 30 * 24 * time.Hour
)

// collect removes the objects that no manifest names. The order makes it safe:
//
//  1. List. Only objects that are an hour old can be garbage.
//  2. Change the manifest, by its tag. An aggregator that wrote such an object, and was stopped before it wrote the
//     manifest, will find another tag and begin anew.
//  3. Remove what the changed manifest does not name.
func (a *aggregator) collect(ctx context.Context) error {
	old := make(map[string][]string)           // by id
	objects := make(map[string][]bucket.Entry) // likewise
	var failed error
	for e, err := range a.bucket.List(ctx, aggregatesDir) {
		if err != nil {
			return fmt.Errorf("collect garbage: %w", err)
		}
		id, _, found := strings.Cut(strings.TrimPrefix(e.Key, aggregatesDir), "/")
		if found {
			objects[id] = append(objects[id], e)
		}
		if _, is := isManifest(e.Key); found && !is && a.now().Sub(e.Modified) > garbageAge {
			old[id] = append(old[id], e.Key)
		}
	}
	for id, all := range objects {
		if a.isDue(all) {
			failed = errors.Join(failed, a.tidy(ctx, id))
		}
	}
	for id, keys := range old {
		if err := a.collectBuild(ctx, id, keys); err != nil {
			failed = errors.Join(failed, fmt.Errorf("collect garbage of %s: %w", id, err))
		}
	}
	return errors.Join(failed, a.removeBad(ctx))
}

func (a *aggregator) collectBuild(ctx context.Context, id string, keys []string) error {
	m, tag, err := readManifest(ctx, a.bucket, id)
	if err != nil {
		return err
	}
	var garbage []string
	for _, key := range keys {
		if !m.names(key) {
			garbage = append(garbage, key)
		}
	}
	if len(garbage) == 0 {
		return nil
	}
	m.advance()
	raised, err := swap(ctx, a.bucket, id, m, tag)
	if err != nil || !raised {
		return err // an aggregator is at work: next time
	}
	for _, key := range garbage {
		if err := a.bucket.Delete(ctx, key); err != nil {
			return err
		}
		a.count.garbage.Inc()
	}
	return nil
}

// removeBad removes what was set aside long ago.
func (a *aggregator) removeBad(ctx context.Context) error {
	var old []string
	for e, err := range a.bucket.List(ctx, badDir) {
		if err != nil {
			return err
		}
		if a.now().Sub(e.Modified) > badKept {
			old = append(old, e.Key)
		}
	}
	for _, key := range old {
		if err := a.bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// lease tells hubs of one bucket which of them aggregates. Two that think so do no harm. Nobody's clock is compared:
// a holder that has not changed the lease while this hub has seen it for so long has lost it.
type lease struct {
	bucket bucket.Bucket
	name   string // of this hub
	seen   string // tag
	since  time.Time
}

const (
	leaseKey  = "lease/0"
	leaseTime = 15 * time.Second
)

// hold reports whether this hub has the lease, and takes or renews it.
func (l *lease) hold(ctx context.Context, now time.Time) bool {
	body, tag, err := l.bucket.Get(ctx, leaseKey, 1<<10)
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return false
	}
	holder, _, _ := strings.Cut(string(body), " ")
	if tag != l.seen {
		l.seen, l.since = tag, now
	}
	if holder != l.name && tag != "" && now.Sub(l.since) < leaseTime {
		return false
	}
	text := fmt.Sprintf("%s %d", l.name, now.UnixNano())
	return l.bucket.Put(ctx, leaseKey, []byte(text), bucket.Condition{Absent: tag == "", Tag: tag}) == nil
}
