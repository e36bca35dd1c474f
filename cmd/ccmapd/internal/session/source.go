package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
)

// troubles are the counters of failures of threads that sample themselves.
var troubles = []struct {
	counter     sampler.Counter
	thing, went string
}{
	{sampler.LateMarks, "mark", "of %s came late"},
	{sampler.Unsafe, "thread", "reached no safe point for a second or more"},
	{sampler.Panicked, "thread", "could not be walked, and sampled no more"},
	{sampler.Abandoned, "thread", "ended without a word"},
}

// reportTroubles prints the failures of threads that sample themselves, if there are any.
func reportTroubles(w io.Writer, c sampler.Counts) {
	var parts []string
	for _, t := range troubles {
		if n := c[t.counter]; n > 0 {
			went := strings.Replace(t.went, "%s", figure.Count(int64(c[sampler.Marks])), 1)
			parts = append(parts, figure.Plural(int64(n), t.thing)+" "+went)
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "\n%s.\n", capital(strings.Join(parts, "; ")))
	}
}

// reportRecalled says how many samples in C have the callers of an earlier call.
func reportRecalled(w io.Writer, c sampler.Counts) {
	if n := c[sampler.Recalled]; n > 0 {
		fmt.Fprintf(w, "\nCallers of %s in C are those of the goroutine's last such call.\n", figure.Plural(int64(n), "sample"))
	}
}

// sourceJSON has the figures of a source: its counters, by their keys, and two facts between
// them. The counters of threads that sample themselves are a part of their own, which
// other sources do not have.
type sourceJSON struct {
	sampler.Info
	sampler.Stats
}

// MarshalJSON implements [json.Marshaler].
func (s sourceJSON) MarshalJSON() ([]byte, error) {
	var all, inside members
	for c := range sampler.NumCounters {
		switch n := s.Counts[c]; {
		case c.Key() == "":
		case c.Inside():
			inside.add(c.Key(), n)
		case c == sampler.Caught: // facts stand where they always have
			all.add("kernel_time", s.NoKernelTime == "")
			all.add(c.Key(), n)
		default:
			all.add(c.Key(), n)
		}
	}
	all.add("hit_reason", s.NoCalls)
	if s.Lacks != "" {
		all.add("lacks", s.Lacks)
	}
	if s.Embedded {
		all.add("inside", inside)
	}
	return all.MarshalJSON()
}

// members are the members of a JSON object, in their order.
type members []member

type member struct {
	key   string
	value any
}

func (m *members) add(key string, value any) { *m = append(*m, member{key, value}) }

// MarshalJSON implements [json.Marshaler].
func (m members) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	out.WriteByte('{')
	for i, one := range m {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", one.key)
		if err := enc.Encode(one.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// reportValues reports the receivers of calls that were recorded, if any were.
func (s *Session) reportValues(w io.Writer, r manager.Report) {
	v := r.Values
	if v.Points == 0 && v.Counted == 0 && r.Source.Counts[sampler.Samples] == 0 {
		return
	}
	points := ""
	if v.Points > 0 {
		points = "; " + figure.Plural(int64(v.Points), "profile point") + " in " + figure.Bytes(int64(v.Bytes))
	}
	fmt.Fprintf(w, "\nReceivers: %s%s%s.\n", s.caught(r), points, seeReceivers(r))
	if v.Counted > 0 && len(r.Written) > 0 && keeperOf(r) == "" {
		fmt.Fprintln(w, "Only XML and JSON keep these counts: -o FILE.json.")
	}
	if v.Evicted > 0 {
		fmt.Fprintf(w, "%s of rare calls made room for others, and %s with them%s.\n",
			figure.Plural(int64(v.Evicted), "profile point"), figure.Plural(int64(v.Lost), "call"), s.moreRoom())
	}
}

// caught says how many calls were caught, or why none. A target that counts its calls itself
// needs none caught.
func (s *Session) caught(r manager.Report) string {
	switch src := r.Source; {
	case r.Values.Counted > 0:
		return "the VM's own counts of " + figure.Plural(int64(r.Values.Counted), "call site")
	case r.Values.Caught > 0:
		return figure.Plural(int64(r.Values.Caught), "call") + " caught at " + figure.Plural(int64(r.Values.Sites), "call site")
	case s.config.Hits == 0:
		return "no calls caught, as asked for"
	case s.Info().Unit == ccmap.Instructions:
		return "no calls caught, as each one is recorded"
	case src.NoCalls != "":
		return "no calls caught, because " + terminal.Reason(src.NoCalls)
	case s.Info().Embedded:
		return "no calls caught, as none went through a table when one was wanted"
	case src.Counts[sampler.HotCalls] == 0:
		return "no calls caught, as none of an interface method or function value was hot"
	}
	return "no calls caught, as none was made while a breakpoint was set"
}

// moreRoom names the flag that would keep more profile points, if it would.
func (s *Session) moreRoom() string {
	if maxPoints(s.config.MaxMemory) == mostPoints {
		return ""
	}
	return ": a larger --max-memory keeps more"
}

// seeReceivers names the command that shows receivers, of the first file that has them all.
func seeReceivers(r manager.Report) string {
	file := keeperOf(r)
	if file == "" {
		return ""
	}
	return fmt.Sprintf(" (see 'ccmapd receivers %s')", terminal.ShellQuote(file))
}

// keeperOf returns the first file that has all calls that were caught or counted, "" if none has.
func keeperOf(r manager.Report) string {
	files := named(r.Written)
	i := slices.IndexFunc(files, func(f string) bool {
		return formatOf(f).HasAllPoints() || r.Values.Counted == 0 && formatOf(f).HasCaughtCalls()
	})
	if i < 0 {
		return ""
	}
	return files[i]
}

// valuesJSON has the fields of manager.ValueStats.
type valuesJSON struct {
	Caught  uint64 `json:"caught"`  // calls
	Sites   int    `json:"sites"`   // where they were caught
	Points  int    `json:"points"`  // of caught calls
	Bytes   int    `json:"bytes"`   // that the points take
	Evicted int    `json:"evicted"` // points that made room for others
	Lost    uint64 `json:"lost"`    // calls in none of the points any more
	Decayed int    `json:"decayed"` // times that a table was
	Reset   int    `json:"reset"`   // times that a table was
	Counted int    `json:"counted"` // call sites where the target's own profile counts calls
}
