package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// modulesCampaign runs mutated modules under the profiler and in plain wazero, in workers
// of this program. Both must give the same answer.
var modulesCampaign = kind{
	name:  "modules",
	about: "run mutated WebAssembly modules, profiled and plain, and compare",
	example: `  go -C scripts run ./hostile modules           5,000 mutants, some minutes
  go -C scripts run ./hostile modules -resume   only those that the work folder has no results of
  go -C scripts run ./hostile modules -quick    some of each mutation`,
	head: []string{"mutation", "mutants", "refused by both", "refused by a documented limit", "run by both", "trap", "do not end", "sampled", "recorded",
		"calls compared", "wazero fails or hangs", "answers differ", "crashes and hangs", "longest", "memory, plain", "memory, profiled"},
	flags: func(flags *flag.FlagSet) {
		flags.BoolVar(&modulesResume, "resume", false, "keep the results of a run of this tree that was interrupted")
	},
	run: runModules,
}

// modulesResume is the campaign's own flag.
var modulesResume bool

const (
	mutantsOfWorker = 100
	quickMutants    = 40        // as many times fewer
	workerTime      = time.Hour // a worker that waits for ever
	workerAddresses = 4 << 30   // wazero and Go reserve much
	mostMutantTime  = sampledTime
	mostMutantsHold = 1 << 30 // resident, bytes
)

// runModules adds a row for each mutation. A run that is interrupted has rows of the mutants that it came to.
func runModules(ctx context.Context, h *hostile) error {
	program, err := guests.C(ctx, "parse", true)
	if err != nil {
		return err
	}
	bases, err := loadBases(program)
	if err != nil {
		return err
	}
	for _, k := range mutations() {
		if !h.wants(k.name) {
			continue
		}
		if h.Quick {
			k.rounds /= quickMutants
		}
		m, err := newMutated(h, k, bases, modulesResume)
		if err != nil {
			return err
		}
		m.program = program
		failed := m.all(ctx)
		if len(m.done) > 0 {
			h.add(m.row())
		}
		if failed != nil && ctx.Err() == nil {
			return failed
		}
	}
	return ctx.Err()
}

// mutated is the mutants of a mutation, and their results.
type mutated struct {
	*hostile
	mutation
	program string
	bases   []base

	mu       sync.Mutex // of all below
	results  *os.File
	done     map[int]bool
	verdicts map[verdict]int
	trapped  int
	late     int
	sampled  int
	recorded int
	calls    int
	misses   []string
	longest  time.Duration
	plain    uint64 // most memory
	profiled uint64
}

// newMutated has the results of an earlier run, if the user resumes it, and otherwise none.
func newMutated(h *hostile, k mutation, bases []base, resume bool) (*mutated, error) {
	m := &mutated{hostile: h, mutation: k, bases: bases, done: map[int]bool{}, verdicts: map[verdict]int{}}
	mode := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if !resume {
		mode |= os.O_TRUNC
	}
	var err error
	if m.results, err = os.OpenFile(m.Path(fmt.Sprintf("results-%d-%s.json", m.seed, m.file())), mode, 0o600); err != nil {
		return nil, fmt.Errorf("keep results: %w", err)
	}
	for d := json.NewDecoder(m.results); d.More(); {
		var r result
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("read results of an earlier run from %s (delete it to begin anew): %w", m.results.Name(), err)
		}
		m.add(r)
	}
	return m, nil
}

// all runs workers until there is no mutant left, as many at a time as there are CPUs.
func (m *mutated) all(ctx context.Context) error {
	defer m.results.Close()
	var working sync.WaitGroup
	failed := make([]error, runtime.NumCPU())
	for i := range failed {
		working.Go(func() {
			failed[i] = m.some(ctx, i*m.rounds/len(failed), (i+1)*m.rounds/len(failed))
		})
	}
	working.Wait()
	return errors.Join(failed...)
}

