package wasm

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/table"

	"github.com/ccmapd/ccmapd/queue"
)

// wander is testdata/wander.wat, and wanderPlain the same without tail calls.
//
//go:generate wat2wasm --debug-names --enable-tail-call testdata/wander.wat -o testdata/wander.wasm
//go:generate sh -c "sed s/return_call/call/ testdata/wander.wat | wat2wasm --debug-names - -o testdata/wander-plain.wasm"
var (
	//go:embed testdata/wander.wasm
	wander []byte
	//go:embed testdata/wander-plain.wasm
	wanderPlain []byte
)

// guide is a host that sends the guest wander about at random. The same seed and a
// correct guest give the same way.
type guide struct {
	chance *rand.Rand
	asked  int      // by the outermost call
	nested int      // unfinished calls back
	log    []string // how calls ended
}

const (
	mostAsked  = 150
	mostNested = 2 // or stacks become deeper than truth counts
)

var errWander = errors.New("lost")

// ask answers the guest's question for its next step.
func (g *guide) ask(ctx context.Context, guest api.Module, _ int32) int32 {
	g.asked++
	if g.asked > mostAsked {
		return 0
	}
	g.tell(ctx, guest, 0)
	return []int32{0, 0, 2, 2, 3, 4, 4, 4, 5, 5, 5, 5, 1}[g.chance.IntN(13)]
}

// tell calls back up to three times, hides errors there, and may panic.
func (g *guide) tell(ctx context.Context, guest api.Module, _ int32) {
	for range max(g.chance.IntN(7)-3, 0) {
		g.callBack(ctx, guest)
	}
	if g.nested > 0 && g.chance.IntN(20) == 0 {
		panic(errWander)
	}
}

func (g *guide) callBack(ctx context.Context, guest api.Module) {
	if g.nested == mostNested || g.asked > mostAsked {
		return
	}
	f := guest.ExportedFunction([]string{"step", "step", "go", "work"}[g.chance.IntN(4)])
	if g.chance.IntN(5) == 0 {
		one := []api.ValueType{api.ValueTypeI32}
		f = table.LookupFunction(guest, 0, uint32(g.chance.IntN(4)), one, one)
	}
	g.nested++
	defer func() { g.nested-- }()
	g.call(ctx, f)
}

// call calls a function of the guest, and notes how that ended.
func (g *guide) call(ctx context.Context, f api.Function) {
	results, err := f.Call(ctx, uint64(g.chance.IntN(4)))
	g.log = append(g.log, fmt.Sprint(results, err != nil, errors.Is(err, errWander)))
}

// run calls the guest from outside several times. before is called before each.
func (g *guide) run(guest api.Module, seed uint64, before func()) {
	g.chance = rand.New(rand.NewPCG(seed, 0))
	for range 4 {
		g.asked, g.nested = 0, 0
		before()
		g.call(context.Background(), guest.ExportedFunction([]string{"step", "go"}[g.chance.IntN(2)]))
	}
}

// provide instantiates what the guest imports.
func (g *guide) provide(t *testing.T, ctx context.Context, r wazero.Runtime) {
	t.Helper()
	_, err := r.NewHostModuleBuilder("env").
		NewFunctionBuilder().WithFunc(g.ask).Export("ask").
		NewFunctionBuilder().WithFunc(g.tell).Export("tell").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
}

// However a host calls back, whatever errors it hides, and wherever samples are taken, no
// activation is counted twice, or in a wrong context.
func TestWandering(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	for name, features := range runtimes {
		for _, stride := range []int{1, 7, 97} {
			for _, words := range []int{64, 1 << 18} {
				t.Run(fmt.Sprintf("%s/stride=%d/ring=%d", name, stride, words), func(t *testing.T) {
					t.Parallel()
					for seed := range uint64(4) {
						checkWandering(t, features, stride, words, seed)
					}
				})
			}
		}
	}
}

func checkWandering(t *testing.T, features api.CoreFeatures, stride, words int, seed uint64) {
	t.Helper()
	binary := wanderPlain
	if features.IsEnabled(experimental.CoreFeaturesTailCall) {
		binary = wander
	}
	var g, plain guide
	o := everySafePoint(stride)
	o.Sink.Queue = queue.New(queue.Options{RingWords: words})
	p := newProfile(t, o, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features))
	g.provide(t, context.Background(), p.runtime)
	guest := p.instantiate(p.compile(binary))
	g.run(guest, seed, func() { p.mark(guest) })

	tr := &truth{all: paths{}, found: paths{}}
	ctx := experimental.WithFunctionListenerFactory(context.Background(), tr)
	plain.run(newWanderer(t, ctx, binary, &plain), seed, func() {})
	if diff := cmp.Diff(plain.log, g.log); diff != "" {
		t.Fatalf("seed %d: calls ended (-plain +sampled):\n%s", seed, diff)
	}
	p.checkAtMost(tr.all)
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}

// newWanderer returns an instance of the guest as it is.
func newWanderer(t *testing.T, ctx context.Context, binary []byte, g *guide) api.Module {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(ctx, compiling())
	t.Cleanup(func() { r.Close(ctx) })
	g.provide(t, ctx, r)
	c, err := r.CompileModule(ctx, binary)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := r.InstantiateModule(ctx, c, anonymous())
	if err != nil {
		t.Fatal(err)
	}
	return guest
}
