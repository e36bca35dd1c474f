package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
)

// errNoStore says that the daemon keeps nothing.
var errNoStore = &view.Error{Code: view.CodeNoTarget, Err: errors.New("the daemon keeps no profiles"), Hint: "Set files = true in [store], and start it anew."}

// mayRead reports whether stored profiles of an owner exist for a peer: those of processes that it could look into. A
// file without an owner may have the whole host, and is for masters.
func (p peer) mayRead(o process.Owner) bool {
	return p.master || o.Traceable && (p.reads || p.access(o) > process.NoAccess)
}

// stored returns the profile of a reference to stored ones, if the peer may see it: the sum of all that it means, of
// an event; "": cpu.
func (c *call) stored(ref, event string) (*ccmap.Snapshot, error) {
	if c.options.Daemon == nil {
		return nil, errNoRef
	}
	reader := c.options.Daemon.Stored()
	if reader == nil {
		return nil, errNoStore
	}
	to, err := store.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	to.Event = event
	if to.Kind == recentKind && to.At == "" { // the run of now, if there is one
		if s, err := c.live(to.Name, isOfWaits(event)); err == nil && (event == "" || isOf(event, ref, s) == nil) {
			return s, nil
		}
	}
	entries, err := reader.Resolve(to, store.Filter{Visible: c.peer.mayRead}, time.Now())
	if err != nil {
		return nil, err
	}
	return c.archive.get(c, nameOf(entries), func(ctx context.Context, l *load) (*ccmap.Snapshot, error) {
		return c.archive.read(ctx, c.shares, l, func(o export.ReadOptions) (*ccmap.Map, error) { return reader.Within(o).Sum(entries) }, 0)
	})
}

// recentKind is the kind of references to the latest profile, stored or not.
const recentKind = "recent"

// archive reads stored profiles, each once for all that ask soon after. They take memory and CPU time from the account
// of the uploads: a client chooses how much is read. Any goroutine may call it.
type archive struct {
	account *uploads

	mu sync.Mutex
	of map[string]*archived
}

// archived is a stored profile that is there, or is being read.
//
//	ready            never changes
//	snapshot … load  written before ready is closed
type archived struct {
	ready    chan struct{}
	snapshot *ccmap.Snapshot
	err      error
	load     *load
}

// archivedFor is how long a stored profile is kept that was read.
const archivedFor = 30 * time.Second

func newArchive(account *uploads) *archive {
	return &archive{account: account, of: make(map[string]*archived)}
}

// reading reads a profile that others may wait for, too. The load is what it takes.
type reading func(context.Context, *load) (*ccmap.Snapshot, error)

// get returns the profile of a name, as the peer of a call sees it.
func (a *archive) get(c *call, of string, read reading) (*ccmap.Snapshot, error) {
	one, first := a.find(of)
	if first {
		a.fill(c, of, one, read)
	}
	select {
	case <-one.ready:
	case <-c.Context().Done():
		return nil, c.Context().Err()
	}
	if one.err != nil || c.peer.seesLabels() {
		return one.snapshot, one.err
	}
	return one.snapshot.WithoutLabels(), nil
}

// fill reads a profile for all that wait for it, even if the client that was first leaves.
func (a *archive) fill(c *call, of string, one *archived, read reading) {
	one.err = errBroken // for the others that wait, if reading panics
	defer a.forgetLater(of, one)
	defer close(one.ready)
	one.snapshot, one.err = read(context.WithoutCancel(c.Context()), one.load)
}

// nameOf names entries: files never change, and what is running has another end each time.
func nameOf(entries []store.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, fmt.Sprint(e.Kind, e.Path, e.Target, e.Build, e.Owner, e.To.UnixNano(), e.Why))
	}
	slices.Sort(names)
	return strings.Join(names, "\x00")
}

func (a *archive) find(of string) (one *archived, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one, ok := a.of[of]; ok {
		return one, false
	}
	one = &archived{ready: make(chan struct{}), load: &load{uploads: a.account}}
	a.of[of] = one
	return one, true
}

// forgetLater forgets a profile after its time, and one that could not be read at once.
func (a *archive) forgetLater(of string, one *archived) {
	wait := archivedFor
	if one.err != nil {
		wait = 0
	}
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		delete(a.of, of)
		a.mu.Unlock()
		one.load.end()
	})
}

// read has a map read, within the account. So many bytes of it are there already.
func (a *archive) read(ctx context.Context, turns *shares, l *load, read func(export.ReadOptions) (*ccmap.Map, error), there int64) (sum *ccmap.Snapshot, err error) {
	if err := a.account.mayRead(); err != nil {
		return nil, err
	}
	within := export.ReadOptions{
		MaxMemory: min(mostUploadMemory, a.account.most), MaxSteps: mostUploadSteps,
		Reserve: func(bytes int64) error { return l.set(there, bytes) },
	}
	err = turns.workInTurn(ctx, a.account.spend, func() error {
		m, err := read(within)
		if err != nil {
			return err
		}
		sum = m.Snapshot()
		return l.set(export.MapMemory(m), 0)
	})
	return sum, explainStored(err)
}

// explainStored tells a profile that is too large here from one that is damaged.
func explainStored(err error) error {
	if isTooLarge(err) {
		return &view.Error{Code: view.CodeTooLarge, Err: err, Hint: "Read it beside the daemon: 'ccmapd store export' writes it to a file."}
	}
	return err
}

func isTooLarge(err error) bool {
	return errors.Is(err, export.ErrTooLarge) || errors.Is(err, export.ErrMemory)
}
