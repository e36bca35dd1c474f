package goproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// noise is memory that holds the same bytes everywhere.
type noise []byte

func (n noise) Read(_ uint64, buf []byte) error {
	if len(n) == 0 {
		return unix.EFAULT
	}
	for i := range buf {
		buf[i] = n[i%len(n)]
	}
	return nil
}

func (n noise) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		if err := n.Read(addrs[i], bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// FuzzGoroutines reads descriptors of goroutines, their stacks and texts of reasons that a hostile target could show.
func FuzzGoroutines(f *testing.F) {
	symbols, err := openCode(context.Background(), os.Getpid(), gosym.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(symbols.close)
	layouts, _ := symbols.table.Layouts()
	waits, known := symbols.table.WaitLayout()
	if !known {
		f.Fatal("no layout of this program's goroutines")
	}
	park := gosym.Func{Entry: uint64(reflect.ValueOf(runtime.Gosched).Pointer())}
	park.End = park.Entry + 64
	l := layouts[0]
	seed := make(noise, 512) // a goroutine that waits on a stack of its own
	for at, word := range map[int]uint64{
		l.GStackLo: 1 << 20, l.GStackHi: 2 << 20, l.GSchedSP: 1<<20 + 64, l.GSchedPC: park.Entry + 8, l.GID: 7, l.GStatus: 4, waits.Since: 5, waits.StartPC: park.Entry,
	} {
		binary.NativeEndian.PutUint64(seed[at:], word)
	}
	f.Add([]byte(seed), uint64(512), uint64(0))
	f.Add([]byte(seed), uint64(4096), ^uint64(0)-511)
	f.Fuzz(func(t *testing.T, raw []byte, first, step uint64) {
		p := &Process{unwinder: unwinder{code: symbols, memory: noise(raw), layout: l, knowsLayout: true}, labels: newLabels(noise(raw))}
		p.far.memory = p.memory
		p.far.renew()
		p.instant.Memory = p.memory
		gs := &Goroutines{p: p, memory: noise(raw), layout: l, waits: waits, own: make(map[uint64]bool), size: 512}
		gs.parts.parked = []gosym.Func{park}
		gs.parts.reasons = p.textsAt(first)
		const many = 24
		for i := range uint64(many) {
			gs.addrs = append(gs.addrs, first+i*step)
		}
		gs.sort()
		var places []int32
		gs.Census(func(place int, task *process.Task) bool {
			if task.State == process.Dead || task.ID == 0 || len(gs.Reason(task)) > longestReason {
				t.Fatalf("%+v", task)
			}
			gs.Own(task)
			places = append(places, int32(place))
			return true
		})
		if len(places) > many {
			t.Fatalf("%d of %d goroutines", len(places), many)
		}
		gs.Look(places, func(_ int32, k *process.TaskLook) {
			if k.Read && !k.Moved && len(k.Stack.PCs) == 0 || k.Moved && len(k.Stack.PCs) > 0 {
				t.Fatalf("%+v", k)
			}
		})
	})
}

// FuzzUnwind unwinds stacks that a hostile target could show, with this
// program's own symbols: words of the input become addresses of real code, or
// stay what they are.
func FuzzUnwind(f *testing.F) {
	symbols, err := openCode(context.Background(), os.Getpid(), gosym.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(symbols.close)
	layouts, known := symbols.table.Layouts()
	if !known {
		f.Fatal("no layout of this program's runtime")
	}
	var functions []uint64
	for _, fn := range []any{unix.Getpid, runtimeFunc, FuzzUnwind, (*unwinder).unwind, errors.New} {
		functions = append(functions, uint64(reflect.ValueOf(fn).Pointer()))
	}
	functions = append(functions, crossings(f, symbols)...)
	seed := make([]byte, 512)
	for i := range seed {
		seed[i] = byte(i * 7)
	}
	f.Add(seed, uint64(0), uint64(0x1000), uint64(0xff8), true)
	f.Add(seed[:8], ^uint64(0), ^uint64(0)-8, ^uint64(0), false)
	f.Fuzz(func(t *testing.T, raw []byte, ip, sp, bp uint64, cut bool) {
		code := func(word uint64) uint64 {
			if word%3 == 0 {
				return word
			}
			return functions[word%uint64(len(functions))] + word>>8%64
		}
		s := process.Moment{HasRegs: true, Regs: process.Registers{IP: code(ip), SP: sp, BP: bp, R14: ip}, Cut: cut, Chain: []uint64{code(ip)}}
		for words := raw; len(words) >= 8; words = words[8:] {
			word := code(binary.NativeEndian.Uint64(words))
			s.Stack = binary.NativeEndian.AppendUint64(s.Stack, word)
			s.Chain = append(s.Chain, word)
		}
		u := unwinder{code: symbols, memory: noise(raw), layout: layouts[0], knowsLayout: true}
		u.far.memory = u.memory
		u.far.renew()
		var st stack
		u.unwind(&s, &st)
		s.Regs.IP = functions[sp%uint64(len(functions))] + sp>>8%64
		u.unwind(&s, &st)
		if len(st.PCs) > 3*maxFrames+len(s.Chain)+1 || st.Rooted && len(st.PCs) == 0 {
			t.Fatalf("%d frames, rooted %v", len(st.PCs), st.Rooted)
		}
		newIdentifier(noise(raw), layouts[0]).identify(&s, &st, st.Rooted)
	})
}

// crossings returns addresses in the vDSO, which has call frame information, and
// of the functions through which C and Go call each other.
func crossings(f *testing.F, c *code) []uint64 {
	f.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	var found []uint64
	for line := range strings.Lines(string(maps)) {
		var start uint64
		if _, err := fmt.Sscanf(line, "%x-", &start); err == nil && strings.Contains(line, "[vdso]") {
			for at := start; len(found) < 64 && at < start+1<<13; at += 16 {
				if _, ok := c.row(at); ok {
					found = append(found, at)
				}
			}
		}
	}
	pc := uint64(reflect.ValueOf(runtime.Gosched).Pointer())
	for range 20_000 {
		p := c.at(pc)
		if p.end == 0 {
			break
		}
		if p.id == gosym.FuncAsmcgocall || p.id == gosym.FuncCgocallback {
			found = append(found, pc)
		}
		pc = p.end
	}
	if len(found) < 3 {
		f.Fatalf("found %#x", found)
	}
	return found
}

func runtimeFunc() {}

// TestUnknownLayout: without the runtime's structures the thread stands for
// the goroutine.
func TestUnknownLayout(t *testing.T) {
	t.Parallel()
	var p Process
	if p.identify(&process.Moment{TID: 7}); p.stack.Thread != process.OSThread|7 || p.stack.Goroutine != 0 {
		t.Errorf("thread %#x, goroutine %d", p.stack.Thread, p.stack.Goroutine)
	}
	i := newIdentifier(noise(nil), gosym.Layout{})
	if got := i.identify(&process.Moment{TID: 7, Regs: process.Registers{R14: 1 << 20}}, &stack{}, true); got.thread != process.OSThread|7 {
		t.Errorf("identity %+v with unreadable memory", got)
	}
}
