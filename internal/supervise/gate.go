package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// AtOnce bounds the processes that are opened at the same time: reading symbols takes memory and time.
const AtOnce = 4

// mostHung bounds the processes of an owner that cost a thread.
const mostHung = 16

// ErrHungOwner says that an owner's processes have cost too many threads.
var ErrHungOwner = errors.New("too many processes of its owner keep a read waiting, and each costs the daemon a thread")

// Host is the machine that the processes run on. Any goroutine may call it.
type Host interface {
	Pin(pid int) (Pin, error)
	File(pid int) (process.FileID, error) // of the executable; it may never return
}

// Pin is a process that is held on to: its number can become another one's meanwhile.
type Pin interface {
	Gone() bool
	Close()
}

// Machine is this machine.
type Machine struct{}

// Pin implements [Host].
func (Machine) Pin(pid int) (Pin, error) {
	p, err := process.Pin(pid)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// File implements [Host].
func (Machine) File(pid int) (process.FileID, error) { return process.FileOf(pid) }

// Process names a process. A number alone may become another one's.
type Process struct {
	PID     int
	Started uint64 // ticks after the boot
	Owner   int    // user id
}

// Gate opens processes. Make it by [NewGate]. Any goroutine may call its methods.
//
// A process can keep a read of its memory or its executable waiting, by userfaultfd or FUSE. The thread that reads
// is lost until the process ends (see package hang). So such a process is read once, and there is a bound for all
// processes of one owner.
type Gate struct {
	host  Host
	turns chan struct{} // a token for each process that is being opened

	estranged Backoff

	mu        sync.Mutex
	strangers strangers
	hung      map[int]Process // by number: they cost a thread
}

// NewGate returns a gate that opens so many processes at a time. An executable that cannot be sampled is not opened for
// a wait like [Estranged]; a zero one remembers none.
func NewGate(h Host, atOnce int, estranged Backoff) *Gate {
	return &Gate{
		host: h, turns: make(chan struct{}, atOnce), estranged: estranged, strangers: make(strangers), hung: make(map[int]Process),
	}
}

// Turn waits for leave to do what takes as much memory as opening a process. The caller calls done.
func (g *Gate) Turn(ctx context.Context) (done func(), err error) {
	select {
	case g.turns <- struct{}{}:
		return func() { <-g.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Opener is how a user opens a process.
type Opener struct {
	// Check is called when the process has its turn and is held on to, before anything else is read of it. Nil: it
	// only must not have ended.
	Check func(Pin) error

	// Open opens it. A process that has ended meanwhile is the user's to close again. An error that is an
	// ErrNotManaged makes its executable a stranger.
	Open func(Pin, process.FileID) error
}

// Attempt opens a process in its turn. The error is hang.ErrHung if the process keeps a read waiting, and
// refusal.ErrNotManaged of an executable that was a stranger lately.
func (g *Gate) Attempt(ctx context.Context, p Process, o Opener) error {
	done, err := g.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := g.mayRead(p); err != nil {
		return err
	}
	pin, err := g.host.Pin(p.PID)
	if err != nil {
		return err
	}
	defer pin.Close()
	if o.Check != nil {
		if err := o.Check(pin); err != nil {
			return err
		}
	}
	err = g.open(ctx, p, func(file process.FileID) error { return o.Open(pin, file) })
	if errors.Is(err, hang.ErrHung) {
		g.NoteHung(p)
	}
	return err
}

// open identifies the executable, and opens the process if that is no stranger.
func (g *Gate) open(ctx context.Context, p Process, open func(process.FileID) error) error {
	file, err := g.fileOf(ctx, p.PID)
	switch {
	case err != nil:
		return err
	case g.IsStranger(file):
		return refusal.ErrNotManaged
	}
	err = open(file)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case errors.Is(err, refusal.ErrNotManaged):
		g.strangers.remember(file, g.estranged)
	case err == nil:
		g.strangers.forget(file)
	}
	return err
}

// fileOf identifies the executable of a process, whose file system may not answer.
func (g *Gate) fileOf(ctx context.Context, pid int) (file process.FileID, err error) {
	err = hang.Once(ctx, func() (err error) {
		file, err = g.host.File(pid)
		return err
	})
	if errors.Is(err, hang.ErrHung) {
		return process.FileID{}, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	return file, err
}

// IsStranger reports whether processes of an executable need not be opened now.
func (g *Gate) IsStranger(file process.FileID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.strangers.has(file)
}

// mayRead returns an error if a process must not be read: it has cost a thread already, or others of its owner have
// cost too many.
func (g *Gate) mayRead(p Process) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h, known := g.hung[p.PID]; known && h.Started == p.Started {
		return fmt.Errorf("attach to process %d: %w", p.PID, hang.ErrHung)
	}
	if g.hungOf(p.Owner) >= mostHung {
		return fmt.Errorf("attach to process %d: %w", p.PID, ErrHungOwner)
	}
	return nil
}

// IsFull reports whether the processes of an owner cost so many threads that no other is looked at.
func (g *Gate) IsFull(owner int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hungOf(owner) >= mostHung
}

// NoteHung notes that a process costs a thread.
func (g *Gate) NoteHung(p Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hung[p.PID] = p
}

// Freed takes back that a process costs a thread: it has answered, late, or has ended.
func (g *Gate) Freed(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.hung, pid)
}

// hungOf counts the processes of an owner that cost a thread. The caller holds mu.
func (g *Gate) hungOf(owner int) (n int) {
	for _, p := range g.hung {
		if p.Owner == owner {
			n++
		}
	}
	return n
}

// Forget forgets the processes that do not exist.
func (g *Gate) Forget(exists func(pid int) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.hung, func(pid int, _ Process) bool { return !exists(pid) })
}
