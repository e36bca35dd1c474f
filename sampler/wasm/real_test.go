package wasm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/testdata/guests"
	"github.com/ccmapd/ccmapd/testdata/guests/guesttest"
)

// Real guests, sampled by the clock, print the same as without the profiler. Their
// contexts are whole, and positions known, with lines where the guest has DWARF.
func TestRealGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("builds guests")
	}
	for _, g := range []struct {
		guests.Guest
		root  string
		lines bool
	}{
		{guests.Shapes(5), "_start", true},
		{guests.Queens(5), "_rt0_wasm_wasip1", false},
	} {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			binary := guesttest.Module(t, g.Guest)
			ctx := context.Background()
			r := wazero.NewRuntimeWithConfig(ctx, compiling())
			defer r.Close(ctx)
			p := &profile{TB: t, runtime: r, profiler: New(r, Options{Options: managed.Options{Interval: time.Millisecond}})}
			p.folded = ccmap.New(ccmap.Options{Names: p.profiler.Sink().Names})
			c := p.compile(binary)
			if err := guests.Host(ctx, r, c); err != nil {
				t.Fatal(err)
			}
			stop := p.start()
			for p.profiler.Stats().Counts[sampler.Samples] < 20 {
				out, err := g.Run(ctx, r, c)
				if err != nil || out != g.Want {
					t.Fatalf("%v; printed %.200q, want %.200q", err, out, g.Want)
				}
			}
			stop()
			p.checkFrames(g.root, g.lines)
		})
	}
}

// start runs the profiler and folds its samples until the returned function is called.
func (p *profile) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over, folded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		p.profiler.Run(ctx)
	}()
	go func() {
		defer close(folded)
		q := p.profiler.Sink().Queue
		for {
			select {
			case <-q.Ready():
				q.Drain(p.fold)
			case <-over:
				q.Drain(p.fold)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-folded
	}
}

// checkFrames checks that all contexts begin at the root, and that frames have positions.
func (p *profile) checkFrames(root string, lines bool) {
	p.Helper()
	s := p.folded.Snapshot()
	if loss := s.Meta().Loss; loss != (ccmap.Loss{}) {
		p.Errorf("lost %+v", loss)
	}
	for path := range activations(s) {
		if outermost, _, _ := strings.Cut(path[1:], "/"); !strings.HasPrefix(path[1:], root) {
			p.Errorf("a context begins with %s", outermost)
		}
	}
	known, withLine := 0, 0
	methods := make([]ccmap.MethodID, s.Len())
	for n := range s.Nodes() {
		methods[n.ID] = n.Method
	}
	for n := range s.Nodes() {
		if n.ID == 0 || n.Offset == ccmap.NoOffset {
			continue
		}
		site := ccmap.Frame{Method: methods[n.Parent], Offset: n.Offset}
		known++
		if s.Names().Line(site) > 0 {
			withLine++
		}
	}
	if known == 0 || lines && withLine < known/2 {
		p.Errorf("%d call sites, %d of them with a line", known, withLine)
	}
}
