// Package config reads the configuration of the daemon, a TOML file. It works like this:
//
//  1. [Load] checks that only the daemon's administrator can have written the file.
//  2. [Parse] holds each value against the table of its keys, in read.go. An unknown
//     key, a value of another type and a value out of range are errors, with line,
//     column and key. Parse goes on after an error, so that users see all of them.
//  3. The settings of a target are the [defaults], with the target's own on top.
//  4. [Match.Rule] compiles the rule of a target, which [Rule.Matches] holds against
//     processes.
//
// All types but Rule are comparable: a target whose configuration is unchanged equals its
// old one.
package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/valueprof"
)

// Config is a whole configuration.
type Config struct {
	Listen   Listen
	Defaults Settings
	Budget   Budget
	Store    Store
	Hub      Hub
	Feedback Feedback
	Targets  []Target // in the order of the file; names are unique
}

// Listen says where the daemon answers, and whom.
type Listen struct {
	Socket    string // path of the Unix socket
	Open      bool   // other users may connect, and see the processes that they may trace
	Group     string // its members may do everything; "": no group
	TCP       string // host:port; "": none
	WebConfig string // file of TLS and users for TCP
	Metrics   string // "basic": those that alerts ask for; "full": all
}

// Settings say how one process is sampled and kept. They are the flags of attach.
type Settings struct {
	Engine      string        // "auto", or the name of an engine
	Interval    time.Duration // CPU time between two samples of a thread
	MinInterval time.Duration // 0: the shortest that is useful
	MaxInterval time.Duration // 0: 100 ms, or Interval
	Tune        bool          // adapt the interval
	MaxOverhead float64       // percent of the target's CPU time; 0: no limit
	MaxMemory   int64         // of a map, bytes; 0: no limit
	Window      time.Duration // time constant of the recent counts; 0: none
	Hits        float64       // calls caught a second of CPU time; 0: none
	ValueHash   valueprof.Hash
	Janitor     valueprof.Policy
	DumpValues  bool          // log what becomes of value tables
	Labels      bool          // sample labels of goroutines
	Rotate      time.Duration // a period's length; 0: none
	Send        bool          // to the hub, if there is one
	Max         int           // processes of a target; the oldest are taken
	Hot         Hot
	Waits       string        // what is sampled of goroutines beside: NoWaits, Wait or Wall
	Idle        time.Duration // waits outside of requests that last longer are idle; 0: none is
	Under       string        // functions that answer requests, with spaces between
}

// What is sampled of goroutines, beside CPU time.
const (
	NoWaits = "off"
	Wait    = "wait" // those that wait
	Wall    = "wall" // those that run, too
)

// Budget bounds the daemon over all targets.
type Budget struct {
	CPU             float64       // cores
	Memory          int64         // bytes
	Targets         int           // processes sampled at a time, and targets configured
	MaxHostOverhead float64       // percent of each CPU that timers of engine bpf may take; 0: no limit
	Scan            time.Duration // between two looks for new processes
}

// ServiceMemory returns how much memory the control group of a service needs for the budget, bytes: the budget and
// a third of it, as whole MiB. The budget is for Go's heap. The maps and rings of BPF, the pages of the program
// and of the files that it has just written, and the kernel's own memory of the service are in the same group. 0:
// the budget has no limit, so the group needs none either.
//
// packaging/systemd, packaging/kubernetes and docs/daemon.md have the figure for the budgets that are given there.
func (b Budget) ServiceMemory() int64 {
	const grain = int64(figure.MiB)
	whole := b.Memory + (b.Memory+2)/3
	return (whole + grain - 1) / grain * grain
}

// Store says what is kept in files.
type Store struct {
	Files    bool // log what is counted, and write each period to a file
	Dir      string
	Every    time.Duration // between two rounds of the log
	Keep     time.Duration // older files are removed; 0: never
	MaxBytes int64         // of all files; 0: no limit
	Moments  time.Duration // how long it is kept when samples were counted; 0: not at all
}

