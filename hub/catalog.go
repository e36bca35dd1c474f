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

// list returns the ids of all builds.
func (c *catalog) list(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	ids, at := c.ids, c.listed
	c.mu.Unlock()
	if time.Since(at) < catalogTime {
		return ids, nil
	}
	ids = nil
	for e, err := range c.bucket.List(ctx, aggregatesDir) {
		if err != nil {
			return nil, err
		}
		if id, is := isManifest(e.Key); is {
			ids = append(ids, id)
		}
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

// Build is a build that the hub knows.
type Build struct {
	Target        string    `json:"target"`
	Build         string    `json:"build"`
	Unit          string    `json:"unit"` // kind/base, for example cpu/nanoseconds
	Instances     int       `json:"instances"`
	Contributions uint64    `json:"contributions"`
	Samples       int64     `json:"samples"`
	Independent   float64   `json:"independent"` // samples that say something new
	Updated       time.Time `json:"updated"`
}

// builds returns the builds whose targets are permitted, by target, the last one that was updated first.
func (c *catalog) builds(ctx context.Context, permits func(target string) bool) ([]Build, error) {
	ids, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	list := []Build{}
	for _, id := range ids {
		m, err := c.get(ctx, id)
		if errors.Is(err, errNewer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Aggregate != "" && permits(m.Target) {
			list = append(list, Build{
				m.Target, m.Build, m.Kind + "/" + m.Base, len(m.Instances), m.Contributions, m.Samples, m.Independent, m.Updated,
			})
		}
	}
	slices.SortFunc(list, func(a, b Build) int {
		if a.Target != b.Target {
			return strings.Compare(a.Target, b.Target)
		}
		return b.Updated.Compare(a.Updated)
	})
	return list, nil
}

// part returns what is made of an aggregate, from before if it is the same aggregate.
func (c *catalog) part(ctx context.Context, id, name string, make func(*ccmap.Snapshot) ([]byte, error)) ([]byte, *manifest, error) {
	m, err := c.get(ctx, id)
	if err != nil || m.Aggregate == "" {
		return nil, m, err
	}
	select {
	case c.making <- struct{}{}:
		defer func() { <-c.making }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	key := id + "/" + name
	c.mu.Lock()
	is := c.made[key]
	c.mu.Unlock()
	if is.tag == m.tag() {
		return is.body, m, nil
	}
	sum, err := readAggregate(ctx, c.bucket, m)
	if err != nil {
		return nil, nil, err
	}
	body, err := make(sum.Snapshot())
	if err != nil {
		return nil, nil, fmt.Errorf("make %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	put(c.made, key, made{m.tag(), body}, mostMade)
	return body, m, nil
}

// method is a line of the table of methods.
type method struct {
	Name      string `json:"name"`
	Signature string `json:"signature,omitempty"`
	Body      string `json:"body,omitempty"` // hash, in hex; empty: not known
	Samples   int64  `json:"samples"`        // with it anywhere on the stack, each frame once
	Self      int64  `json:"self"`           // samples with it on top
	Weight    int64  `json:"weight"`         // of self, in the profile's unit
}

// methodsOf returns the table of methods, the heaviest first, as JSON.
func methodsOf(s *ccmap.Snapshot) ([]byte, error) {
	list := []method{}
	for p := range s.Methods() {
		m, self := p.Method(), p.Self()
		line := method{Name: m.Name, Signature: m.Signature, Samples: p.Total().Samples, Self: self.Samples, Weight: self.Time}
		if m.Body != 0 && m.Body != ccmap.MixedBodies {
			line.Body = fmt.Sprintf("%016x", m.Body)
		}
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b method) int {
		if a.Self != b.Self {
			return int(max(min(b.Self-a.Self, 1), -1))
		}
		return strings.Compare(a.Name+"\x00"+a.Signature, b.Name+"\x00"+b.Signature)
	})
	return json.Marshal(list)
}

func faninOf(s *ccmap.Snapshot) ([]byte, error) { return fanin.Encode(fanin.Of(s)), nil }
