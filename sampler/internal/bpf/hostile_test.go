package bpf

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

// compileLiar compiles testdata/liar.c.
func compileLiar(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	program := filepath.Join(t.TempDir(), "liar")
	cmd := exec.Command("gcc", "-O1", "-fno-stack-protector", "-fcf-protection=none", "-pthread", "-o", program, "testdata/liar.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, out)
	}
	return program
}

// joined makes a host sample a process without taking the records.
func joined(t *testing.T, h *Host, pid int, change func(*programTarget)) *Source {
	t.Helper()
	stat, err := process.ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	s := bare(h, pid, stat.Started)
	change(&s.entry)
	s.told = s.entry
	if err := h.join(&s.seat); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.forget(&s.seat) })
	return s
}

// bare returns a source that never runs.
func bare(h *Host, pid int, started uint64) *Source {
	return &Source{
		host: h, t: &taker.Taker{PID: pid, Pidfd: -1}, seat: seat{pid: uint32(pid), interval: time.Millisecond},
		entry: programTarget{Started: started, MaxStack: mostStack},
	}
}

// liarLayout is where liar.c has the fields of its descriptors.
func liarLayout(e *programTarget) {
	e.HasLayout, e.Callbacks = 1, 1
	e.G_m, e.G_schedSp, e.G_bytes, e.M_g0, e.M_curg, e.M_bytes = 48, 56, 384, 0, 184, 384
}

// each hands the records that have arrived for a source to f, and returns their number.
func each(s *Source, f func(raw []byte)) (n int) {
	for rest := s.inbox.Swap(nil); len(rest) > 0; n++ {
		var raw []byte
		raw, rest = next(rest)
		f(raw)
	}
	return n
}

// eachRecord hands the records that have arrived for a source to f.
func eachRecord(t *testing.T, s *Source, f func(*record)) {
	t.Helper()
	each(s, func(raw []byte) {
		var r record
		if err := r.decode(raw); err != nil {
			t.Fatal(err)
		}
		f(&r)
	})
}

// TestHostileTargets: descriptors that lie make records that are bounded, and hold nothing
// but the target's own memory. Another program's records, full of a secret, are made on the
// same CPU between them, at addresses that the lies name, too.
func TestHostileTargets(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	program := compileLiar(t)
	secret := binary.NativeEndian.AppendUint64(nil, 0x5ec2e7ab1e5ec2e7)
	if own, err := os.ReadFile(program); err != nil || bytes.Contains(own, secret) {
		t.Fatalf("the liars have the secret in their own file, and may show it (%v)", err)
	}
	start := func(mode string) (*enginetest.Target, *Source) {
		g := enginetest.Start(t, program, mode)
		g.Pin(t) // to one CPU, which has one place to make records
		return g, joined(t, h, g.PID(), liarLayout)
	}
	const enough = 200
	keeper, kept := start("secret")
	keeper.Proceed(t)
	type liar struct {
		s      *Source
		memory process.Memory
		seen   int
	}
	var liars []*liar
	for _, mode := range []string{"lies", "races"} {
		g, s := start(mode)
		g.Proceed(t)
		liars = append(liars, &liar{s: s, memory: process.MemoryOf(g.PID(), nil)})
	}
	secrets := 0
	for secrets < enough || liars[0].seen < enough || liars[1].seen < enough {
		h.drain()
		each(kept, func(raw []byte) {
			if bytes.Count(raw, secret) > 10000 { // on both stacks, and in the descriptors
				secrets++
			}
		})
		for _, l := range liars {
			l.seen += each(l.s, func(raw []byte) { checkOwn(t, l.memory, raw, secret) })
		}
		time.Sleep(time.Millisecond)
	}
	if h.counted(unreadable) == 0 {
		t.Error("stack pointers that lead nowhere are not counted")
	}
}

// checkOwn wants a record to have only bytes that can be the target's: pieces that it names,
// and its stack as it is.
func checkOwn(t *testing.T, memory process.Memory, raw, secret []byte) {
	t.Helper()
	var r record
	if most := headBytes + objectsBytes + 2*mostStack + outerBytes; len(raw) > most {
		t.Fatalf("a record has %d bytes, more than %d", len(raw), most)
	}
	if err := r.decode(raw); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, secret) {
		t.Fatal("a record has memory of another process")
	}
	held := headBytes
	for i := range r.Pieces {
		held += int(r.Pieces[i].Bytes)
	}
	if len(raw) > held+8 { // the ring pads
		t.Fatalf("a record has %d bytes, and pieces for %d", len(raw), held)
	}
	checkPiece(t, memory, "outer end", r.moment.Outer.Addr, r.moment.Outer.Bytes)
	if !r.moment.Kernel {
		checkPiece(t, memory, "stack", r.moment.Regs.SP, r.moment.Stack)
	}
}

