package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// learner gets what the hub of the fleet knows of a build that was never sampled here. It works like this:
//
//  1. The first session of a build asks for the profile of that build, and waits for it for a second at most: its
//     interval begins where others have settled. References to the best profile mean it until there is an own one.
//  2. The first samples are held against it. A method with other code says that the hub tells of another program: then
//     it is removed.
//  3. If the hub does not know the build, it is asked for the latest other builds. The one with the most weight in
//     methods whose code the first samples have, too, is cut to what still holds, and kept in its place.
//
// The hub is a foreign peer: all bounds of a hostile file hold. Any goroutine may call the methods.
type learner struct {
	*means
	ctx   context.Context
	spawn func(func())
	dial  func(uplink.Options) (asks, error)
	put   func(store.Key, *ccmap.Snapshot) error // nil: there is no store
	takes func(store.Key) bool                   // a hub may know it

	turn chan struct{} // of size 1: one profile is read at a time

	mu    sync.Mutex
	asked map[store.Key]time.Time
}

// asks is what a learner needs of a hub: an [uplink.Hub].
type asks interface {
	Builds(ctx context.Context, target string) ([]uplink.Build, error)
	Best(ctx context.Context, of uplink.Build) ([]byte, error)
	Close()
}

const (
	askTime    = 30 * time.Second // for all that is asked at once
	askAgain   = 10 * time.Minute
	mostAsked  = 1000 // builds that are remembered
	nearBuilds = 3    // that are looked at to find the nearest
	// nearLeast is the least weight that methods with known and equal code have in a nearest build, as a part of it.
	nearLeast = 0.2
)

// fromHub bounds the reading of a profile, as of any hostile file.
var fromHub = export.ReadOptions{MaxMemory: 64 << 20, MaxBytes: 64 << 20, MaxSteps: 1 << 28, MaxDepth: 4096}

func newLearner(m *means) *learner {
	return &learner{
		means: m, asked: make(map[store.Key]time.Time), turn: make(chan struct{}, 1),
		dial: func(o uplink.Options) (asks, error) { return uplink.New(o) },
	}
}

// ask does something with the hub in the background, unless there is none, or it was asked about the key lately. The
// channel is closed when it is done.
func (l *learner) ask(k store.Key, do func(context.Context, asks) error) <-chan struct{} {
	done := make(chan struct{})
	c := l.config().Hub
	if l.put == nil || c.URL == "" || c.ReadTokenFile == "" || !l.takes(k) || !l.isDue(k) {
		close(done)
		return done
	}
	l.spawn(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(l.ctx, askTime)
		defer cancel()
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return
		}
		h, err := l.dial(uplink.Options{URL: c.URL, TokenFile: c.ReadTokenFile, CAFile: c.CAFile, Timeout: askTime})
		if err == nil {
			defer h.Close()
			err = do(ctx, h)
		}
		if err != nil && l.ctx.Err() == nil {
			l.log.Warn("the hub does not say what it knows of a build", "target", k.Target, "build", k.Build, "error", err)
		}
	})
	return done
}

// isDue reports whether the hub was not asked about a key lately, and notes that it is.
func (l *learner) isDue(k store.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.asked[k]) < askAgain {
		return false
	}
	if len(l.asked) >= mostAsked {
		clear(l.asked)
	}
	l.asked[k] = now
	return true
}

// begin asks for the profile of a build that was never sampled here.
func (l *learner) begin(k store.Key) <-chan struct{} {
	return l.ask(k, func(ctx context.Context, h asks) error {
		m, err := l.get(ctx, h, uplink.Build{Target: k.Target, Build: k.Build, Unit: unitOf(k)})
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the first samples tell which build is the nearest
		}
		if err != nil {
			return err
		}
		return l.keep(k, m, "what the hub knew of this build")
	})
}

func unitOf(k store.Key) string { return k.Unit.Kind() + "/" + k.Unit.Base() }

