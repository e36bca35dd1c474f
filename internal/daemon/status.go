package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
)

// TargetStatus is the state of a target, as the API has it.
type TargetStatus struct {
	Name       string          `json:"name"`
	Rule       string          `json:"rule"` // for people, for example "exe /srv/*/web, user www"
	State      State           `json:"state"`
	Reason     string          `json:"reason,omitempty"`
	Cure       string          `json:"cure,omitempty"`
	NextTry    *time.Time      `json:"next_try,omitempty"`
	Attached   bool            `json:"attached,omitempty"`           // by a request, and not of the configuration
	Hosted     bool            `json:"hosted,omitempty"`             // by the program that answers, which is no daemon
	LeftOut    int             `json:"left_out,omitempty"`           // processes that fit, beyond max
	NotManaged int             `json:"not_managed,omitempty"`        // processes that fit, and are neither Go programs nor JVMs
	Restarts   uint64          `json:"restarts"`                     // processes that were sampled to their end
	Failures   uint64          `json:"attach_failures"`              // attempts that were refused
	Processes  []ProcessStatus `json:"processes"`                    // the oldest first; never null
	Status     Figures         `json:"status"`                       // of all processes
	Counters   Counters        `json:"counters"`                     // of ended processes, too
	Waits      *WaitsStatus    `json:"waits,omitempty"`              // what goroutines wait for, where that is sampled beside
	Rate       []float64       `json:"samples_per_second,omitempty"` // in each minute of the last hour, the latest first
	OfHost     bool            `json:"-"`                            // it is the whole host

	Owners []process.Owner `json:"-"` // of its processes, and of ended ones that are in its profile
}

// Has reports whether a process is one of the target's.
func (t TargetStatus) Has(pid int) bool {
	return slices.ContainsFunc(t.Processes, func(p ProcessStatus) bool { return p.PID == pid })
}