// checkPiece wants a piece of a record to be memory that the target has at its address.
func checkPiece(t *testing.T, memory process.Memory, name string, addr uint64, held []byte) {
	t.Helper()
	if len(held) == 0 {
		return
	}
	now := make([]byte, len(held))
	if err := memory.Read(addr, now); err != nil {
		t.Fatalf("the record's %s is memory that cannot be read: %v", name, err)
	}
	if differing := differing(now, held); differing > len(now)/8 { // it runs on meanwhile
		t.Errorf("of the record's %s %d bytes of %d are not the target's", name, differing, len(now))
	}
}

// differing counts the bytes that differ.
func differing(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// TestLyingLengths: a layout whose descriptors are too short for their fields leads to no object, and one that
// is too long to no more than a record has room for.
func TestLyingLengths(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, compileLiar(t), "secret")
	g.Pin(t)
	for _, c := range []struct{ bytes, most uint16 }{{0, 0}, {8, 0}, {1<<16 - 1, process.MostDescriptor}} {
		s := joined(t, h, g.PID(), func(e *programTarget) {
			liarLayout(e)
			e.G_bytes, e.M_bytes = c.bytes, c.bytes
		})
		if c.bytes == 0 {
			g.Proceed(t)
		}
		for seen := 0; seen < 20; time.Sleep(time.Millisecond) {
			h.drain()
			eachRecord(t, s, func(r *record) {
				seen++
				for i := range objects {
					if n := r.Pieces[i].Bytes; n > uint32(c.most) {
						t.Errorf("of descriptors with %d bytes a record holds %d", c.bytes, n)
					}
				}
				if c.most == 0 && (r.Pieces[objects-2].Addr != 0 || r.Pieces[objects-1].Addr != 0) {
					t.Error("a record has the address of a descriptor that it could not read")
				}
			})
		}
		h.leave(&s.seat)
		h.forget(&s.seat)
	}
}

// TestEndingThreads: a thread that has given up its memory leaves a record without memory.
// On Linux before 6.4 a read would find the memory of another process.
func TestEndingThreads(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	g := enginetest.Start(t, compileLiar(t), "threads")
	s := joined(t, h, g.PID(), liarLayout)
	if err := s.SetInterval(100 * time.Microsecond); err != nil {
		t.Fatal(err)
	}
	g.Proceed(t)
	empty := 0
	for h.counted(ending) == 0 || empty == 0 {
		h.drain()
		eachRecord(t, s, func(r *record) {
			if r.Pieces == (programHead{}).Pieces {
				empty++
			}
		})
		time.Sleep(time.Millisecond)
	}
}

// TestFullRing: where many targets leave more records than the ring has room for, those
// that are seen and those that are lost are all that were taken.
func TestFullRing(t *testing.T) {
	t.Parallel()
	h := openHost(t)
	program := compileLiar(t)
	h.draining.Lock() // the reader is held up
	var sources []*Source
	for range 6 {
		g := enginetest.Start(t, program, "secret") // 96 KiB a record
		s := joined(t, h, g.PID(), liarLayout)
		s.SetInterval(100 * time.Microsecond)
		sources = append(sources, s)
		g.Proceed(t)
	}
	for _, s := range sources {
		for h.lost(&s.seat) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for _, s := range sources {
		h.leave(&s.seat) // with the last one the timers end, and so does the program
	}
	h.draining.Unlock()
	h.drain()
	seen, lost := 0, uint64(0)
	for _, s := range sources {
		seen += each(s, func([]byte) {})
		lost += h.lost(&s.seat) + s.inbox.Lost()
	}
	if all := h.counted(taken); seen == 0 || uint64(seen)+lost != all {
		t.Errorf("%d records were taken: %d are seen, %d are lost", all, seen, lost)
	}
	t.Logf("%d records seen, %d lost", seen, lost)
}
