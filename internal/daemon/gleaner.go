package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// gleaner keeps what the hub of the fleet knows of the fan-in of the programs that are sampled here: from how many
// places each method is called. It works like this:
//
//  1. Once each hub.every it asks for the file of each program, by the tag of the one that it has. The hub does not send
//     that one again.
//  2. A file is checked within bounds, and stored method by method by the rules of the cache ([fanin.Table.Store]).
//  3. The store has one file a program, for clients: while the hub is away, and after a restart. Of a program that the
//     hub does not know any more it has none.
//
// The hub is a foreign peer: a file that cannot be read changes nothing. Sampling waits for nothing here.
//
//	means … keep   never change once Run has begun
//	all others     under mu
type gleaner struct {
	*means
	dial     func(uplink.Options) (knowsFanIn, error)
	programs func() []store.Key // that are sampled now, and that the hub may know
	keep     fanInKeeper        // nil: there is no store

	mu sync.Mutex
	is FanInOfFleet
}

// knowsFanIn is what a gleaner needs of a hub: an [uplink.Hub].
type knowsFanIn interface {
	FanIn(ctx context.Context, of uplink.Build, known string) (file []byte, tag string, err error)
	Close()
}

// fanInKeeper is where fan-in is kept: a [store.Store].
type fanInKeeper interface {
	PutFanIn(target string, f store.FanIn) error
	DropFanIn(target, build string) error
}

// FanInOfFleet says what is kept of the fan-in that the hub knows. Counts are since the start.
type FanInOfFleet struct {
	Programs  int    `json:"programs"`         // that are sampled, and whose fan-in is kept
	Methods   int    `json:"methods"`          // of these
	Fetched   uint64 `json:"fetched"`          // files that were new
	Unchanged uint64 `json:"unchanged"`        // answers that the file is the latest
	Unknown   uint64 `json:"unknown"`          // answers that the hub does not know the program
	Failures  uint64 `json:"failures"`         // attempts
	Reason    string `json:"reason,omitempty"` // of the last one, if it failed
	Cure      string `json:"cure,omitempty"`

	fanin.Stored // of the methods of all files
}

const mostGleaned = 256 // programs of a round

// ofHub bounds the reading of a file of fan-in: the daemon has less room than a command.
var ofHub = fanin.Limits{Plain: 16 << 20, Methods: 1 << 17, Callers: 1 << 18}

func newGleaner(m *means, programs func() []store.Key) *gleaner {
	return &gleaner{means: m, programs: programs, dial: func(o uplink.Options) (knowsFanIn, error) { return uplink.New(o) }}
}

// run asks until ctx is done.
func (g *gleaner) run(ctx context.Context) {
	wait := time.Duration(0) // until the first round: a daemon that begins has programs in a moment
	for {
		every := max(g.config().Hub.Every, time.Second)
		spread := time.Duration(sendSpread * rand.Float64() * float64(every))
		select {
		case <-time.After(wait + spread):
			wait = max(g.round(ctx), every)
		case <-ctx.Done():
			return
		}
	}
}

// round asks for the fan-in of all programs once. It returns how long the hub asks to wait.
func (g *gleaner) round(ctx context.Context) time.Duration {
	c := g.config().Hub
	if g.keep == nil || c.URL == "" || c.ReadTokenFile == "" {
		return 0
	}
	programs := g.programs()
	programs = programs[:min(len(programs), mostGleaned)]
	var err error
	if len(programs) > 0 {
		err = g.askAll(ctx, c, programs)
	}
	if ctx.Err() != nil {
		return 0
	}
	g.note(programs, err)
	return uplink.After(err)
}

// askAll asks for one program after another, until the hub does not answer. It returns the first error.
func (g *gleaner) askAll(ctx context.Context, c config.Hub, programs []store.Key) (first error) {
	h, err := g.dial(uplink.Options{URL: c.URL, TokenFile: c.ReadTokenFile, CAFile: c.CAFile, Timeout: askTime})
	if err != nil {
		g.count(func(is *FanInOfFleet) { is.Failures++ })
		return err
	}
	defer h.Close()
	for _, k := range programs {
		file, tag, err := g.ask(ctx, h, c.URL, k)
		answered := err == nil
		if answered && file != nil {
			err = g.store(c.URL, tag, k, file)
		}
		if err != nil {
			g.count(func(is *FanInOfFleet) { is.Failures++ })
			first = cmp.Or(first, fmt.Errorf("fan-in of %s, build %s: %w", k.Target, store.BuildName(k.Build), err))
		}
		if !answered {
			break
		}
	}
	return first
}

