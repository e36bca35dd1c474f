package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	all    []listed // by id
	at     time.Time
	begun  map[string]bool // builds that this hub has let begin, and that are not listed yet
	said   map[string]said // by id
	known  map[string]known
	made   map[string]made // by id and part
	making chan struct{}   // of size 1: one aggregate is decoded at a time
}

// listed is a build as the bucket lists its manifest.
type listed struct {
	id       string
	size     int64
	modified time.Time
}

// said is what lists say of a build, by the manifest that was listed so.
type said struct {
	listed
	build fleet.Build
	lives bool // it has a part
	holds bool // while the bucket lists the manifest as it was
}

type known struct {
	*manifest
	object string // its tag
	at     time.Time
}

type made struct {
	tag   string
	body  []byte
	fanin func() (*fanin.File, error) // reads the body, which is a file of fan-in, once
}

const (
	mostKnown = 2000 // manifests
	mostMade  = 64   // answers

	// A manifest that was so old when it was read has changed since then if the bucket lists another time: times have
	// seconds, and clocks differ.
	settlesAfter = time.Minute
)

func newCatalog(b bucket.Bucket) *catalog {
	return &catalog{bucket: b, known: make(map[string]known), said: make(map[string]said), begun: make(map[string]bool), made: make(map[string]made), making: make(chan struct{}, 1)}
}

// get returns the manifest of a build, which nobody changes. It may be some seconds old.
func (c *catalog) get(ctx context.Context, id string) (*manifest, error) {
	c.mu.Lock()
	k, found := c.known[id]
	c.mu.Unlock()
	if found && time.Since(k.at) < catalogTime {
		return k.manifest, nil
	}
	m, tag, err := readChanged(ctx, c.bucket, id, k.object)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = k.manifest // it has not changed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	put(c.known, id, known{m, tag, time.Now()}, mostKnown)
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

// list returns all builds that have a part, by id.
func (c *catalog) list(ctx context.Context) ([]listed, error) {
	c.mu.Lock()
	all, at := c.all, c.at
	c.mu.Unlock()
	if time.Since(at) < catalogTime {
		return all, nil
	}
	all = nil
	last := "" // id of the object before
	for e, err := range c.bucket.List(ctx, aggregatesDir) {
		if err != nil {
			return nil, err
		}
		// A build that was removed has a manifest alone. The list is in order: a build's objects come first.
		id, _, _ := strings.Cut(strings.TrimPrefix(e.Key, aggregatesDir), "/")
		if _, is := isManifest(e.Key); is && last == id {
			all = append(all, listed{id, e.Size, e.Modified})
		}
		last = id
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.at = all, time.Now()
	maps.DeleteFunc(c.said, func(id string, _ said) bool { _, found := findID(all, id); return !found })
	return all, nil
}

// findID returns where the build of an id is, or would be.
func findID(all []listed, id string) (int, bool) {
	return slices.BinarySearchFunc(all, id, func(l listed, id string) int { return strings.Compare(l.id, id) })
}

// hasRoom reports whether a contribution may begin a build, and notes that it does.
func (c *catalog) hasRoom(ctx context.Context, id string, most int) (bool, error) {
	all, err := c.list(ctx)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range all {
		delete(c.begun, l.id)
	}
	if _, found := findID(all, id); found || c.begun[id] {
		return true, nil
	}
	if len(all)+len(c.begun) >= most {
		return false, nil
	}
	c.begun[id] = true
	return true, nil
}

// say returns what lists say of a build, and whether it has read the manifest. Without an error and a life there is
// nothing to say.
func (c *catalog) say(ctx context.Context, l listed) (s said, read bool, err error) {
	c.mu.Lock()
	s = c.said[l.id]
	c.mu.Unlock()
	if s.holds && s.size == l.size && s.modified.Equal(l.modified) {
		return s, false, nil
	}
	m, err := c.get(ctx, l.id)
	if errors.Is(err, errNewer) {
		return said{}, true, nil
	}
	if err != nil {
		return said{}, true, err
	}
	s = said{listed: l, build: buildOf(l.id, m), lives: len(m.Parts) > 0, holds: time.Since(l.modified) > settlesAfter}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[l.id] = s
	return s, true, nil
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
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	list := []fleet.Build{}
	for _, l := range all {
		s, _, err := c.say(ctx, l)
		if err != nil {
			return nil, err
		}
		if s.lives && permits(s.build.Target) {
			list = append(list, s.build)
		}
	}
	slices.SortFunc(list, fleet.Build.Compare)
	return list, nil
}

// scan visits the builds whose targets are permitted by id, which no update changes, from the one after an id on. It
// ends when the visitor has enough, or when it has read many manifests, and returns the id to go on after; "" at the end.
func (c *catalog) scan(ctx context.Context, after string, permits func(target string) bool, visit func(fleet.Build) (more bool, err error)) (next string, err error) {
	all, err := c.list(ctx)
	if err != nil {
		return "", err
	}
	at, found := findID(all, after)
	if found {
		at++
	}
	reads := 0
	for i, l := range all[at:] {
		s, read, err := c.say(ctx, l)
		if err != nil {
			return "", err
		}
		more := true
		if s.lives && permits(s.build.Target) {
			if more, err = visit(s.build); err != nil {
				return "", err
			}
		}
		if read {
			reads++
		}
		if (!more || reads == mostReads) && at+i+1 < len(all) {
			return l.id, nil
		}
	}
	return "", nil
}

// part returns what is made of the sum of a build, from before if it is the same sum.
func (c *catalog) part(ctx context.Context, id, name string, m *manifest, of func(*ccmap.Snapshot) ([]byte, error)) (made, error) {
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

// make returns what is made of a build, from before if it has not changed: then it waits for nobody.
func (c *catalog) make(ctx context.Context, id, name string, m *manifest, of func(*manifest) ([]byte, error)) (made, error) {
	key := id + "/" + name
	if is, has := c.before(key, m); has {
		return is, nil
	}
	release, err := c.turn(ctx)
	if err != nil {
		return made{}, err
	}
	defer release()
	if is, has := c.before(key, m); has { // another request has made it
		return is, nil
	}
	body, err := of(m)
	if err != nil {
		return made{}, fmt.Errorf("make %s: %w", name, err)
	}
	is := made{m.tag(), body, sync.OnceValues(func() (*fanin.File, error) { return fanin.Open(body) })}
	c.mu.Lock()
	defer c.mu.Unlock()
	put(c.made, key, is, mostMade)
	return is, nil
}

// before returns the answer that was made before, if the build is still the same.
func (c *catalog) before(key string, m *manifest) (made, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.made[key]
	return is, is.tag == m.tag()
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
