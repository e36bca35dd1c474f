package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// catalogTime is how long an answer of the bucket is taken for true.
const catalogTime = 5 * time.Second

// catalog reads what the bucket has. It keeps manifests for a moment, and what is made of aggregates while it is asked
// for. mu guards the rest, and is not held while the bucket works.
type catalog struct {
	bucket bucket.Bucket
	mu     sync.Mutex
	ids    []string // of builds
	listed time.Time
	begun  map[string]bool // builds that this hub has let begin, and that are not listed yet
	known  map[string]known
	made   map[string]made // by id and part
	making chan struct{}   // of size 1: one aggregate is decoded at a time
}

type known struct {
	*manifest
	at time.Time
}

type made struct {
	tag  string
	body []byte
}

const (
	mostKnown = 2000 // manifests
	mostMade  = 64   // answers
)

func newCatalog(b bucket.Bucket) *catalog {
	return &catalog{bucket: b, known: make(map[string]known), begun: make(map[string]bool), made: make(map[string]made), making: make(chan struct{}, 1)}
}

// get returns the manifest of a build, which nobody changes. It may be some seconds old.
func (c *catalog) get(ctx context.Context, id string) (*manifest, error) {
	c.mu.Lock()
	k, found := c.known[id]
	c.mu.Unlock()
	if found && time.Since(k.at) < catalogTime {
		return k.manifest, nil
	}
	m, _, err := readManifest(ctx, c.bucket, id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	put(c.known, id, known{m, time.Now()}, mostKnown)
	return m, nil
}

// put puts a value into a map that has at most so many: another one goes.
func put[V any](m map[string]V, key string, v V, most int) {
	for other := range m {
		if _, has := m[key]; has || len(m) < most {
			break
		}
		delete(m, other)
	}
	m[key] = v
}

// list returns the ids of all builds that have a part.
func (c *catalog) list(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	ids, at := c.ids, c.listed
	c.mu.Unlock()
	if time.Since(at) < catalogTime {
		return ids, nil
	}
	ids = nil
	last := "" // id of the object before
	for e, err := range c.bucket.List(ctx, aggregatesDir) {
		if err != nil {
			return nil, err
		}
		// A build that was removed has a manifest alone. The list is in order: a build's objects come first.
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Key, aggregatesDir), "/")
		if _, is := isManifest(e.Key); is && last == id {
			ids = append(ids, id)
		}
		last = id
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids, c.listed = ids, time.Now()
	return ids, nil
}

// hasRoom reports whether a contribution may begin a build, and notes that it does.
func (c *catalog) hasRoom(ctx context.Context, id string, most int) (bool, error) {
	ids, err := c.list(ctx)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, listed := range ids {
		delete(c.begun, listed)
	}
	if slices.Contains(ids, id) || c.begun[id] {
		return true, nil
	}
	if len(ids)+len(c.begun) >= most {
		return false, nil
	}
	c.begun[id] = true
	return true, nil
}

func buildOf(id string, m *manifest) fleet.Build {
	b := fleet.Build{
		ID: id, Target: m.Target, Build: m.Build, Unit: m.Kind + "/" + m.Base, Instances: len(m.Instances),
		Contributions: m.Contributions, Classes: len(m.classes()), Outliers: len(m.Outliers), Updated: m.Updated,
	}
	b.Samples, b.Independent = m.samples()
	if p := m.part(partKey{Level: levelBuild, Class: largest(m.members())}); p != nil {
		b.Settled = p.Settled
	}
	return b
}

func describe(id string, m *manifest, classes []fleet.Class) fleet.Description {
	d := fleet.Description{Build: buildOf(id, m), ClassList: classes, OutlierList: m.Outliers}
	for _, p := range m.Parts {
		if p.Level != levelBuild {
			d.Times = append(d.Times, fleet.Times{Level: p.Level, From: time.Unix(p.From, 0).UTC(), Samples: p.Samples, Bytes: p.Bytes})
		}
	}
	slices.SortFunc(d.Times, func(a, b fleet.Times) int { return a.From.Compare(b.From) })
	return d
}

// builds returns the builds whose targets are permitted, by target, the last one that was updated first.
func (c *catalog) builds(ctx context.Context, permits func(target string) bool) ([]fleet.Build, error) {
	ids, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	list := []fleet.Build{}
	for _, id := range ids {
		m, err := c.get(ctx, id)
		if errors.Is(err, errNewer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(m.Parts) > 0 && permits(m.Target) {
			list = append(list, buildOf(id, m))
		}
	}
	slices.SortFunc(list, func(a, b fleet.Build) int {
		if a.Target != b.Target {
			return strings.Compare(a.Target, b.Target)
		}
		return b.Updated.Compare(a.Updated)
	})
	return list, nil
}

// part returns what is made of the sum of a build, from before if it is the same sum.
func (c *catalog) part(ctx context.Context, id, name string, of func(*ccmap.Snapshot) ([]byte, error)) ([]byte, *manifest, error) {
	m, err := c.get(ctx, id)
	if err != nil {
		return nil, m, err
	}
	return c.make(ctx, id, name, m, func(m *manifest) ([]byte, error) {
		sum, err := readAggregate(ctx, c.bucket, m, levelBuild)
		if err != nil {
			return nil, err
		}
		return of(sum.Snapshot())
	})
}

// turn waits until nobody else decodes profiles. The caller releases it.
func (c *catalog) turn(ctx context.Context) (release func(), err error) {
	select {
	case c.making <- struct{}{}:
		return func() { <-c.making }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// make returns what is made of a build, from before if it has not changed.
func (c *catalog) make(ctx context.Context, id, name string, m *manifest, of func(*manifest) ([]byte, error)) ([]byte, *manifest, error) {
	release, err := c.turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	key := id + "/" + name
	c.mu.Lock()
	is := c.made[key]
	c.mu.Unlock()
	if is.tag == m.tag() {
		return is.body, m, nil
	}
	body, err := of(m)
	if err != nil {
		return nil, nil, fmt.Errorf("make %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	put(c.made, key, made{m.tag(), body}, mostMade)
	return body, m, nil
}

// methodsOf returns the table of methods, the heaviest first, as JSON.
func methodsOf(s *ccmap.Snapshot) ([]byte, error) {
	list := []fleet.Method{}
	for p := range s.Methods() {
		m, self := p.Method(), p.Self()
		line := fleet.Method{Name: m.Name, Signature: m.Signature, Samples: p.Total().Samples, Self: self.Samples, Weight: self.Time}
		if m.Body != 0 && m.Body != ccmap.MixedBodies {
			line.Body = fmt.Sprintf("%016x", m.Body)
		}
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b fleet.Method) int {
		if a.Self != b.Self {
			return int(max(min(b.Self-a.Self, 1), -1))
		}
		return strings.Compare(a.Name+"\x00"+a.Signature, b.Name+"\x00"+b.Signature)
	})
	return json.Marshal(list)
}

func faninOf(s *ccmap.Snapshot) ([]byte, error) { return fanin.Encode(fanin.Of(s)), nil }