// IsAt reports whether files are kept at the same place, or both times nowhere.
func (s Store) IsAt(o Store) bool { return s.Files == o.Files && (!s.Files || s.Dir == o.Dir) }

// Hub says where the hub of the fleet is, which gets what is filed.
type Hub struct {
	URL           string // empty: there is none
	TokenFile     string // of the right to write
	ReadTokenFile string // of the right to read; empty: nothing is asked of the hub
	CAFile        string // of the hub's certificate; empty: the system's
	Every         time.Duration
}

// Feedback says what compilers are told of hot methods, and what is kept of what they do.
type Feedback struct {
	HotSpot string // FeedbackOff, FeedbackSuggest or FeedbackApply
	Record  string // pattern of the methods of JVMs whose compilations are kept in the store; empty: none
}

// What becomes of hints for compilers.
const (
	FeedbackOff     = "off"
	FeedbackSuggest = "suggest" // an event has them
	FeedbackApply   = "apply"   // they are given to the running compiler, for a minute at most
)

// Target is a name and a rule, which any number of processes may fit.
type Target struct {
	Name  string // letters, digits, '.', '_' and '-'
	Match Match
	Auth  Auth // of Match.URL
	Settings
}

// Auth has the credentials for an endpoint. They are in files, so that the configuration can be
// shown to others. Files that every user may read are refused.
type Auth struct {
	BearerFile   string
	User         string // of basic authentication
	PasswordFile string
	CAFile       string // of the server's certificate; "": the system's
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Listen: Listen{Socket: DefaultSocket(), Group: "ccmapd", Metrics: BasicMetrics},
		Defaults: Settings{
			Engine: engine.Auto, Interval: 10 * time.Millisecond, Tune: true, MaxOverhead: 1,
			MaxMemory: int64(64 * figure.MiB), Window: 15 * time.Minute, Hits: 250, Labels: true,
			Rotate: time.Hour, Max: 8, Send: true,
			Hot:   Hot{Method: manager.Threshold{Time: 10 * time.Minute}},
			Waits: NoWaits, Idle: time.Second,
		},
		Budget: Budget{CPU: 0.5, Memory: int64(figure.GiB), Targets: 256, MaxHostOverhead: 1, Scan: time.Second},
		Store:  Store{Dir: "/var/lib/ccmapd", Every: 10 * time.Second, Keep: 30 * day, MaxBytes: int64(2 * figure.GiB)},
		Hub:    Hub{Every: 10 * time.Minute},

		Feedback: Feedback{HotSpot: FeedbackOff},
	}
}

// DefaultSocket returns the path of the socket where the configuration has none: $CCMAPD_SOCKET, where
// commands look for it, or else in $XDG_RUNTIME_DIR, which a user's session has and a service
// lacks, or in /run/ccmapd.
func DefaultSocket() string {
	if socket := os.Getenv("CCMAPD_SOCKET"); filepath.IsAbs(socket) {
		return socket
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ccmapd.sock")
	}
	return "/run/ccmapd/ccmapd.sock"
}

// MaxBytes is the most that a configuration may have, in all its files.
const MaxBytes = 1 << 20

// Error is one thing that is wrong in a configuration.
type Error struct {
	Line, Column int    // from 1
	Key          string // "target[1].match.exe"; "": of the syntax
	Reason       string // has what is allowed
}

func (e *Error) Error() string {
	at := fmt.Sprintf("line %d, column %d: ", e.Line, e.Column)
	if e.Key == "" {
		return at + e.Reason
	}
	return at + e.Key + ": " + e.Reason
}

// Errors returns the errors of a configuration, in the order of the file.
func Errors(err error) []*Error {
	var all []*Error
	var one *Error
	var many interface{ Unwrap() []error }
	switch {
	case errors.As(err, &many):
		for _, e := range many.Unwrap() {
			all = append(all, Errors(e)...)
		}
	case errors.As(err, &one):
		all = append(all, one)
	}
	return all
}
