package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

const (
	garbageAge = time.Hour
	badKept    = 30 * 24 * time.Hour
)

// collect tidies the builds, and removes the objects of which no manifest names a part. The order makes it safe:
//
//  1. List. Only objects that are an hour old can be garbage.
//  2. Change the manifest, by its tag. An aggregator that wrote such an object, and was stopped before it wrote the
//     manifest, will find another tag and begin anew.
//  3. Remove what the changed manifest does not name.
func (a *aggregator) collect(ctx context.Context) error {
	old := make(map[string][]bucket.Entry) // by id
	for e, err := range a.bucket.List(ctx, aggregatesDir) {
		if err != nil {
			return fmt.Errorf("collect garbage: %w", err)
		}
		id, _, found := strings.Cut(strings.TrimPrefix(e.Key, aggregatesDir), "/")
		if _, is := isManifest(e.Key); found && !is && a.share.hasBuild(id) && a.now().Sub(e.Modified) > garbageAge {
			old[id] = append(old[id], e)
		}
	}
	var failed error
	for id, objects := range old {
		if err := a.collectBuild(ctx, id, objects); err != nil {
			failed = errors.Join(failed, fmt.Errorf("collect garbage of %s: %w", id, err))
		}
	}
	if a.share.has(0) {
		failed = errors.Join(failed, a.removeBad(ctx))
	}
	return failed
}

// collectBuild tidies a build, moves what lives in its old objects that are mostly dead, and removes those that are
// garbage.
func (a *aggregator) collectBuild(ctx context.Context, id string, old []bucket.Entry) error {
	m, tag, err := readManifest(ctx, a.bucket, id)
	if err != nil {
		return err
	}
	before := slices.Clone(m.Parts)
	m.advance()
	pack := newPack(id, m)
	if err := a.tidy(ctx, m, pack); err != nil {
		return err
	}
	if err := pack.compact(ctx, a.bucket, old); err != nil {
		return err
	}
	garbage := slices.DeleteFunc(old, func(e bucket.Entry) bool { return m.names(e.Key) })
	if len(garbage) == 0 && slices.Equal(before, m.Parts) {
		return nil
	}
	if err := pack.put(ctx, a.bucket); err != nil {
		return err
	}
	raised, err := swap(ctx, a.bucket, id, m, tag)
	if err != nil || !raised {
		return err // an aggregator is at work: next time
	}
	for _, e := range garbage {
		if err := a.bucket.Delete(ctx, e.Key); err != nil {
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
