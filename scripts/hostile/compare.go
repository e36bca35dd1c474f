package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// compareCommand makes this program a worker of the campaign modules. Its arguments are
// SEED MUTATION FROM TO FILE.
const compareCommand = "compare-mutants"

// Times are of the thread's own CPU clock, because other programs may keep the machine busy.
const (
	plainTime   = 50 * time.Millisecond // then a mutant is one that does not end
	lateTime    = 50 * time.Millisecond // of such a mutant under the profiler
	sampledTime = 30 * time.Second      // a mutant that ends takes no longer under the profiler
	exactTime   = 2 * time.Second       // a mutant that calls all the time takes long
)

// verdict is the result of a mutant.
type verdict string

const (
	begun      verdict = "begun"   // no result yet
	plainEnded verdict = "plain"   // wazero alone has run it
	refused    verdict = "refused" // both ways
	same       verdict = "alike"
	endless    verdict = "endless" // plain wazero cannot end it
	broken     verdict = "broken"  // wazero itself panics
	crashed    verdict = "crashed" // the worker ended in the profiler
	beyond     verdict = "beyond"  // a limit that ccmapd documents
	differs    verdict = "differs"
)

// result is a line that a worker writes about a mutant, before it and after it.
type result struct {
	Number  int
	Base    string
	Verdict verdict
	Detail  string

	Exact    bool          // every call is recorded, none sampled
	Calls    int           // that were compared
	Trapped  bool          // a call did
	Late     bool          // does not end, and was compared as far as it came
	Samples  uint64        // or calls that were recorded
	Took     time.Duration // profiled, from compilation to the end
	Held     uint64        // plain, most resident memory, bytes
	Profiled uint64        // the same of the profiled one
}

// compareAll is the worker: it runs mutants plain and profiled, and writes results.
func compareAll(args []string, stdout io.Writer) error {
	if len(args) != 5 {
		return errors.New("want SEED MUTATION FROM TO FILE")
	}
	seed, err := strconv.ParseUint(args[0], 10, 64)
	from, err1 := strconv.Atoi(args[2])
	to, err2 := strconv.Atoi(args[3])
	bases, err3 := loadBases(args[4])
	i := slices.IndexFunc(mutations(), func(k mutation) bool { return k.name == args[1] })
	if err := errors.Join(err, err1, err2, err3); err != nil || i < 0 {
		return fmt.Errorf("mutation %q: %w", args[1], err)
	}
	out := json.NewEncoder(stdout)
	for n := from; n < to; n++ {
		r := result{Number: n, Exact: n/2%4 == 3}
		tell := func(v verdict) error {
			r.Verdict = v
			return out.Encode(r)
		}
		if err := tell(begun); err != nil { // wazero may not survive a mutant that is being made
			return err
		}
		var mutant []byte
		r.Base, mutant = mutations()[i].mutant(bases, seed, n)
		if err := r.compare(mutant, tell); err != nil {
			return err
		}
	}
	return nil
}

// compare runs a mutant both ways, and tells of each step.
func (r *result) compare(mutant []byte, tell func(verdict) error) error {
	plain := observe(mutant, plainTime, nil, nil)
	if err := tell(plainEnded); err != nil {
		return err
	}
	most := sampledTime
	switch {
	case plain.late:
		most = lateTime
	case r.Exact:
		most = exactTime
	}
	options := managed.Options{Interval: -1, HitBudget: 1e6, Burst: managed.Burst{Samples: 16, Stride: 1 + r.Number%50}}
	profiled := observe(mutant, most, plain.calls, &wasm.Options{Options: options, Exact: r.Exact})
	r.Held, r.Profiled, r.Took, r.Samples = plain.held, profiled.held, profiled.took, profiled.samples
	r.Trapped, r.Late = plain.trapped, plain.late || profiled.late
	return tell(r.judge(plain, profiled))
}

// judge compares two answers.
func (r *result) judge(plain, profiled answer) verdict {
	switch {
	case profiled.panicked != "":
		r.Detail = profiled.panicked
		return differs
	case plain.panicked != "":
		return broken
	case plain.refused != "" && profiled.refused != "":
		return refused
	case plain.refused == "" && documented.MatchString(profiled.refused):
		return beyond
	case (plain.refused == "") != (profiled.refused == ""):
		r.Detail = fmt.Sprintf("plain %q, profiled %q", plain.refused, profiled.refused)
		return differs
	case !plain.late && profiled.late && !r.Exact:
		r.Detail = "does not end"
		return differs
	}
	if plain.late || profiled.late || plain.overflowed && profiled.overflowed { // stacks of different frames overflow at different depths
		common := min(len(plain.said), len(profiled.said))
		plain.said, profiled.said = plain.said[:common], profiled.said[:common]
	}
	r.Calls = len(plain.said)
	if i, ok := differing(plain.said, profiled.said); ok {
		r.Detail = fmt.Sprintf("step %d: plain %q, profiled %q", i, said(plain.said, i), said(profiled.said, i))
		return differs
	}
	return same
}

// differing finds the first difference of two lists.
func differing(a, b []string) (at int, ok bool) {
	common := min(len(a), len(b))
	for i := range common {
		if a[i] != b[i] {
			return i, true
		}
	}
	return common, len(a) != len(b)
}

// said is a step, or nothing where a list has ended.
func said(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// documented are refusals of the rewriter that its documentation names.
var documented = regexp.MustCompile(`(parameters or results|elements|locals), more than|more than \d+ blocks nested`)