// get gets and checks a profile.
func (l *learner) get(ctx context.Context, h asks, of uplink.Build) (*ccmap.Map, error) {
	body, err := h.Best(ctx, of)
	if err != nil {
		return nil, err
	}
	m, format, err := export.Read(bytes.NewReader(body), fromHub)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read a profile of the hub: %w", err)
	case format != export.JSON || m.Meta().Target.BuildID != of.Build || unitOf(store.Key{Unit: m.Meta().Unit}) != of.Unit:
		return nil, fmt.Errorf("read a profile of the hub: it is of build %.40q, not of %.40q", m.Meta().Target.BuildID, of.Build)
	}
	return m, nil
}

// keep keeps a profile, with what it is.
func (l *learner) keep(k store.Key, m *ccmap.Map, what string) error {
	all := ccmap.New(ccmap.Options{})
	if err := all.Merge(m.Snapshot().WithoutLabels()); err != nil {
		return err
	}
	store.StripMeta(all.Meta())
	all.Meta().Comments = []string{what + ", not sampled here"}
	s := all.Snapshot()
	if err := l.put(k, s); err != nil {
		return err
	}
	text := fmt.Sprintf("build %s begins with %s, of %s", store.BuildName(k.Build), what, figure.Plural(s.Total().Samples, "sample"))
	l.log.Info(text, "target", k.Target)
	l.events.raise(Event{Kind: EventHub, Target: k.Target, Text: text})
	return nil
}

// verify holds what the hub knows against the first samples of a run, or looks for the nearest build.
func (l *learner) verify(k store.Key, run *ccmap.Snapshot) {
	known := l.archive.Fleet(k)
	if known == nil {
		if l.archive.Past(k).Files == 0 {
			l.nearest(k, run)
		}
		return
	}
	m, err := l.archive.Within(fromHub).Read(*known)
	if err == nil {
		if _, stale := ccmap.Fit(m.Snapshot(), sampled{run}); len(stale) == 0 {
			return
		}
		err = l.archive.Delete(*known)
	}
	l.log.Error("what the hub knows of a build is of another program, and is not used", "target", k.Target, "build", k.Build, "error", err)
	l.events.raise(Event{Kind: EventHub, Target: k.Target, Text: "what the hub knows of build " + store.BuildName(k.Build) + " is of another program, and is not used"})
}

// near is what still holds of another build.
type near struct {
	build string
	fits  *ccmap.Map
	share float64 // of its weight in methods whose code is known and the same, 0 to 1
}

// nearest asks for the latest other builds, and keeps what still holds of the nearest.
func (l *learner) nearest(k store.Key, run *ccmap.Snapshot) {
	of := k
	of.Build += " nearest" // which is asked for besides
	l.ask(of, func(ctx context.Context, h asks) error {
		list, err := h.Builds(ctx, k.Target)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(b uplink.Build) bool {
			return b.Target != k.Target || b.Build == k.Build || b.Unit != unitOf(k)
		})
		slices.SortFunc(list, func(a, b uplink.Build) int {
			return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Build, b.Build))
		})
		best := near{share: nearLeast}
		for _, b := range list[:min(len(list), nearBuilds)] {
			m, err := l.get(ctx, h, b)
			if err != nil {
				return err
			}
			if n := fit(b.Build, m.Snapshot(), run); n.share > best.share {
				best = n
			}
		}
		if best.fits == nil {
			return nil
		}
		return l.keep(k, best.fits, fmt.Sprintf("what the hub knew of build %s, as far as it holds", store.BuildName(best.build)))
	})
}

// fit cuts a profile to what still holds, by the methods that were sampled.
func fit(build string, older, run *ccmap.Snapshot) near {
	now, same, all := sampled{run}, int64(0), int64(0)
	for p := range older.Methods() {
		m, self := p.Method(), p.Self().Time
		all += self
		if is, known := now.Method(m.Name, m.Signature); known && m.Body != 0 && is.Body == m.Body {
			same += self
		}
	}
	fits, _ := ccmap.Fit(older, now)
	if all == 0 {
		return near{}
	}
	return near{build, fits, float64(same) / float64(all)}
}
