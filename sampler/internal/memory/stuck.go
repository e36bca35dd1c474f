package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/goproc"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot"
)

// StuckOptions are the options of [FindStuck]. PID is required; the zero value of all others is useful.
type StuckOptions struct {
	PID         int
	Longer      time.Duration // how long a wait must have lasted; 0 means 10 s
	Watch       time.Duration // how long to look for tasks that go on; 0 means Longer, 10 s at most
	NoLabels    bool          // leaves the labels of goroutines unread
	SymbolCache string        // as in [sampler.ProcessOptions]
}

const defaultLonger = 10 * time.Second

// Stuck are the goroutines of a Go program, or the Java threads of a JVM, that have waited for long. Names are foreign.
type Stuck struct {
	PID       int           `json:"pid"`
	What      string        `json:"what"` // "goroutines" or "threads of Java"
	Longer    time.Duration `json:"longer_ns"`
	Watched   time.Duration `json:"watched_ns"`
	Tasks     int           `json:"tasks"`   // that there are, without the runtime's own
	Stuck     int           `json:"stuck"`   // that have waited for longer_ns at least
	Unknown   int           `json:"unknown"` // that have waited all the time, and perhaps for longer_ns
	Unseen    int           `json:"unseen"`  // of the stuck, that were not looked at, to bound the work
	Groups    []StuckGroup  `json:"groups"`  // most tasks first
	Deadlocks [][]StuckTask `json:"deadlocks"`

	LocksUnknown   string `json:"locks_unknown,omitempty"`   // why owners of locks of java.util.concurrent, or of some monitors, are not known
	VirtualUnknown string `json:"virtual_unknown,omitempty"` // why virtual threads without a carrier are not known, or not all
}

// StuckGroup are tasks that wait with one stack and, in a JVM, for one monitor or lock.
type StuckGroup struct {
	Reason string        `json:"reason"`
	Tasks  int           `json:"tasks"`
	Least  time.Duration `json:"least_ns"` // each has waited for so long at least
	Most   time.Duration `json:"most_ns"`  // one has
	Some   []StuckTask   `json:"some"`     // the first of them
	Labels string        `json:"labels,omitempty"`
	Frames []StuckFrame  `json:"frames"` // innermost first
	Owner  *StuckOwner   `json:"owner,omitempty"`

	stack int32
	lock  lock
}

// StuckTask names a task, and what it waits for.
type StuckTask struct {
	ID      uint64 `json:"id"`                // of the goroutine, or of the thread as the kernel has it
	Virtual bool   `json:"virtual,omitempty"` // it is a virtual thread without a carrier: the ID is Java's
	Name    string `json:"name,omitempty"`    // of the thread
	Monitor string `json:"monitor,omitempty"` // its object's class and address, or its own address
	Lock    string `json:"lock,omitempty"`    // of java.util.concurrent: its class and its address
}