// some runs one worker after the other for the mutants of these numbers.
func (m *mutated) some(ctx context.Context, from, end int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for from < end && ctx.Err() == nil {
		to := m.stretch(from, end)
		if to == from {
			from++
			continue
		}
		o, err := m.child(ctx, limits{memory: workerAddresses, time: workerTime}, self, compareCommand,
			strconv.FormatUint(m.seed, 10), m.name, strconv.Itoa(from), strconv.Itoa(to), m.program)
		if err != nil {
			return err
		}
		if from, err = m.count(o, to, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// stretch returns the end of the next mutants without a result.
func (m *mutated) stretch(from, end int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := from
	for to < min(from+mutantsOfWorker, end) && !m.done[to] {
		to++
	}
	return to
}

// file returns the mutation's name as a part of names of files.
func (m *mutated) file() string { return strings.ReplaceAll(m.name, " ", "-") }

// count counts the results of a worker, and returns the number of the next mutant. A worker that was
// interrupted is to blame for nothing.
func (m *mutated) count(o outcome, to int, interrupted error) (next int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var last result
	for d := json.NewDecoder(strings.NewReader(o.stdout)); d.More(); {
		last = result{}
		if err := d.Decode(&last); err != nil {
			return 0, fmt.Errorf("read the results of a worker: %w", err)
		}
		if last.Verdict != begun && last.Verdict != plainEnded {
			m.keep(last)
		}
	}
	switch {
	case interrupted != nil:
		return 0, interrupted
	case last.Verdict == begun && o.signal == syscall.SIGKILL && !o.timedOut: // by its deadline, in plain wazero
		last.Verdict = endless
		m.keep(last)
	case last.Verdict == begun:
		last.Verdict = broken
		m.keep(last)
	case last.Verdict == plainEnded:
		last.Verdict, last.Detail = crashed, "the worker "+o.how()+": "+tail(o.stderr)
		m.keep(last)
	case last.Number != to-1 || last.Verdict == "" || o.code != 0:
		return 0, fmt.Errorf("worker: %s\n%s", o.how(), tail(o.stderr))
	}
	return last.Number + 1, nil
}

// keep counts a result, and writes it to the file.
func (m *mutated) keep(r result) {
	m.add(r)
	if err := json.NewEncoder(m.results).Encode(r); err != nil {
		m.Say("keep results: %v", err)
	}
}

// add counts a result.
func (m *mutated) add(r result) {
	m.done[r.Number] = true
	m.verdicts[r.Verdict]++
	if r.Verdict == differs || r.Verdict == crashed {
		m.finding(r)
	}
	m.calls += r.Calls
	m.longest = max(m.longest, r.Took)
	m.plain, m.profiled = max(m.plain, r.Held), max(m.profiled, r.Profiled)
	for _, c := range []struct {
		count *int
		is    bool
	}{
		{&m.trapped, r.Trapped},
		{&m.late, r.Late},
		{&m.sampled, r.Samples > 0 && !r.Exact},
		{&m.recorded, r.Samples > 0 && r.Exact},
	} {
		if c.is {
			*c.count++
		}
	}
}

// finding keeps the mutant, and says how it was made.
func (m *mutated) finding(r result) {
	_, mutant := m.mutant(m.bases, m.seed, r.Number)
	file := m.Path(fmt.Sprintf("mutant-%d-%s-%d.wasm", m.seed, m.file(), r.Number))
	err := os.WriteFile(file, mutant, 0o600)
	if err != nil {
		m.Say("%v", err)
	}
	m.misses = append(m.misses, fmt.Sprintf("mutant %d of %s (seed %d, exact %t), in %s: %s", r.Number, r.Base, m.seed, r.Exact, file, r.Detail))
	m.Say("%s", m.misses[len(m.misses)-1])
}

// row fills in the row, and its misses.
func (m *mutated) row() row {
	r := row{cells: []string{m.name}, misses: m.misses, harmed: len(m.misses) > 0}
	v := m.verdicts
	for _, n := range []int{len(m.done), v[refused], v[beyond], v[same], m.trapped, m.late, m.sampled, m.recorded, m.calls, v[broken] + v[endless], v[differs], v[crashed]} {
		r.cells = append(r.cells, strconv.Itoa(n))
	}
	r.cells = append(r.cells, report.Seconds(m.longest.Seconds()), formatSize(m.plain), formatSize(m.profiled))
	if m.longest > mostMutantTime {
		r.late("a mutant took %v, want %v at most", m.longest, mostMutantTime)
	}
	if m.profiled > mostMutantsHold {
		r.miss("%s of memory, want %s at most", formatSize(m.profiled), formatSize(mostMutantsHold))
	}
	return r
}
