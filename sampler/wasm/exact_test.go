package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// fibonacci returns fib(n), with fib(1) = fib(2) = 1.
func fibonacci(n int) int64 {
	a, b := int64(0), int64(1)
	for range n {
		a, b = b, a+b
	}
	return a
}

// fib(n) makes 2·fib(n+1)−1 calls: fib(n+1) of them return at once, after 5
// instructions; all others make two calls, in 13.
func TestExactFibonacci(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	const n = 20
	s, err := record(t, guests.Small("fib"), "fib", n)
	if err != nil {
		t.Fatal(err)
	}
	ends := fibonacci(n + 1)
	all := 2*ends - 1
	want := ccmap.Counters{Samples: all, Activations: all, Time: 5*ends + 13*(all-ends)}
	if got := s.Total(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestExactProfileSaysInstructions, also to a program that embeds the profiler.
func TestExactProfileSaysInstructions(t *testing.T) {
	t.Parallel()
	for exact, want := range map[bool]ccmap.Meta{
		true:  {Unit: ccmap.Instructions, Engine: "wasm, exact"},
		false: {Unit: ccmap.CPUTime, Engine: "wasm"},
	} {
		runtime := wazero.NewRuntime(t.Context())
		defer runtime.Close(t.Context())
		p := New(runtime, Options{Exact: exact})
		defer p.Close(t.Context())
		session, err := manager.Start(t.Context(), manager.Config{Source: p})
		if err != nil {
			t.Fatal(err)
		}
		report, err := session.Stop()
		if err != nil {
			t.Fatal(err)
		}
		meta := report.Snapshot.Meta()
		if meta.Unit != want.Unit || meta.Engine != want.Engine || exact != (p.Stats().Interval == 0) {
			t.Errorf("exact %t: unit %v, engine %q, interval %v", exact, meta.Unit, meta.Engine, p.Stats().Interval)
		}
	}
}

// ackermann exports ack(m, n). It is the output of wat2wasm for:
//
//	(func $ack (export "ack") (param $m i32) (param $n i32) (result i32)
//	  (if (result i32) (i32.eqz (local.get $m))
//	    (then (i32.add (local.get $n) (i32.const 1)))
//	    (else (if (result i32) (i32.eqz (local.get $n))
//	      (then (call $ack (i32.sub (local.get $m) (i32.const 1)) (i32.const 1)))
//	      (else (call $ack (i32.sub (local.get $m) (i32.const 1))
//	        (call $ack (local.get $m) (i32.sub (local.get $n) (i32.const 1)))))))))
const ackermann = "0061736d0100000001070160027f7f017f030201000707010361636b00000a30012e00200045047f200141016a05200145047f200041016b4101100005200041016b2000200141016b100010000b0b0b"

// ack(2, n) makes 2n²+7n+5 calls.
func TestExactAckermann(t *testing.T) {
	t.Parallel()
	module, err := hex.DecodeString(ackermann)
	if err != nil {
		t.Fatal(err)
	}
	const n = 30
	s, err := record(t, module, "ack", 2, n)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Total().Activations, int64(2*n*n+7*n+5); got != want {
		t.Errorf("%d calls, want %d", got, want)
	}
}

// Of every 7 calls at one site 4 reach a square, 2 a circle and 1 a triangle.
func TestExactIndirectCalls(t *testing.T) {
	t.Parallel()
	const rounds = 100
	s, err := record(t, guests.Small("indirect"), "run", 7*rounds)
	if err != nil {
		t.Fatal(err)
	}
	square, circle, triangle, churn, pick := "square", "circle", "triangle", "churn", "pick"
	want := map[string]int64{"$5": 1, square: 4 * rounds, circle: 2 * rounds, triangle: rounds, churn: 7 * rounds, pick: 7 * rounds}
	if diff := cmp.Diff(want, byMethod(s)); diff != "" {
		t.Errorf("calls by method (-want +got):\n%s", diff)
	}
	// churn executes 12 instructions in each of its 32 rounds, and two before.
	if work := methodNamed(t, s, churn); work.Self().Time != 7*rounds*(2+32*12) {
		t.Errorf("%d instructions in %s, want %d", work.Self().Time, churn, 7*rounds*(2+32*12))
	}
	run := methodNamed(t, s, "$5")
	var sites []map[string]int64
	for site := range run.CallSites() {
		reached := make(map[string]int64)
		for callee := range site.Callees() {
			reached[s.Names().At(callee.Callee()).Name] = callee.Ref().Total().Activations
		}
		sites = append(sites, reached)
	}
	wantSites := []map[string]int64{
		{pick: 7 * rounds},
		{square: 4 * rounds, circle: 2 * rounds, triangle: rounds},
	}
	if diff := cmp.Diff(wantSites, sites); diff != "" {
		t.Errorf("callees by call site (-want +got):\n%s", diff)
	}
}

// Tail calls replace their callers.
func TestExactTailCalls(t *testing.T) {
	t.Parallel()
	s, err := record(t, guests.Small("tailcalls"), "even", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"even": 501, "odd": 500}, calls(s)); diff != "" {
		t.Errorf("calls by stack (-want +got):\n%s", diff)
	}
}

// A trap ends all activations, and the instance lives on.
func TestExactTraps(t *testing.T) {
	t.Parallel()
	for _, export := range []string{
		"unreachable", "divide_by_zero", "overflow", "conversion", "memory_load", "memory_fill", "table_bounds", "type_mismatch", "null_entry",
	} {
		h := newExactHost(t, guests.Small("traps"))
		m := h.instantiate(t)
		for range 2 {
			if call(t, m, export) == nil {
				t.Errorf("%s does not trap", export)
			}
			if err := call(t, m, "fine"); err != nil {
				t.Error(err)
			}
		}
		if all := calls(h.finish(t)); sum(all) != 2*3+2*2 || len(all) != 3+2 {
			t.Errorf("%s: calls by stack: %v, want 3 that trap and 2 that return", export, all)
		}
	}
}

func sum(all map[string]int64) (n int64) {
	for _, v := range all {
		n += v
	}
	return n
}

// deep is a module with a function f that calls itself without end. It passes on so many
// parameters that its stack overflows soon.
func deep() []byte {
	const params = 100
	section := func(id byte, content ...byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
	}
	body := []byte{0} // no locals
	for i := range byte(params) {
		body = append(body, 0x20, i) // local.get
	}
	body = append(body, 0x10, 0, 0x0b) // call itself, end
	code := append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)
	function := append([]byte{1, 0x60, params}, bytes.Repeat([]byte{0x7e}, params)...) // of i64
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, append(function, 0)...), section(3, 1, 0), section(7, 1, 1, 'f', 0, 0), section(10, code...))
}

