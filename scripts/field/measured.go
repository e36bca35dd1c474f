package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/feedback/unitcost"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign measured runs 'ccmapd pgo measure' often, on servers whose requests differ by a loop of known cost.
const measuredPortion report.Portion = "scripts/field, measured"

const (
	measuredRuns    = 200
	measuredPeriods = 20
	measuredPeriod  = 125 * time.Millisecond
	requestRounds   = 500_000              // of a request's loop
	requestEvery    = 5 * time.Millisecond // the mean pause
	mostAnnounced   = 2 * time.Minute      // a noisy machine announces longer times
)

func runMeasured(ctx context.Context, f *field) error {
	began, runs, patience := time.Now(), measuredRuns, mostAnnounced
	if f.Quick {
		runs, patience = 4, 10*time.Second
	}
	if err := campaign.Build(ctx, f.Path("measured"), "./scripts/field/testdata/measured"); err != nil {
		return err
	}
	rounds, err := f.roundsOfOnePercent(ctx)
	if err != nil {
		return fmt.Errorf("find the rounds that are 1 %% of a request: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	known, slight := &trio{name: "5 %", more: 5 * rounds}, &trio{name: "1 %", more: rounds, patience: patience}
	for _, t := range []*trio{known, slight} {
		defer t.stop()
		if err := t.start(ctx, f); err != nil {
			return err
		}
	}
	if err := f.measureBoth(ctx, known, slight, runs); err != nil {
		return err
	}
	for _, t := range []*trio{known, slight} {
		if err := t.settle(ctx); err != nil {
			return err
		}
	}
	return f.Write(measuredPortion, measuredReport(known, slight, began))
}

// measureBoth measures a trio so many times, and a change of 1 % in the other one for as long as that takes.
func (f *field) measureBoth(ctx context.Context, known, slight *trio, runs int) error {
	done := make(chan struct{})
	var sides sync.WaitGroup
	var failed [2]error
	sides.Go(func() {
		defer close(done)
		for run := 0; run < runs && failed[0] == nil; run++ {
			if run%20 == 0 {
				f.Say("measured %d of %d times", run, runs)
			}
			_, failed[0] = f.measureTrio(ctx, known, measuredPeriods)
		}
	})
	sides.Go(func() {
		for failed[1] == nil {
			select {
			case <-done:
				return
			default:
				failed[1] = f.announced(ctx, slight)
			}
		}
	})
	sides.Wait()
	return errors.Join(failed[:]...)
}

// trio is three servers: two of them do the same work.
type trio struct {
	name     string // of the loop's part of a request
	more     int    // rounds of the loop
	servers  [trioSides]*unitServer
	effects  []effects // of short measurements
	patience time.Duration
	announce []announcement
	tooLong  int // announced times beyond patience, which were not measured

	loop, clocks, same float64 // what after and same differ from before by, all measurements together; percent
}

const (
	trioBefore = iota
	trioAfter
	trioSame
	trioSides
)

// start starts the servers, and their load.
func (t *trio) start(ctx context.Context, f *field) error {
	for side := range t.servers {
		more := 0
		if side == trioAfter {
			more = t.more
		}
		s, err := f.startUnits(ctx, more)
		if err != nil {
			return err
		}
		t.servers[side] = s
	}
	return nil
}

func (t *trio) stop() {
	for _, s := range t.servers {
		if s != nil {
			s.Stop()
		}
	}
}

// settle finds out what the servers differ by.
func (t *trio) settle(ctx context.Context) error {
	var all [trioSides]worked
	for side, s := range t.servers {
		now, err := s.worked(ctx)
		if err != nil {
			return err
		}
		all[side] = now.since(s.began)
	}
	before, after := all[trioBefore], all[trioAfter]
	t.loop = 100 * (after.added/after.requests - before.added/before.requests) / before.cost()
	t.clocks = 100 * (after.cost()/before.cost() - 1)
	t.same = 100 * (all[trioSame].cost()/before.cost() - 1)
	return nil
}

// unitServer is a server under load.
type unitServer struct {
	*campaign.Process
	address string
	began   worked
}

// startUnits starts a server whose requests have so many rounds more, and a client.
func (f *field) startUnits(ctx context.Context, more int) (*unitServer, error) {
	p, err := campaign.Launch{
		Command: []string{f.Path("measured"), strconv.Itoa(requestRounds), strconv.Itoa(more)}, Ready: serving,
	}.Start(ctx)
	if err != nil {
		return nil, err
	}
	s := &unitServer{Process: p, address: p.Ready[1]}
	go s.request(ctx)
	s.began, err = s.worked(ctx)
	return s, err
}

// request sends requests with random pauses. At a steady rate, which servers work at the same time would stay the same
// for minutes: where CPUs share a core, one of two equal servers then seems to cost more.
func (s *unitServer) request(ctx context.Context) {
	client := &http.Client{Transport: new(http.Transport)}
	for ctx.Err() == nil {
		pause(ctx, time.Duration(rand.ExpFloat64()*float64(requestEvery)))
		campaign.Fetch(ctx, client, "http://"+s.address, io.Discard) // a server that has ended fails its measurement
	}
}

func (s *unitServer) metrics() string { return "http://" + s.address + "/metrics" }

// worked is what a server has done.
type worked struct{ cpu, requests, added float64 } // CPU time and that of the loop in ns

// worked reads the server's clock and counters.
func (s *unitServer) worked(ctx context.Context) (worked, error) {
	var page bytes.Buffer
	if err := campaign.Fetch(ctx, http.DefaultClient, s.metrics(), &page); err != nil {
		return worked{}, err
	}
	requests, err1 := unitcost.ReadCounter(bytes.NewReader(page.Bytes()), "requests_total")
	added, err2 := unitcost.ReadCounter(bytes.NewReader(page.Bytes()), "added_ns_total")
	cpu, err3 := s.CPU()
	return worked{float64(cpu), float64(requests), float64(added)}, errors.Join(err1, err2, err3)
}

func (w worked) since(began worked) worked {
	return worked{w.cpu - began.cpu, w.requests - began.requests, w.added - began.added}
}

// cost returns the CPU time for a request.
func (w worked) cost() float64 { return w.cpu / w.requests }

// roundsOfOnePercent lets a server work for a while, to find how many rounds are 1 % of a request.
func (f *field) roundsOfOnePercent(ctx context.Context) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	const more = requestRounds / 10
	s, err := f.startUnits(ctx, more)
	if err != nil {
		return 0, err
	}
	defer s.Stop()
	pause(ctx, 3*time.Second)
	now, err := s.worked(ctx)
	if err != nil {
		return 0, err
	}
	w := now.since(s.began)
	return int(more * (w.cpu - w.added) / w.added / 100), nil
}

// effects is what 'pgo measure' says.
type effects struct {
	Effect, Same unitcost.Result
	Seconds      float64
	More         float64 `json:"more_seconds"`
}

// measureTrio measures a trio for so many periods.
func (f *field) measureTrio(ctx context.Context, t *trio, periods int) (e effects, err error) {
	args := []string{
		"pgo", "measure", "--json", "--per-metric", "requests_total", "--period", measuredPeriod.String(),
		"--duration", (time.Duration(periods) * measuredPeriod).String(),
	}
	for side, name := range []string{"before", "after", "same"} {
		s := t.servers[side]
		args = append(args, "--"+name, strconv.Itoa(s.PID()), "--"+name+"-url", s.metrics())
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, f.Ccmapd, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("measure: %w: %s", err, said.String())
	}
	if err := json.Unmarshal(out, &e); err != nil {
		return e, fmt.Errorf("read what pgo measure says: %w", err)
	}
	if periods == measuredPeriods {
		t.effects = append(t.effects, e)
	}
	return e, nil
}

// announcement is a time after which a change should show.
type announcement struct {
	periods int
	shown   bool
}

// announced measures briefly, and then for as long as that says.
func (f *field) announced(ctx context.Context, t *trio) error {
	e, err := f.measureTrio(ctx, t, measuredPeriods)
	if err != nil {
		return err
	}
	a := announcement{measuredPeriods, e.Effect.Low > 0}
	if e.More > 0 {
		a.periods += int(e.More / measuredPeriod.Seconds())
		if time.Duration(a.periods)*measuredPeriod > t.patience {
			t.tooLong++
			return nil
		}
		if e, err = f.measureTrio(ctx, t, a.periods); err != nil {
			return err
		}
		a.shown = e.Effect.Low > 0
	}
	t.announce = append(t.announce, a)
	return nil
}

// measuredCells returns a row of the table.
func (t *trio) measuredCells() []string {
	var loop, clocks, alarms int
	var half []float64
	for _, e := range t.effects {
		if e.Effect.Low <= t.loop && t.loop <= e.Effect.High {
			loop++
		}
		if e.Effect.Low <= t.clocks && t.clocks <= e.Effect.High {
			clocks++
		}
		if e.Same.Shown() {
			alarms++
		}
		half = append(half, (e.Effect.High-e.Effect.Low)/2)
	}
	n := len(t.effects)
	of := func(count int) string { return fmt.Sprintf("%d, %.1f %%", count, 100*float64(count)/float64(n)) }
	return []string{
		t.name, strconv.Itoa(n), fmt.Sprintf("%+.2f %%", t.loop), of(loop), fmt.Sprintf("%+.2f %%", t.clocks), of(clocks),
		fmt.Sprintf("%.2f", campaign.Median(half)), fmt.Sprintf("%+.2f %%", t.same), of(alarms),
	}
}

func announcedTime(periods []float64) string {
	return report.Seconds(campaign.Median(periods) * measuredPeriod.Seconds())
}

func measuredReport(known, slight *trio, began time.Time) string {
	table := report.Table{Head: []string{
		"the loop's part", "measurements", "it costs, by the threads' clocks", "intervals that hold it", "by all measurements together", "hold that", "half the width, points",
		"two processes of one build differ by", "intervals without 0",
	}}
	var periods []float64
	shown := 0
	for _, a := range slight.announce {
		periods = append(periods, float64(a.periods))
		if a.shown {
			shown++
		}
	}
	table.Row(known.measuredCells()...)
	table.Row(slight.measuredCells()...)
	var b strings.Builder
	fmt.Fprintf(&b, "%s It took %s; the load average, these servers included, was %.1f at the end.\n\n", report.Measured(began), report.Seconds(time.Since(began).Seconds()), report.LoadAverage())
	b.WriteString(table.String())
	fmt.Fprintf(&b, "\nThe change of 1 %% was shown in %d of %d measurements of the announced time, %s at the median.", shown, len(slight.announce), announcedTime(periods))
	if slight.tooLong > 0 {
		fmt.Fprintf(&b, " Another %d announced more than %v, and were not done.", slight.tooLong, slight.patience)
	}
	return b.String()
}
