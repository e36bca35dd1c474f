package manager

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// Config says what a session samples, and what becomes of it.
type Config struct {
	// Source takes the samples, into Queue, with methods of Map's names. Map
	// already says in its metadata what the target is; the manager adds the
	// rest, and moves the clock of its window, if it has one. All three are
	// required, and the manager's alone from New on. Only if the source has a
	// method Sink() [sampler.Sink], as managed ones have, may the others be nil:
	// then the queue is the sink's, and the map a new one of the sink's names, of
	// at most 64 MiB, whose target is this process.
	Source sampler.Source
	Queue  *queue.Queue
	Map    *ccmap.Map

	// Embedded says that the target runs in this process, so that nobody can tell
	// what the manager itself uses of CPU time: the tuner is told none of the
	// daemon, and the report has none.
	Embedded bool

	// Tuner changes the interval, beginning with the one that the source has.
	// Nil leaves it at that, but in a session of [Start], which then has a
	// [tuning.Tuner] with its defaults, unless FixedInterval is set.
	Tuner         Tuner
	FixedInterval bool

	// Logger receives every change of the interval, how settled the map is, when
	// the target drifts, and what goes wrong on the way. Nil discards.
	Logger *slog.Logger

	// PublishEvery is the shortest time between two snapshots, and between two
	// looks for hot methods. 0 means 100 ms.
	PublishEvery time.Duration

	// Hot says when a method or an edge is hot. OnHot is then called with it,
	// once in the session, on the manager's goroutine: it must not block.
	Hot   Thresholds
	OnHot func(Event)

	// Values says how to learn which methods calls reach.
	Values ValueOptions

	// Until ends the session when the map is that settled.
	Until Goal

	// Dumps are written at the end, in this order.
	Dumps []Dump
}

// Tuner decides on the sampling interval. [tuning.Tuner] is one.
type Tuner interface {
	// Observe takes what happened since the last observation, and returns a new
	// interval if it wants one.
	Observe(tuning.Observation) (tuning.Decision, bool)

	// Missing returns how many more samples with a verdict the next decision
	// takes: 0 if it waits for none.
	Missing() int
}

const defaultPublishEvery = 100 * time.Millisecond

func (c *Config) complete() error {
	if err := c.connect(); err != nil {
		return err
	}
	if c.Source == nil || c.Queue == nil || c.Map == nil {
		return errors.New("configure manager: source, queue and map are required")
	}
	if c.Hot != (Thresholds{}) && c.OnHot == nil {
		return errors.New("configure manager: thresholds without OnHot")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.PublishEvery <= 0 {
		c.PublishEvery = defaultPublishEvery
	}
	if err := c.Map.SetUnit(c.Source.Stats().Unit); err != nil {
		return fmt.Errorf("configure manager: %w", err)
	}
	return c.Until.check()
}

// embeddedBytes bounds a map that nobody has given.
const embeddedBytes = 64 << 20

// connect completes the way from a source that has a sink of its own to the map.
func (c *Config) connect() error {
	own, ok := c.Source.(interface{ Sink() sampler.Sink })
	if !ok {
		return nil
	}
	sink := own.Sink()
	if c.Queue == nil {
		c.Queue = sink.Queue
	}
	if c.Map == nil {
		c.Map = ccmap.New(ccmap.Options{Names: sink.Names, MaxBytes: embeddedBytes})
		c.Map.Meta().Target, c.Map.Meta().Engine = thisProcess(), engineOf(c.Source)
	}
	if c.Queue != sink.Queue || c.Map.Names() != sink.Names {
		return errors.New("configure manager: the source delivers into another queue, or methods of other names")
	}
	return nil
}

// engineOf returns the name of a source that has a sink of its own: "managed", unless
// it has a method Engine() string.
func engineOf(s sampler.Source) string {
	if named, ok := s.(interface{ Engine() string }); ok {
		return named.Engine()
	}
	return "managed"
}

// thisProcess describes the process that profiles what it runs itself.
func thisProcess() ccmap.Target {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0] // all that is known without /proc
	}
	return ccmap.Target{PID: os.Getpid(), Executable: path, CommandLine: os.Args, Runtime: runtime.Version()}
}