// shared is a module with a function f that calls another through a table, and exports
// the table.
func shared() []byte {
	section := func(id byte, content ...byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 1, 0x60, 0, 0), section(3, 2, 0, 0), section(4, 1, 0x70, 0, 1),
		section(7, 2, 1, 'f', 0, 0, 1, 't', 1, 0), section(9, 1, 0, 0x41, 0, 0x0b, 1, 1),
		section(10, 2, 7, 0, 0x41, 0, 0x11, 0, 0, 0x0b, 9, 0, 0x03, 0x40, 0x41, 0, 0x0d, 0, 0x0b, 0x0b))
}

// Other modules may call through an exported table. Positions still show the callers.
func TestExactSharedTable(t *testing.T) {
	t.Parallel()
	s, err := record(t, shared(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"$0": 1, "$0@3 $1": 1}, calls(s)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// wazero reports no end after a stack overflow. Later calls are still not counted below
// the overflowed ones.
func TestExactStackOverflow(t *testing.T) {
	t.Parallel()
	h := newExactHost(t, deep())
	m := h.instantiate(t)
	params := make([]uint64, 100)
	var reached []int64
	for range 2 {
		if err := call(t, m, "f", params...); err == nil {
			t.Fatal("the stack does not overflow")
		}
		reached = append(reached, int64(m.ExportedGlobal(rewrite.DepthGlobal).Get()))
	}
	all := h.finish(t)
	if got := all.Total().Activations; got != reached[0]+reached[1] {
		t.Errorf("%d calls, want %d", got, reached)
	}
	for n := range all.Nodes() {
		if n.ID != 0 && n.Method != ccmap.NoMethod && n.Parent == 0 && n.Self.Activations != 2 {
			t.Errorf("%d calls from outside, want 2", n.Self.Activations)
		}
	}
}

// A host function that calls back stands between the guest's activations.
func TestExactCallback(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	const depth = 50
	s, err := record(t, guests.Small("callback"), "run", depth)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"$4": 1, "$3": depth + 1, "leave": depth + 1, "work": 2 * (depth + 1), "env.callback": depth + 1}
	if diff := cmp.Diff(want, byMethod(s)); diff != "" {
		t.Errorf("calls by method (-want +got):\n%s", diff)
	}
	deepest := 0
	for path := range calls(s) {
		deepest = max(deepest, strings.Count(path, "@")+1)
	}
	if want := 1 + 3*(depth+1) + 1; deepest != want {
		t.Errorf("deepest stack has %d frames, want %d", deepest, want)
	}
}

// An exit from a thousand calls deep ends them all.
func TestExactExit(t *testing.T) {
	t.Parallel()
	s, err := record(t, guests.Small("exit"), "exit", 1000, 3)
	if err == nil {
		t.Error("no error from proc_exit")
	}
	if diff := cmp.Diff(map[string]int64{"descend": 1001, "wasi_snapshot_preview1.proc_exit": 1}, byMethod(s)); diff != "" {
		t.Errorf("calls by method (-want +got):\n%s", diff)
	}
}

// An endless loop that a deadline ends is recorded with all that it has executed. A busy
// machine may leave the guest no time before a short deadline, so a guest that has
// executed too little has another try with twice the time.
func TestExactDeadline(t *testing.T) {
	t.Parallel()
	const enough = 1000
	for limit := 10 * time.Millisecond; ; limit *= 2 {
		got := exactUntil(t, limit)
		if got.Time < enough && limit < 20*time.Second {
			continue
		}
		if got.Activations != 2 || got.Time < enough {
			t.Errorf("%+v after %v, want 2 calls and many instructions", got, limit)
		}
		return
	}
}

// exactUntil counts the instructions of an endless loop until a deadline.
func exactUntil(t *testing.T, limit time.Duration) ccmap.Counters {
	t.Helper()
	h := newExactHost(t, guests.Small("spin"))
	m := h.instantiate(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := m.ExportedFunction("spin").Call(ctx); err == nil {
		t.Error("no error at the deadline")
	}
	return h.finish(t).Total()
}

// Two recordings of the same work are the same map.
func TestExactIsDeterministic(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	for _, g := range []struct {
		name, export string
		params       []uint64
	}{
		{"fib", "fib", []uint64{15}},
		{"indirect", "run", []uint64{100}},
		{"matrix", "run", []uint64{8, 3}},
		{"callback", "run", []uint64{5}},
	} {
		first, err1 := record(t, guests.Small(g.name), g.export, g.params...)
		second, err2 := record(t, guests.Small(g.name), g.export, g.params...)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if diff := cmp.Diff(canonical(first), canonical(second)); diff != "" {
			t.Errorf("%s (-first +second):\n%s", g.name, diff)
		}
	}
}

// Many instances run at the same time, more than there are rings at first, and are called
// over and over. Their calls are counted together.
func TestExactManyInstances(t *testing.T) {
	t.Parallel()
	const instances, rounds, n = 40, 10, 10
	h := newExactHost(t, guests.Small("fib"))
	var running sync.WaitGroup
	for range instances {
		m := h.instantiate(t)
		running.Go(func() {
			defer m.Close(context.Background())
			for range rounds {
				if _, err := m.ExportedFunction("fib").Call(context.Background(), n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	s := h.finish(t)
	if got, want := s.Total().Activations, instances*rounds*(2*fibonacci(n+1)-1); got != want {
		t.Errorf("%d calls, want %d", got, want)
	}
}

// A recording that stops while a guest runs has the guest's work until then, and nothing
// later.
func TestExactStopInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newExactHost(t, guests.Small("fib"))
	m := h.instantiate(t)
	if err := call(t, m, "fib", 5); err != nil {
		t.Fatal(err)
	}
	h.end()
	if err := call(t, m, "fib", 5); err != nil {
		t.Fatal(err)
	}
	if got, want := h.finish(t).Total().Activations, 2*fibonacci(6)-1; got != want {
		t.Errorf("%d calls, want %d", got, want)
	}
}

// Threads of closed instances are forgotten.
func TestExactForgetsClosedInstances(t *testing.T) {
	t.Parallel()
	h := newExactHost(t, guests.Small("fib"))
	for range 20 * leastSweep {
		m := h.instantiate(t)
		if err := call(t, m, "fib", 1); err != nil {
			t.Fatal(err)
		}
		m.Close(t.Context())
	}
	if n := len(h.profiler.exact.threads); n > leastSweep {
		t.Errorf("%d threads are left", n)
	}
	h.finish(t)
}

// BenchmarkExact times a recorded call.
func BenchmarkExact(b *testing.B) {
	for _, n := range []uint64{25} {
		b.Run(fmt.Sprintf("guest=fib/n=%d", n), func(b *testing.B) {
			h := newExactHost(b, guests.Small("fib"))
			m := h.instantiate(b)
			for b.Loop() {
				if err := call(b, m, "fib", n); err != nil {
					b.Fatal(err)
				}
			}
			each := float64(b.N) * float64(2*fibonacci(int(n)+1)-1)
			b.ReportMetric(each/b.Elapsed().Seconds()/1e6, "Mcalls/s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/call")
			h.finish(b)
		})
	}
}
