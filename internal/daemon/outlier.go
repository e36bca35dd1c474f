package daemon

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// lookout asks the hub of the fleet whether this machine differs from the others of a build, and raises an event when
// that changes. It asks once each hub.every at most. While the hub does not answer, nothing changes.
//
// The hub is a foreign peer: an answer counts only for this instance and for targets that are sent, of at most mostOdd
// builds, and names in it are quoted.
//
//	odd, of, failed  the goroutine of run
//	all others       never change
type lookout struct {
	*means
	dial     func(uplink.Options) (knowsOutliers, error)
	instance func() string        // that the hub knows this store by; empty: nothing is sent
	sends    func(store.Key) bool // the hub may know it

	odd    map[oddBuild]bool // builds whose others this machine differs from
	of     config.Hub        // that they are from
	failed bool              // the last question had no answer
}

// knowsOutliers is what a lookout needs of a hub: an [uplink.Hub].
type knowsOutliers interface {
	Outliers(ctx context.Context, instance string) ([]fleet.OutlierOf, error)
	Close()
}

// oddBuild names a build, as the hub does.
type oddBuild struct{ target, build, unit string }

const (
	mostOdd     = 64  // builds
	mostOddName = 200 // bytes of a method, a build or a unit that an event quotes
)

func newLookout(m *means, instance func() string, sends func(store.Key) bool) *lookout {
	return &lookout{
		means: m, instance: instance, sends: sends, odd: make(map[oddBuild]bool),
		dial: func(o uplink.Options) (knowsOutliers, error) { return uplink.New(o) },
	}
}

// run asks until ctx is done.
func (l *lookout) run(ctx context.Context) {
	asked := time.Duration(0) // by the hub, to wait
	for {
		every := max(l.config().Hub.Every, time.Second)
		select {
		case <-time.After(max(asked, every+time.Duration(sendSpread*rand.Float64()*float64(every)))):
			asked = l.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look asks once, and tells what has changed. It returns how long the hub asks to wait.
func (l *lookout) look(ctx context.Context) time.Duration {
	c, instance := l.config().Hub, l.instance()
	if c != l.of {
		l.of, l.failed = c, false
		clear(l.odd)
	}
	if c.URL == "" || c.ReadTokenFile == "" || instance == "" {
		return 0
	}
	list, err := l.ask(ctx, c, instance)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil && !l.failed {
		l.log.Warn("the hub does not say whether this machine differs from others", "url", c.URL, "error", err)
	}
	if l.failed = err != nil; !l.failed {
		l.note(instance, list)
	}
	return uplink.After(err)
}

func (l *lookout) ask(ctx context.Context, c config.Hub, instance string) ([]fleet.OutlierOf, error) {
	h, err := l.dial(uplink.Options{URL: c.URL, TokenFile: c.ReadTokenFile, CAFile: c.CAFile, Timeout: askTime})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Outliers(ctx, instance)
}

// note tells of builds that this machine differs from the others of, and of those that it does no more.
func (l *lookout) note(instance string, list []fleet.OutlierOf) {
	now := make(map[oddBuild]bool)
	for _, o := range list {
		b := oddBuild{o.Target, o.Build, o.Unit}
		if !l.believes(o, instance) || now[b] || len(now) == mostOdd {
			continue
		}
		now[b] = true
		if !l.odd[b] {
			o.Method = quoted(o.Method)
			l.tell(b, fmt.Sprintf("this machine differs from %d others of %s: %s", o.Others, b, o.Difference()))
		}
	}
	for b := range l.odd {
		if !now[b] {
			l.tell(b, fmt.Sprintf("this machine does not differ from the others of %s any more", b))
		}
	}
	l.odd = now
}

// believes reports whether the hub can say so of this machine.
func (l *lookout) believes(o fleet.OutlierOf, instance string) bool {
	isShare := func(x float64) bool { return x >= 0 && x <= 100 }
	return o.Instance == instance && o.Others > 0 && len(o.Build) <= mostOddName && len(o.Unit) <= mostOddName &&
		isShare(math.Abs(o.Points)) && isShare(o.Error) && isShare(o.Overlap) && isShare(o.Expected) &&
		l.sends(store.Key{Target: o.Target, Build: o.Build})
}

// String names the build for people.
func (b oddBuild) String() string {
	name := "build " + store.BuildName(b.build)
	if b.unit != "cpu/nanoseconds" {
		name += " in " + quoted(b.unit)
	}
	return name
}

// quoted makes a name of the hub printable; empty stays empty.
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%.*q", mostOddName, name)
}

func (l *lookout) tell(b oddBuild, text string) {
	l.log.Warn(text, "target", b.target)
	l.events.raise(Event{Kind: EventOutlier, Target: b.target, Text: text})
}
