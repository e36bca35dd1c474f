package manager

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
	"github.com/ccmapd/ccmapd/valueprof"
)

// Config says how a session samples, and where the results go.
type Config struct {
	// Source is required, and belongs to the manager from New on, with its sink. If the
	// source is in this process ([sampler.Info]), the manager's own CPU time cannot be
	// told from the target's. The tuner and the report then get 0 for it.
	Source sampler.Source

	// Map has the names of the source's sink, and belongs to the manager from New until
	// Run returns. Its metadata already describes the target. The manager adds the rest,
	// and moves the clock of the map's window, if it has one. With nil the manager makes a
	// map of at most 64 MiB, and describes the target as the source does.
	//
	// A map that has had a session goes on: durations, losses and repetitions add up,
	// changes of the interval count from its Start, points keep their counts. If the next
	// session has another process, call [ccmap.Map.ForgetThreads] before New.
	Map *ccmap.Map

	// DaemonCPU returns the CPU time that the session has cost so far, in a process that
	// runs several. With nil it is the CPU time of this process.
	DaemonCPU func() time.Duration

	// Admit is asked after samples have left the queue, and before they enter the map. An error drops these samples
	// and all later ones, which count as lost by the source, and ends the session, unless it wraps
	// [sampler.ErrNoProcess]: then the source is about to end. The manager's goroutine calls it. With nil all
	// samples enter.
	Admit func() error

	// Tuner changes the interval of a [sampler.Tunable], beginning with the interval of
	// the source. With nil the interval stays, except in a session of [Start]: that has a
	// [tuning.Tuner] with its defaults, unless FixedInterval is set.
	Tuner         Tuner
	FixedInterval bool

	// Budgets name the settings that bound the cost of sampling, for the profile's readers.
	Budgets BudgetNames

	// Logger receives every change of the interval, how settled the map is, the start
	// of a drift, and errors that do not end the session. Nil discards.
	Logger *slog.Logger

	// PublishEvery is the shortest time between two snapshots, and between two
	// looks for hot methods. 0 means 100 ms.
	PublishEvery time.Duration

	// Hot says when a method, an edge or a path is hot. The manager then calls OnHot, on its
	// own goroutine: OnHot must not block, and its time counts as time of the look (see
	// Thresholds). It may keep the event, and read its snapshot. What was hot in an earlier
	// session of the map raises no event.
	Hot   Thresholds
	OnHot func(Event)

	// Values says how to count the methods that calls reach.
	Values ValueOptions

	// Until ends the session when the map is as settled as the goal.
	Until Goal

	// Dumps are written at the end, in this order.
	Dumps []Dump
}

// ProfileSource is a source that delivers whole profiles in place of samples. It sends
// them until its Run returns, and the manager owns a profile that it has received. Their
// weights have the source's unit. Their points add up, and so do their counts of repetitions; the source's
// Stats have the losses.
type ProfileSource interface {
	Profiles() <-chan *ccmap.Map
}

// Tuner decides on the sampling interval. [tuning.Tuner] is one.
type Tuner interface {
	// Observe takes in the time since the last observation, and returns a new
	// interval if it wants one.
	Observe(tuning.Observation) (tuning.Decision, bool)

	// Verdicts returns the number of samples with a verdict that the tuner has, and the
	// number that its next decision needs. Both are 0 if the decision waits for none.
	Verdicts() (known, needed int)

	// Held returns the budget that makes the interval longer than the tuner's rules want it,
	// and the interval that they want: [tuning.NoBudget] and the interval if there is none.
	Held() (by tuning.Budget, wanted time.Duration)
}

// ValueOptions say how the manager counts the methods that the target's calls reach.
// The zero value is useful.
type ValueOptions struct {
	Off       bool             // count nothing
	Hash      valueprof.Hash   // index function of the value tables
	Policy    valueprof.Policy // of the janitor of the tables
	Capacity  int              // methods in the table of one call site; 0: 15
	MaxPoints int              // bounds the profile points of the latest calls, and of all calls before; 0: 65,536. The rarest leave
	Dump      io.Writer        // receives a line for every event in the life of a table, each in one Write; nil: none
}

// Dump is one output of a session, for example a file.
type Dump struct {
	Name string // for people, for example the path

	// Write writes the final snapshot. Its error names the output.
	Write func(*ccmap.Snapshot) error
}

// Goal says how settled a map must be for its session to stop: the overlap of two
// halves of its samples. The zero value is no goal.
type Goal struct {
	Of      Granularity
	Percent float64 // 0 to 100, both excluded
}

// Granularity names a kind of counters of a map.
type Granularity uint8

const (
	Edges    Granularity = iota // call sites with their callees
	Methods                     // the coarsest
	Contexts                    // the finest: all sub-paths of all stacks
)

const (
	defaultPublishEvery = 100 * time.Millisecond
	// goalSamples is the least number of samples that reach a goal: a program may
	// begin with seconds of one activity.
	goalSamples = 1000
	// unseen is the number of the rule of three. An event with a share p of the
	// samples is seen with 95 % probability after unseen/p samples.
	unseen = 3
)

func (c *Config) complete() error {
	if c.Source == nil {
		return errors.New("configure manager: a source is required")
	}
	info := c.Source.Info()
	if err := c.connect(info); err != nil {
		return err
	}
	if !c.Hot.isZero() && c.OnHot == nil {
		return errors.New("configure manager: thresholds without OnHot")
	}
	if err := c.Hot.check(); err != nil {
		return err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.PublishEvery <= 0 {
		c.PublishEvery = defaultPublishEvery
	}
	if err := c.Map.SetUnit(info.Unit); err != nil {
		return fmt.Errorf("configure manager: %w", err)
	}
	return c.Until.check()
}

// String returns the goal for people, for example "95 % of edges".
func (g Goal) String() string { return fmt.Sprintf("%v %% of %v", g.Percent, g.Of) }

func (g Goal) check() error {
	if g == (Goal{}) {
		return nil
	}
	if !(g.Percent > 0 && g.Percent < 100) || int(g.Of) >= len(granularities) {
		return fmt.Errorf("configure manager: goal %v is not over 0 and under 100 percent", g)
	}
	return nil
}

// reached reports whether a profile has reached the goal with enough samples.
// Independent is the effective sample size.
func (g Goal) reached(s ccmap.Settled, independent float64) bool {
	rest := 1 - g.Percent/100
	enough := s.Samples >= goalSamples && independent >= math.Ceil(unseen/rest)
	return g.Percent > 0 && enough && g.Of.Settled(s) >= g.Percent
}

var granularities = [...]string{Edges: "edges", Methods: "methods", Contexts: "contexts"}

// String returns "edges", "methods" or "contexts".
func (g Granularity) String() string {
	if int(g) < len(granularities) {
		return granularities[g]
	}
	return fmt.Sprintf("Granularity(%d)", uint8(g))
}

// Settled returns how settled a profile is at this granularity, in percent.
func (g Granularity) Settled(s ccmap.Settled) float64 {
	return [...]float64{Edges: s.Edges, Methods: s.Methods, Contexts: s.Contexts}[g]
}
