package wasm

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler/managed"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// exportCall is a call of a guest's export.
type exportCall struct {
	guest    string
	function string
	params   []uint64
	stride   int // safe points a sample
}

func (c exportCall) String() string { return fmt.Sprintf("%s.%s%v", c.guest, c.function, c.params) }

// exportCalls are the calls of the small guests that end.
var exportCalls = []exportCall{
	{"fib", "fib", []uint64{12}, 1},
	{"mutual", "even", []uint64{9}, 1},
	{"multivalue", "collatz", []uint64{27}, 1},
	{"multivalue", "divmod", []uint64{27, 4}, 1},
	{"indirect", "run", []uint64{50}, 1},
	{"matrix", "run", []uint64{6, 2}, 1},
	{"callback", "run", []uint64{2}, 97}, // less work than any $work does
	{"brtable", "classify", []uint64{3}, 1},
	{"tailcalls", "even", []uint64{9}, 1},
	{"tailcalls", "sum", []uint64{9}, 1},
}

// runtimes are features of runtimes that safe points use.
var runtimes = map[string]api.CoreFeatures{
	"v1":    api.CoreFeaturesV1,
	"v2":    api.CoreFeaturesV2,
	"tails": api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall,
}

// exactCase is a call on a runtime with some of the features that safe points use.
type exactCase struct {
	exportCall
	features api.CoreFeatures
}

func exactCases() map[string]exactCase {
	cases := map[string]exactCase{}
	for _, c := range exportCalls {
		cases[c.String()] = exactCase{c, api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall}
		if c.guest != "tailcalls" {
			cases[c.String()+"/v2"] = exactCase{c, api.CoreFeaturesV2}
		}
		if c.guest == "fib" || c.guest == "mutual" || c.guest == "indirect" {
			cases[c.String()+"/v1"] = exactCase{c, api.CoreFeaturesV1}
		}
	}
	return cases
}

// With a sample at every safe point, each activation that reaches one, or calls another
// that does, is counted once, in its context and no other.
func TestActivationsAreExact(t *testing.T) {
	t.Parallel()
	for name, c := range exactCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := guests.Small(c.guest)
			p := newProfile(t, everySafePoint(c.stride), wazero.NewRuntimeConfigCompiler().WithCoreFeatures(c.features))
			provide(t, context.Background(), p.runtime, reenter)
			guest := p.instantiate(p.compile(binary))
			p.mark(guest)
			got, err := guest.ExportedFunction(c.function).Call(context.Background(), c.params...)

			tr, plain := newTruth(t, binary, reenter)
			tr.bare = p.bare()
			want, wantErr := plain.ExportedFunction(c.function).Call(context.Background(), c.params...)
			if diff := cmp.Diff(want, got); diff != "" || err != nil || wantErr != nil {
				t.Fatalf("results (-plain +sampled):\n%s%v, %v", diff, wantErr, err)
			}
			p.checkAtMost(tr.all)
			p.checkAtLeast(tr.found)
		})
	}
}

// However rarely samples are taken, and however many are dropped, no context counts more
// activations than it had.
func TestActivationsNeverExceedTheTrueOnes(t *testing.T) {
	t.Parallel()
	for _, c := range exportCalls {
		for _, words := range []int{64, 1 << 20} {
			t.Run(fmt.Sprintf("%v/ring=%d", c, words), func(t *testing.T) {
				t.Parallel()
				binary := guests.Small(c.guest)
				tr, plain := newTruth(t, binary, reenter)
				for range 2 {
					_, _ = plain.ExportedFunction(c.function).Call(context.Background(), c.params...)
				}
				o := everySafePoint(7 * c.stride)
				o.Sink.Queue = queue.New(queue.Options{RingWords: words})
				p := newProfile(t, o, compiling())
				provide(t, context.Background(), p.runtime, reenter)
				guest := p.instantiate(p.compile(binary))
				for range 2 {
					p.mark(guest)
					_, _ = guest.ExportedFunction(c.function).Call(context.Background(), c.params...)
				}
				p.checkAtMost(tr.all)
			})
		}
	}
}

// An entry that makes a tail call is not counted again at its end, by a late mark:
// another activation has taken its place.
func TestMarkBehindTailCall(t *testing.T) {
	t.Parallel()
	const calls, n = 20000, 900
	p := newProfile(t, Options{Options: managed.Options{Interval: -1}}, compiling())
	guest := p.instantiate(p.compile(guests.Small("tailcalls")))
	p.mark(guest)
	done := make(chan struct{})
	var marking sync.WaitGroup
	marking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				p.profiler.Mark(1000)
			}
		}
	})
	even := guest.ExportedFunction("even")
	for range calls {
		if _, err := even.Call(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	marking.Wait()
	p.checkAtMost(paths{"/even": calls * (n/2 + 1), "/odd": calls * (n/2 + 1)})
	if got := p.contexts(); len(got) > 2 {
		t.Errorf("contexts %v", got)
	}
}

// A guest that enters a function while it is marked may overwrite Limit. Limit is never
// less than the number of activations that samples have seen, or new ones would count as
// seen.
func TestLostLimit(t *testing.T) {
	t.Parallel()
	p := newProfile(t, everySafePoint(1), compiling())
	guest := p.instantiate(p.compile(guests.Small("fib")))
	p.mark(guest)
	in := p.profiler.instances.get(guest)
	for _, lost := range []bool{false, true} {
		in.mu.Lock()
		in.poll()
		if lost {
			in.limit.Set(0)
		}
		in.see(7)
		if in.limit.Get() < in.visited.Get() {
			t.Errorf("limit %d, visited %d", in.limit.Get(), in.visited.Get())
		}
		in.mu.Unlock()
	}
}
