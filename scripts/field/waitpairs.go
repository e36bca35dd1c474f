package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// pairedHead heads the table of costs: windows with a session of waits beside windows without, and without beside without.
// A server's clients ask again as soon as they are answered.
var pairedHead = []string{"server", "windows", "pairs", "requests a second, %", "its own mean, %", "CPU time of a request, %"}

// throughput is what a server did in a window.
type throughput struct{ rate, mean, cpu float64 }

// serve watches a server for a window.
func (w waiter) serve(ctx context.Context, f *field, p *campaign.Process) (throughput, error) {
	sum, count, err1 := w.read(ctx)
	used, err2 := p.CPU()
	began := time.Now()
	pause(ctx, f.pairWindow())
	took := time.Since(began).Seconds()
	usedAfter, err3 := p.CPU()
	sumAfter, countAfter, err4 := w.read(ctx)
	n := countAfter - count
	if err := errors.Join(err1, err2, err3, err4); err != nil || n == 0 {
		return throughput{}, errors.Join(err, errors.New("no requests"))
	}
	return throughput{n / took, (sumAfter - sum) / n, (usedAfter - used).Seconds() / n}, nil
}

// pairWindow is how long each window of a pair is.
func (f *field) pairWindow() time.Duration {
	if f.Quick {
		return 500 * time.Millisecond
	}
	return time.Second
}

// pairSettle is how long a session has to begin before its window. What that costs is in the table of ccmapd's own use.
func (f *field) pairSettle() time.Duration {
	if f.Quick {
		return 500 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

// pairWaiter returns two rows: the windows of 'ccmapd attach --event wait' beside the mean of the windows before and
// after, and these beside each other.
func (f *field) pairWaiter(ctx context.Context, w waiter, pairs int) (rows [][]string, err error) {
	p, stop, err := w.settle(ctx, f)
	if err != nil {
		return nil, err
	}
	defer stop()
	file := f.Path("profiles", "waiting", w.name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	var with, nothing ratios
	before, err := w.serve(ctx, f, p)
	if err != nil {
		return nil, err
	}
	for range pairs {
		s, err := f.Attach(ctx, p.PID(), "", file, "--event", "wait")
		if err != nil {
			return nil, err
		}
		pause(ctx, f.pairSettle())
		sampled, err1 := w.serve(ctx, f, p)
		_, err2 := s.End()
		after, err3 := w.serve(ctx, f, p)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		with.add(sampled, before, after)
		last, err := w.serve(ctx, f, p)
		if err != nil {
			return nil, err
		}
		nothing.add(after, before, last)
		before = last
	}
	return [][]string{with.cells(w.about, "sampled, beside not"), nothing.cells("", "not, beside not")}, nil
}

// ratios are of pairs: by how many percent a window has more than the two around it.
type ratios struct{ rate, mean, cpu []float64 }

func (r *ratios) add(s, before, after throughput) {
	more := func(of func(throughput) float64) float64 { return 100 * (2*of(s)/(of(before)+of(after)) - 1) }
	r.rate = append(r.rate, more(func(s throughput) float64 { return s.rate }))
	r.mean = append(r.mean, more(func(s throughput) float64 { return s.mean }))
	r.cpu = append(r.cpu, more(func(s throughput) float64 { return s.cpu }))
}

// cells returns the cells of a row, with the 95 % intervals of trimmed means.
func (r *ratios) cells(about, windows string) []string {
	cells := []string{about, windows, fmt.Sprint(len(r.rate))}
	for _, v := range [][]float64{r.rate, r.mean, r.cpu} {
		m := campaign.TrimmedMeanOf(v)
		cells = append(cells, fmt.Sprintf("%+.1f ± %s", m.Middle, report.Number(m.Half(), 1)))
	}
	return cells
}