// ask gets the file of a program, if there is another one than the one that is kept.
func (g *gleaner) ask(ctx context.Context, h knowsFanIn, hub string, k store.Key) (file []byte, tag string, err error) {
	file, tag, err = h.FanIn(ctx, uplink.Build{Target: k.Target, Build: k.Build, Unit: unitOf(k)}, g.tag(hub, k))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		g.count(func(is *FanInOfFleet) { is.Unknown++ })
		return nil, "", g.keep.DropFanIn(k.Target, k.Build)
	case err != nil:
		return nil, "", err
	case file == nil:
		g.count(func(is *FanInOfFleet) { is.Unchanged++ })
	}
	return file, tag, nil
}

// tag returns the tag of the file that is kept of a program; empty, if it is of another hub, or of a version of before.
func (g *gleaner) tag(hub string, k store.Key) string {
	f, err := g.archive.FanInHead(k.Target, k.Build)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.log.Warn("cannot read what is kept of the fleet's fan-in: it is made anew", "target", k.Target, "error", err)
	}
	if err != nil || !isOf(f, hub, k) || !fanin.IsCurrent(f.File) {
		return ""
	}
	return f.Tag
}

// isOf reports whether what is kept was got from a hub, in the unit of a program.
func isOf(f store.FanIn, hub string, k store.Key) bool { return f.Hub == hub && f.Unit == unitOf(k) }

// before returns the methods that are kept of a program.
func (g *gleaner) before(hub string, k store.Key) fanin.Table {
	f, err := g.archive.FanIn(k.Target, k.Build)
	if err != nil || !isOf(f, hub, k) {
		return fanin.Table{}
	}
	list, err := ofHub.Read(f.File)
	if err != nil {
		return fanin.Table{} // it is made anew
	}
	return fanin.TableOf(list)
}

// sameCode returns what is kept of the methods that a profile of CPU time has with the same code: a program can bear the
// build id of another one.
func (g *gleaner) sameCode(target string, s *ccmap.Snapshot) fanin.List {
	if g.archive == nil || s.Meta().Unit != ccmap.CPUTime {
		return nil
	}
	f, err := g.archive.FanIn(target, s.Meta().Target.BuildID)
	if err != nil {
		return nil
	}
	file, err := ofHub.Open(f.File)
	if err != nil {
		return nil // it is made anew
	}
	list, err := file.WithCode(fanin.Keys(s))
	if err != nil {
		return nil
	}
	return list
}

// store stores the methods of a file into what is kept of a program.
func (g *gleaner) store(hub, tag string, k store.Key, file []byte) error {
	list, err := ofHub.Read(file)
	if err != nil {
		return err
	}
	table := g.before(hub, k)
	stored := table.Store(list)
	if file, err = table.EncodeWithin(ofHub); errors.Is(err, fanin.ErrTooLarge) { // with methods of before
		table, stored = fanin.TableOf(list), fanin.Stored{Created: len(list)}
		file, err = table.EncodeWithin(ofHub)
	}
	if err == nil {
		err = g.keep.PutFanIn(k.Target, store.FanIn{Build: k.Build, Unit: unitOf(k), Hub: hub, Tag: tag, Methods: len(table), Got: time.Now().UTC(), File: file})
	}
	if err == nil {
		g.count(func(is *FanInOfFleet) { is.Fetched++; is.Stored.Add(stored) })
	}
	return err
}

func (g *gleaner) count(change func(*FanInOfFleet)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.is)
}

// note notes what is kept after a round, and tells of a hub that begins to fail.
func (g *gleaner) note(programs []store.Key, failed error) {
	kept, methods := 0, 0
	for _, k := range programs {
		if f, err := g.archive.FanInHead(k.Target, k.Build); err == nil {
			kept, methods = kept+1, methods+f.Methods
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.is.Reason
	g.is.Programs, g.is.Methods, g.is.Reason, g.is.Cure = kept, methods, "", ""
	if failed == nil {
		return
	}
	g.is.Reason = failed.Error()
	if errors.Is(failed, uplink.ErrToken) {
		g.is.Cure = "The line of the token of read_token_file in the hub's file must permit read, and the target."
	}
	if was == "" {
		g.log.Warn("the hub does not say from where methods are called: what is kept stays", "error", failed)
	}
}

// status returns what is kept; nil: nothing is asked of a hub.
func (g *gleaner) status() *FanInOfFleet {
	c := g.config().Hub
	if g.keep == nil || c.URL == "" || c.ReadTokenFile == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return new(g.is)
}

// programs returns the programs that are sampled now and that the hub may know, each once.
func (r *roster) programs() (all []store.Key) {
	seen := make(map[store.Key]bool)
	for _, t := range r.all() {
		for _, build := range t.shelf.builds() {
			if k := (store.Key{Target: t.Name, Build: build, Unit: ccmap.CPUTime}); r.sends(k) && !seen[k] {
				seen[k], all = true, append(all, k)
			}
		}
	}
	return all
}

// builds returns the builds of the programs that are sampled now.
func (h *shelf) builds() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if h.knowBuild(s); s.session != nil {
			all = append(all, s.build)
		}
	}
	return all
}