// ProcessStatus is the state of a process of a target, of its endpoint, or of the whole host.
type ProcessStatus struct {
	PID     int        `json:"pid,omitempty"`  // 0: an endpoint, or the whole host
	Start   time.Time  `json:"start,omitzero"` // of an endpoint not known
	Exe     string     `json:"exe"`            // foreign, and not printable yet
	BuildID string     `json:"build_id,omitempty"`
	Runtime string     `json:"runtime,omitempty"`
	Engine  string     `json:"engine,omitempty"`
	Why     string     `json:"why,omitempty"` // this engine
	Since   time.Time  `json:"since"`         // it is in this state
	State   State      `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Cure    string     `json:"cure,omitempty"`
	NextTry *time.Time `json:"next_try,omitempty"`
	Status  Figures    `json:"status"`
}

// Figures are the figures of a session ([manager.Status]), or sums of them.
type Figures struct {
	ElapsedNS   int64   `json:"elapsed_ns"` // of the longest
	Samples     uint64  `json:"samples"`
	Caught      uint64  `json:"caught"`
	SampledNS   int64   `json:"sampled_ns"`
	Known       uint64  `json:"known"`
	Repeated    uint64  `json:"repeated"`
	IntervalNS  int64   `json:"interval_ns"` // the shortest
	LostSource  uint64  `json:"lost_source"`
	LostQueue   uint64  `json:"lost_queue"`
	LostCorrupt uint64  `json:"lost_corrupt"`
	Orphaned    uint64  `json:"orphaned"`
	Throttled   uint64  `json:"throttled"`
	Threads     int     `json:"threads"`
	Nodes       int     `json:"nodes"`
	Bytes       int64   `json:"bytes"`
	PrunedTimes uint64  `json:"pruned_times"`
	PrunedNodes uint64  `json:"pruned_nodes"`
	Settled     Settled `json:"settled"` // the least
	Drift       bool    `json:"drift"`
}

// Settled says how far a profile has converged, in percent; 0: not known.
type Settled struct {
	Methods  float64 `json:"methods"`
	Edges    float64 `json:"edges"`
	Contexts float64 `json:"contexts"`
}

func figuresOf(s manager.Status) Figures {
	return Figures{
		ElapsedNS: int64(s.Elapsed), Samples: s.Samples, Caught: s.Caught, SampledNS: int64(s.Sampled),
		Known: s.Known, Repeated: s.Repeated, IntervalNS: int64(s.Interval),
		LostSource: s.Loss.Source, LostQueue: s.Loss.Queue, LostCorrupt: s.Loss.Corrupt, Orphaned: s.Loss.Orphaned, Throttled: s.Loss.Throttled,
		Threads: s.Threads, Nodes: s.Nodes, Bytes: s.Bytes, PrunedTimes: s.Pruned.Times, PrunedNodes: s.Pruned.Nodes,
		Settled: settledOf(s.Settled), Drift: s.Drift,
	}
}

func settledOf(s ccmap.Settled) Settled { return Settled{s.Methods, s.Edges, s.Contexts} }

// add adds the figures of another process.
func (f *Figures) add(o Figures) {
	first := *f == Figures{}
	f.ElapsedNS = max(f.ElapsedNS, o.ElapsedNS)
	f.Samples += o.Samples
	f.Caught += o.Caught
	f.SampledNS += o.SampledNS
	f.Known += o.Known
	f.Repeated += o.Repeated
	f.LostSource += o.LostSource
	f.LostQueue += o.LostQueue
	f.LostCorrupt += o.LostCorrupt
	f.Orphaned += o.Orphaned
	f.Throttled += o.Throttled
	f.Threads += o.Threads
	f.Nodes += o.Nodes
	f.Bytes += o.Bytes
	f.PrunedTimes += o.PrunedTimes
	f.PrunedNodes += o.PrunedNodes
	f.Drift = f.Drift || o.Drift
	if first {
		f.IntervalNS, f.Settled = o.IntervalNS, o.Settled
		return
	}
	f.IntervalNS = min(f.IntervalNS, o.IntervalNS)
	f.Settled = Settled{min(f.Settled.Methods, o.Settled.Methods), min(f.Settled.Edges, o.Settled.Edges), min(f.Settled.Contexts, o.Settled.Contexts)}
}

// Targets returns all targets, by name.
func (d *Daemon) Targets() []TargetStatus {
	order := d.roster.all()
	all := make([]TargetStatus, 0, len(order))
	for _, t := range order {
		all = append(all, t.status())
	}
	slices.SortFunc(all, func(a, b TargetStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Target returns one target. The error wraps [ErrNoTarget].
func (d *Daemon) Target(name string) (TargetStatus, error) {
	t, err := d.roster.named(name)
	if err != nil {
		return TargetStatus{}, err
	}
	return t.status(), nil
}

// status describes the target.
func (t *target) status() TargetStatus {
	all := t.all()
	counters, restarts, strangers, ending := t.tally.figures()
	s := TargetStatus{
		Name: t.Name, Rule: t.describeRule(), State: Waiting, Attached: t.attached != nil, NotManaged: strangers,
		Restarts: restarts, Failures: counters.Failures.all(), Processes: []ProcessStatus{}, Counters: counters, Owners: t.owners(all), OfHost: t.Match.Host,
	}
	for _, f := range all {
		p := f.status()
		s.Processes = append(s.Processes, p)
		s.Status.add(p.Status)
	}
	slices.SortStableFunc(s.Processes, func(a, b ProcessStatus) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.PID, b.PID)) })
	s.Waits, s.Rate = t.waitsStatus(all), t.history.rate()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.LeftOut = t.leftOut
	switch {
	case t.paused:
		s.State = Paused
	case t.attached != nil && !t.ended.IsZero():
		s.State, s.Reason = Ended, ending
	default:
		s.State = furthest(&s, len(t.hidden))
	}
	return s
}

// owners returns the owners of all processes whose facts or samples a reader of the target gets.
func (t *target) owners(followers []*follower) []process.Owner {
	all := append(t.shelf.owners(), t.beside.owners()...)
	if t.attached != nil {
		all = append(all, t.attached.Owner)
	}
	for _, f := range followers {
		all = append(all, f.ownerNow())
	}
	slices.SortFunc(all, process.Owner.Compare)
	return slices.Compact(all)
}

func (t *target) describeRule() string {
	if t.attached != nil {
		return fmt.Sprintf("pid %d", t.attached.PID)
	}
	return t.Match.String()
}

// furthest returns the state of a target that goes on, the one of the process that is furthest, and notes the reason.
// Hidden processes have a name that fits, and their executables may not be seen.
func furthest(s *TargetStatus, hidden int) State {
	for _, state := range []State{Sampling, Attaching, Refused} {
		i := slices.IndexFunc(s.Processes, func(p ProcessStatus) bool { return p.State == state })
		if i < 0 {
			continue
		}
		if state == Refused {
			s.Reason, s.Cure, s.NextTry = s.Processes[i].Reason, s.Processes[i].Cure, s.Processes[i].NextTry
		}
		return state
	}
	switch {
	case len(s.Processes) > 0:
		s.Reason, s.Cure, s.NextTry = s.Processes[0].Reason, s.Processes[0].Cure, s.Processes[0].NextTry
	case s.NotManaged > 0:
		s.Reason = "the processes that fit are neither Go programs nor JVMs"
	case hidden > 0:
		s.Reason = fmt.Sprintf("no process fits; of %d by such a name the daemon may not see the executable", hidden)
		s.Cure = "run the daemon as root or as the processes' user, or give it CAP_SYS_PTRACE"
	default:
		s.Reason = "no process fits"
	}
	return Waiting
}

// status describes the process.
func (f *follower) status() ProcessStatus {
	is := f.life.Is()
	p := ProcessStatus{PID: f.facts.PID, Exe: f.facts.Executable, Since: is.Since, State: stateOf(is.State), Start: begunAt(f.facts)}
	if is.Err != nil {
		p.Reason = is.Err.Error()
		p.Cure, _ = advice.Of(is.Err)
	}
	if !is.Next.IsZero() {
		p.NextTry = &is.Next
	}
	s := f.session.Load()
	if s == nil {
		return p
	}
	info := s.Info()
	p.Exe = cmp.Or(p.Exe, info.Target.Executable)
	p.BuildID, p.Runtime, p.Engine, p.Why = info.Target.BuildID, info.Target.Runtime, info.Engine, s.Why
	p.Status = figuresOf(s.Manager.Status())
	return p
}

// begunAt returns when a process began, to a second: the two clocks are read one after the
// other.
func begunAt(f process.Facts) time.Time {
	if f.PID == 0 {
		return time.Time{}
	}
	at, err := f.Begin()
	if err != nil {
		return time.Time{}
	}
	return at.Round(time.Second).UTC()
}
