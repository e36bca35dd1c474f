package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/sampler"
)

// troubles are the counters that say what went wrong with threads that sample themselves.
var troubles = []struct {
	counter     sampler.Counter
	thing, went string
}{
	{sampler.LateMarks, "mark", "of %s came late"},
	{sampler.Unsafe, "thread", "reached no safe point for a second or more"},
	{sampler.Panicked, "thread", "could not be walked, and sampled no more"},
	{sampler.Abandoned, "thread", "ended without a word"},
}

// reportTroubles says what went wrong with threads that sample themselves, if anything
// did.
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

// sourceJSON says what a source did: its counters, by their keys, and two facts between
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