// StuckFrame is a call.
type StuckFrame struct {
	Method string `json:"method"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
}

// StuckOwner is the thread that owns what others wait for.
type StuckOwner struct {
	StuckTask
	Runs   bool         `json:"runs"` // it has no stack that could be read
	Reason string       `json:"reason,omitempty"`
	Frames []StuckFrame `json:"frames"`
}

// owners are tasks that wait for monitors and locks of each other.
type owners interface {
	Owner(monitor uint64) (tid uint32)
	Locks() (map[uint64]hotspot.Lock, error) // and monitors that tasks wait for; with an error some may be missing
	Name(id uint64) string
}

// lock is what a thread waits for.
type lock struct {
	addr      uint64 // 0: nothing that is known
	class     string // "": not known, of a monitor
	isMonitor bool
}

// FindStuck watches a process for a time, and returns what has waited for long. A wait is proved by the same number at
// all looks, or by notes of Go's collector: see [process.Task].
func FindStuck(ctx context.Context, o StuckOptions) (Stuck, error) {
	v, err := newVigil(ctx, o)
	if err != nil {
		return Stuck{}, err
	}
	return v.find(ctx)
}

// newVigil attaches to a process.
func newVigil(ctx context.Context, o StuckOptions) (*vigil, error) {
	o.Longer = cmp.Or(o.Longer, defaultLonger)
	o.Watch = cmp.Or(o.Watch, min(o.Longer, defaultLonger))
	if o.Longer < 0 || o.Watch < 0 {
		return nil, fmt.Errorf("waits longer than %v, in %v: not positive", o.Longer, o.Watch)
	}
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	s := &Source{watch: new(hang.Watch), pidfd: -1, o: sampler.ProcessOptions{
		PID: o.PID, Sink: sink, NoLabels: o.NoLabels, SymbolCache: o.SymbolCache, Logger: slog.New(slog.DiscardHandler),
	}}
	err := s.open(ctx)
	if err == nil && s.all == nil {
		err = process.As(goproc.ErrNotYet, sampler.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, errors.Join(err, s.Close()))
	}
	found := Stuck{PID: o.PID, What: s.what, Longer: o.Longer, Groups: []StuckGroup{}, Deadlocks: [][]StuckTask{}}
	return &vigil{Source: s, options: o, found: found}, nil
}

// find watches the process, and returns what was found. It closes the source.
func (v *vigil) find(ctx context.Context) (Stuck, error) {
	var err error
	if hung := v.watch.Run(ctx, func() { err = v.run(ctx) }); hung != nil {
		return Stuck{}, fmt.Errorf("look at process %d: %w", v.o.PID, hung)
	}
	if err = errors.Join(err, v.Close()); err != nil {
		return Stuck{}, fmt.Errorf("look at process %d: %w", v.o.PID, err)
	}
	return v.found, nil
}

// vigil watches the tasks of a process.
type vigil struct {
	*Source
	options StuckOptions
	tasks   []watched // by place
	ticks   int32
	began   int64 // at the first tick, CLOCK_MONOTONIC, ns
	now     int64
	oldest  int64 // when the process began
	found   Stuck

	places map[uint64]int32 // of owners, by ID
	groups map[groupKey]int
	locks  map[uint64]lock // that tasks wait for, by ID, of a JVM
	owner  map[lock]uint64 // ID of the task; 0: not known
	failed error           // why some locks are not in them
}

// watched is what is known of the task in a place.
type watched struct {
	trail
	since int64 // it has waited since then at least, CLOCK_MONOTONIC, ns
	tick  int32 // of the last look
}

type groupKey struct {
	stack int32
	lock  lock
}

// Bounds of a vigil.
const (
	stuckTicks  = 40                    // in its time, at most
	leastTick   = 20 * time.Millisecond // between two ticks
	tickShare   = 20                    // a tick takes one part in so many of the time
	stuckLooks  = 1 << 16               // tasks that are looked at
	stuckGroups = 1 << 12
	stuckNamed  = 10 // tasks of a group that are named
	stuckLocks  = 1 << 10
)

// parked is the reason of a thread that waits for a lock of java.util.concurrent, among others.
const parked = "[" + hotspot.ReasonPark + "]"

func (v *vigil) run(ctx context.Context) error {
	v.process.Bound(ctx)
	clock := sampler.NewClock()
	v.began = clock.Now()
	v.oldest = v.began
	if f, err := process.FactsOf(v.o.PID); err == nil {
		if begin, err := f.Begin(); err == nil {
			v.oldest = v.began - int64(time.Since(begin))
		}
	}
	end := v.began + int64(v.options.Watch)
	pause := max(v.options.Watch/stuckTicks, leastTick)
	for {
		now := clock.Now()
		if v.ticks == 0 {
			now = v.began
		}
		if err := v.tick(now); err != nil {
			return err
		}
		v.process.Renew(time.Now())
		cost := time.Duration(clock.Now() - v.now)
		if v.now >= end {
			break
		}
		if ended := v.sleep(ctx, &clock, min(end, clock.Now()+int64(max(pause, tickShare*cost)))); ended != "" {
			return cmp.Or(context.Cause(ctx), process.As(errors.New(ended), sampler.ErrNoProcess))
		}
	}
	v.findOwners()
	if err := v.tick(clock.Now()); err != nil { // what still waits has waited while owners were read
		return err
	}
	v.found.Watched = time.Duration(v.now - v.began)
	v.collect(ctx)
	if err := v.process.SameProgram(); err != nil {
		v.found = Stuck{} // of another program, perhaps another user's
		return err
	}
	return ctx.Err()
}

// tick takes a census.
func (v *vigil) tick(now int64) error {
	if err := v.all.Refresh(); err != nil {
		return err
	}
	n, _ := v.all.Len()
	v.tasks = slices.Grow(v.tasks, max(n-len(v.tasks), 0))[:n]
	v.ticks++
	v.now, v.found.Tasks = now, 0
	v.all.Census(func(place int, t *process.Task) bool {
		if !v.all.Own(t) {
			v.found.Tasks++
			v.tasks[place].see(t, now)
			v.tasks[place].tick = v.ticks
		}
		return true
	})
	return nil
}

// see takes in what a census says of a task.
func (w *watched) see(t *process.Task, now int64) {
	if !w.continues(t) {
		wary := w.wary
		*w = watched{trail: trailOf(t), since: now}
		w.wary = wary
	}
	if t.Since > 0 && t.State >= process.InSyscall {
		w.since = min(w.since, t.Since)
	}
}

// waited returns how long the task in a place has waited, at least; 0: it does not wait.
func (v *vigil) waited(place int32) time.Duration {
	w := &v.tasks[place]
	if w.tick != v.ticks || w.state < process.InSyscall {
		return 0
	}
	return time.Duration(v.now - max(w.since, v.oldest))
}

// collect looks at the tasks that have waited for long.
func (v *vigil) collect(ctx context.Context) {
	var stuck []int32
	v.groups, v.places = make(map[groupKey]int), make(map[uint64]int32)
	for _, owner := range v.owner {
		v.places[owner] = noPlace
	}
	for place := range v.tasks {
		waited := v.waited(int32(place))
		switch {
		case waited >= v.options.Longer:
			stuck = append(stuck, int32(place))
		case waited > 0 && waited >= v.found.Watched:
			v.found.Unknown++
		}
		if id := v.tasks[place].id; v.tasks[place].tick == v.ticks {
			if _, owns := v.places[id]; owns {
				v.places[id] = int32(place)
			}
		}
	}
	v.found.Stuck = len(stuck)
	looked := evenly(stuck, stuckLooks)
	v.found.Unseen = len(stuck) - len(looked)
	v.all.Look(looked, func(place int32, l *process.TaskLook) {
		if ctx.Err() == nil {
			v.note(place, l)
		}
	})
	v.tellOwners()
	if err := virtualUnknown(v.all); err != nil {
		v.found.VirtualUnknown = err.Error()
	}
	for i := range v.found.Groups {
		g := &v.found.Groups[i]
		g.Reason, g.Labels, g.Frames = v.describeStack(g.stack)
		if v.failed != nil && (g.Reason == parked || g.Reason == reasonMonitor && g.Owner == nil) {
			v.found.LocksUnknown = v.failed.Error()
		}
	}
	slices.SortStableFunc(v.found.Groups, func(a, b StuckGroup) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(b.Most, a.Most))
	})
}

// evenly returns at most n of the places.
func evenly(places []int32, n int) []int32 {
	if len(places) <= n {
		return places
	}
	chosen := make([]int32, n)
	for i := range chosen {
		chosen[i] = places[i*len(places)/n]
	}
	return chosen
}

// note takes in a look at a task.
func (v *vigil) note(place int32, l *process.TaskLook) {
	w := v.tasks[place]
	same := w.continues(&l.Task) || l.Since > 0 && l.Since <= w.since // the collector's note ends with the wait
	if !l.Read || l.Moved || l.ID != w.id || !same {
		v.found.Stuck--
		return
	}
	stacks := v.ledger.stacks
	stack := stacks.add(stacks.reason(l), l.Stack)
	if stacks.all[stack].hidden {
		v.found.Stuck--
		return
	}
	key := groupKey{stack, v.locks[w.id]}
	at, known := v.groups[key]
	if !known {
		if len(v.found.Groups) >= stuckGroups || stacks.full() {
			v.found.Unseen++
			return
		}
		at = len(v.found.Groups)
		v.groups[key] = at
		v.found.Groups = append(v.found.Groups, StuckGroup{stack: stack, lock: key.lock, Least: v.waited(place)})
	}
	g := &v.found.Groups[at]
	g.Tasks++
	g.Least, g.Most = min(g.Least, v.waited(place)), max(g.Most, v.waited(place))
	if len(g.Some) < stuckNamed {
		g.Some = append(g.Some, v.nameOf(w.id, key.lock))
	}
}

// nameOf names a task, and what it waits for or owns.
func (v *vigil) nameOf(id uint64, l lock) StuckTask {
	var t StuckTask
	t.ID, t.Virtual = hotspot.VirtualID(id)
	if o, ok := v.all.(owners); ok {
		t.Name = o.Name(id)
	}
	if l.addr == 0 {
		return t
	}
	what := fmt.Sprintf("%#x", l.addr)
	if l.class != "" {
		what = l.class + "@" + what
	}
	if l.isMonitor {
		t.Monitor = what
	} else {
		t.Lock = what
	}
	return t
}

// describeStack returns the reason, the labels and the calls of a stack.
func (v *vigil) describeStack(stack int32) (reason, labels string, frames []StuckFrame) {
	names := v.o.Sink.Names
	frames = []StuckFrame{}
	for i, f := range v.ledger.stacks.all[stack].frames {
		switch m := names.At(f.Method); {
		case i == 0:
			reason = m.Name
		case m.IsLabels():
			labels = m.Signature
		default:
			frames = append(frames, StuckFrame{m.Name, m.File, int(names.Line(f))})
		}
	}
	return reason, labels, frames
}

// findOwners finds what threads wait for, and who owns it.
func (v *vigil) findOwners() {
	of, isJVM := v.all.(owners)
	if !isJVM {
		return
	}
	v.locks, v.owner = make(map[uint64]lock), make(map[lock]uint64)
	var held map[uint64]hotspot.Lock
	held, v.failed = of.Locks()
	for place := range v.tasks {
		w := &v.tasks[place]
		if w.tick != v.ticks || w.state < process.InSyscall {
			continue
		}
		l, owner := lock{addr: w.lock, isMonitor: true}, func() uint64 { return uint64(of.Owner(w.lock)) }
		if k, isKnown := held[w.id]; isKnown {
			l, owner = lock{k.Addr, k.Class, k.Monitor}, func() uint64 { return k.Owner }
		}
		if l.addr == 0 {
			continue
		}
		v.locks[w.id] = l
		if _, met := v.owner[l]; !met && len(v.owner) < stuckLocks {
			v.owner[l] = owner()
		}
	}
}

// tellOwners tells who owns what tasks wait for, and those that wait for each other.
func (v *vigil) tellOwners() {
	next := make(map[uint64]uint64) // the ID of the owner that a task waits for
	for place := range v.tasks {
		w := &v.tasks[place]
		if owner := v.owner[v.locks[w.id]]; owner != 0 && v.waited(int32(place)) >= v.found.Watched {
			next[w.id] = owner
		}
	}
	for i := range v.found.Groups {
		g := &v.found.Groups[i]
		if owner := v.owner[g.lock]; owner != 0 {
			g.Owner = v.ownerOf(owner, g.lock)
		}
	}
	for _, cycle := range cycles(next) {
		var tasks []StuckTask
		for _, id := range cycle {
			tasks = append(tasks, v.nameOf(id, v.locks[id]))
		}
		v.found.Deadlocks = append(v.found.Deadlocks, tasks)
	}
}

// noPlace is that of an owner that the last census has not met.
const noPlace = -1

// ownerOf looks at the owner of a monitor or lock.
func (v *vigil) ownerOf(id uint64, l lock) *StuckOwner {
	o := &StuckOwner{StuckTask: v.nameOf(id, l), Frames: []StuckFrame{}}
	place := v.places[id]
	if place == noPlace {
		return o
	}
	v.all.Look([]int32{place}, func(_ int32, k *process.TaskLook) {
		if o.Runs = !k.Read || k.Moved || k.ID != id; !o.Runs {
			stacks := v.ledger.stacks
			o.Reason, _, o.Frames = v.describeStack(stacks.add(stacks.reason(k), k.Stack))
		}
	})
	return o
}

// cycles returns those that wait for each other, each cycle once, from its smallest ID on. One alone waits for nobody.
func cycles(next map[uint64]uint64) (found [][]uint64) {
	met := make(map[uint64]uint64) // by which walk
	for _, from := range slices.Sorted(maps.Keys(next)) {
		at := from
		for met[at] == 0 && next[at] != 0 {
			met[at] = from
			at = next[at]
		}
		if met[at] != from || next[at] == 0 || next[at] == at {
			continue
		}
		cycle := []uint64{at}
		for id := next[at]; id != at; id = next[id] {
			cycle = append(cycle, id)
		}
		least := slices.Index(cycle, slices.Min(cycle))
		found = append(found, append(cycle[least:], cycle[:least]...))
	}
	return found
}
