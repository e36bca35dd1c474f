package manager

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// Thresholds say what makes a method, an edge or a path hot (the paper, section 3.1.3: "a total
// counter exceeding threshold"). The zero value: nothing is ever hot.
type Thresholds struct {
	Method Threshold // of cumulative counts: a sample counts once for a method
	Edge   Threshold // of total counts: a sample counts for each occurrence of the call
	Paths  []HotPath // that are watched

	// Scale is asked for the part of Method and Edge that makes a method hot, or calls of it: 1 is all. With
	// the Threshold of a profiler of package managed, methods with a cached profile are hot early. Nil: 1 for all.
	Scale func(ccmap.MethodID) float64
}

// Threshold is a CPU time, or a share of the target's recent CPU time: one of Time and Percent is
// set. The zero value is never reached. Where samples have another unit than CPU time, Time is in
// that unit.
//
// A time is reached once, counted from the beginning of the map. A share is reached again after it
// was cold, which is under half of the threshold. Shares of fewer than 30 recent samples say
// nothing: they make nothing hot, and nothing cold.
type Threshold struct {
	Time    time.Duration
	Percent float64       // over 0, to 100
	Window  time.Duration // time constant of what is recent: a sample falls to 1/e of its weight in it; with Percent
}

// HotPath is a path of calls, wherever it stands on stacks. A sample counts once for it. Its names
// are looked up as [query.Named] does.
type HotPath struct {
	Path      query.Path
	Threshold Threshold // zero: Thresholds.Method, or 1 % of the last 10 minutes if that is zero, too
}

// defaultHeat is the threshold of a path where none is given.
var defaultHeat = Threshold{Percent: 1, Window: 10 * time.Minute}

// isZero reports whether nothing is ever hot.
func (t Thresholds) isZero() bool {
	return t.Method == Threshold{} && t.Edge == Threshold{} && len(t.Paths) == 0
}

func (t Thresholds) check() error {
	for _, one := range append([]Threshold{t.Method, t.Edge}, t.ofPaths()...) {
		if err := one.check(); err != nil {
			return fmt.Errorf("configure manager: %w", err)
		}
	}
	for _, p := range t.Paths {
		if len(p.Path) == 0 {
			return errors.New("configure manager: a hot path has no element")
		}
	}
	return nil
}

// ofPaths returns the thresholds of the paths.
func (t Thresholds) ofPaths() []Threshold {
	all := make([]Threshold, len(t.Paths))
	for i, p := range t.Paths {
		all[i] = p.Threshold
		for _, other := range []Threshold{t.Method, defaultHeat} {
			if all[i] == (Threshold{}) {
				all[i] = other
			}
		}
	}
	return all
}

// isShare reports whether the threshold is a share of the recent time.
func (t Threshold) isShare() bool { return t.Percent != 0 }

// errThreshold says how a threshold is written.
var errThreshold = errors.New(`is neither a CPU time, such as "10s", nor a share of the recent CPU time, such as "1%/10m"`)

func (t Threshold) check() error {
	isTime := t.Time > 0 && t.Percent == 0 && t.Window == 0
	isShare := t.Time == 0 && t.Percent > 0 && t.Percent <= 100 && t.Window > 0
	if t != (Threshold{}) && !isTime && !isShare {
		return fmt.Errorf("threshold %v %w", t, errThreshold)
	}
	return nil
}

// String returns the threshold as UnmarshalText reads it: "10s", "1%/10m", or "0".
func (t Threshold) String() string {
	if !t.isShare() {
		return shortTime(t.Time)
	}
	return strconv.FormatFloat(t.Percent, 'g', -1, 64) + "%/" + shortTime(t.Window)
}

// UnmarshalText reads a CPU time, "10s", a share, "1%/10m", or "0" for none.
func (t *Threshold) UnmarshalText(text []byte) (err error) {
	var read Threshold
	percent, window, isShare := strings.Cut(string(text), "%/")
	if isShare {
		read.Percent, err = strconv.ParseFloat(percent, 64)
		text = []byte(window)
	}
	to := &read.Time
	if isShare {
		to = &read.Window
	}
	if err == nil {
		*to, err = time.ParseDuration(string(text))
	}
	if err != nil || math.IsNaN(read.Percent) || isShare && read.Percent == 0 || read.check() != nil {
		return errThreshold
	}
	*t = read
	return nil
}

// heatOf stands between a path and its threshold.
const heatOf = " = "

// String returns the path as UnmarshalText reads it: "A > B" or "A > B = 1%/10m".
func (p HotPath) String() string {
	if p.Threshold == (Threshold{}) {
		return p.Path.String()
	}
	return p.Path.String() + heatOf + p.Threshold.String()
}

// UnmarshalText reads a path of package query, which a threshold may follow: "A > B:12 > C",
// "A > B = 10s".
func (p *HotPath) UnmarshalText(text []byte) (err error) {
	var read HotPath
	path := string(text)
	if i := strings.LastIndex(path, heatOf); i >= 0 {
		after := path[i+len(heatOf):]
		if err := read.Threshold.UnmarshalText([]byte(strings.TrimSpace(after))); err != nil {
			return fmt.Errorf("threshold %q %w", after, err)
		}
		path = path[:i]
	}
	if read.Path, err = query.ParsePath(path); err != nil {
		return err
	}
	*p = read
	return nil
}

// shortTime prints a time without zeros at its end: "10m", not "10m0s".
func shortTime(t time.Duration) string {
	if t == 0 {
		return "0"
	}
	s := t.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
