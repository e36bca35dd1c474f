package hotspot

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// dumped is a thread in a JVM's own dump.
type dumped struct {
	TID           string
	Name          string
	Virtual       bool
	Stack         []string
	BlockedOn     string
	MonitorsOwned []struct{ Locks []string }
}

// dumpThreads returns the JVM's own dump of its threads.
func dumpThreads(t testing.TB, jdk jvmtest.JDK, jvm *jvmtest.JVM) (all []dumped) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ccmapd-dump-") // jcmd wants a path without marks
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "dump")
	out, err := exec.Command(filepath.Join(jdk.Home, "bin/jcmd"), itoa(jvm.PID), "Thread.dump_to_file", "-format=json", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		ThreadDump struct{ ThreadContainers []struct{ Threads []dumped } }
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.ThreadDump.ThreadContainers {
		all = append(all, c.Threads...)
	}
	return all
}

// dumpVirtual returns the methods of each virtual thread of a JVM, innermost first, as the JVM tells.
func dumpVirtual(t testing.TB, jdk jvmtest.JDK, jvm *jvmtest.JVM) map[string][]string {
	t.Helper()
	stacks := map[string][]string{}
	for _, thread := range dumpThreads(t, jdk, jvm) {
		if !thread.Virtual {
			continue
		}
		var names []string
		for _, line := range thread.Stack { // "java.base/java.lang.Thread.sleep(Thread.java:509)"
			name, _, _ := strings.Cut(line, "(")
			if _, rest, found := strings.Cut(name, "/"); found {
				name = rest
			}
			names = append(names, name)
		}
		stacks[thread.TID] = names
	}
	return stacks
}

func itoa(n int) string { return strconv.Itoa(n) }

// with25 returns JDK 25.
func with25(t testing.TB) jvmtest.JDK {
	t.Helper()
	for _, jdk := range jvmtest.JDKs(t) {
		if jdk.Name == "25" {
			return jdk
		}
	}
	testrun.Lacks(t, "no JDK 25")
	return jvmtest.JDK{}
}

// seenVirtual returns the methods of each virtual thread without a carrier, innermost first.
func seenVirtual(t testing.TB, p *Process, ts *JavaThreads) (stacks map[string][]string, why map[string]string, moved int) {
	t.Helper()
	if err := ts.Refresh(); err != nil {
		t.Fatal(err)
	}
	var places []int32
	ts.Census(func(place int, task *process.Task) bool {
		if _, is := VirtualID(task.ID); is {
			places = append(places, int32(place))
		}
		return true
	})
	names := ccmap.NewNames()
	stacks, why = map[string][]string{}, map[string]string{}
	ts.Look(places, func(_ int32, l *process.TaskLook) {
		if !l.Read || l.Moved {
			moved++
			return
		}
		id, _ := VirtualID(l.ID)
		var all []string
		for _, f := range p.Frames(l.Stack, names, nil) {
			all = append(all, names.At(f.Method).Name)
		}
		if !l.Stack.Rooted {
			all = append(all, "LOST "+foundIn(l.Stack).java.Why.String())
		}
		stacks[itoa(int(id))], why[itoa(int(id))] = all, cmp.Or(l.Why, ts.Reason(&l.Task))
	})
	return stacks, why, moved
}

// virtualVariants are flags that change how stacks look, how pointers are written, and how objects move.
var virtualVariants = [][]string{
	nil, {"-XX:+UseParallelGC", "-XX:-UseCompressedOops"}, {"-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders"}, {"-XX:-UseCompressedClassPointers"},
	{"-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"}, {"-XX:HeapBaseMinAddress=40g", "-XX:TieredStopAtLevel=1"}, {"-Xint"}, {"-Xcomp"},
}

// differing returns how many stacks differ from the JVM's own, by how.
func differing(want, got map[string][]string) (same int, differ map[string]int) {
	differ = map[string]int{}
	for id, w := range want {
		w, g := trim(w), trim(got[id])
		if slices.Equal(w, g) {
			same++
			continue
		}
		differ["the JVM: "+strings.Join(w, " ")+"\n    ccmapd:  "+strings.Join(g, " ")]++
	}
	return same, differ
}

// TestVirtualStacks: the virtual threads without a carrier, and their stacks, are those of the JVM's own dump, whatever
// the JVM's flags.
func TestVirtualStacks(t *testing.T) {
	jdk := with25(t)
	n := cmp.Or(os.Getenv("CCMAPD_TEST_VIRTUAL"), "800")
	for _, flags := range jvmtest.PartInTurn(virtualVariants, 3) {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			jvm := jdk.Start(t, append(flags, "-Xmx512m"), "Rests", n)
			p := openJVM(t, jvm.PID)
			ts, err := p.JavaThreads()
			if err != nil {
				t.Fatal(err)
			}
			want := dumpVirtual(t, jdk, jvm)
			begin := time.Now()
			got, why, moved := seenVirtual(t, p, ts)
			t.Logf("%d of %d threads, %d moved, in %v; %v", len(got), len(want), moved, time.Since(begin), ts.VirtualUnknown())
			begin, cpu := time.Now(), cpuTime()
			ts.Refresh()
			t.Logf("a census: %v, CPU %v", time.Since(begin), cpuTime()-cpu)
			same, differ := differing(want, got)
			t.Logf("%d of %d the same", same, len(want))
			for what, n := range differ {
				t.Errorf("%d × %s", n, what)
			}
			reasons := map[string]int{}
			for _, why := range why {
				reasons[why]++
			}
			each, _ := strconv.Atoi(n)
			each /= 8
			for why, n := range map[string]int{reasonSleep: each, ReasonPark: 4 * each, ReasonMonitor: each, reasonWait: each, reasonPoll: each} {
				if reasons[why] < n {
					t.Errorf("%d wait for %s, want %d", reasons[why], why, n)
				}
			}
		})
	}
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestNeighbours: whatever pieces are wanted, those that memory has are read, and no others.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var n neighbours
	for range 500 {
		m := &holes{mapped: func(page uint64) bool { return page%7 != 3 }}
		addrs, sizes := make([]uint64, r.IntN(300)), make([]int, 300)
		at := uint64(1 << 20)
		for i := range addrs {
			at += uint64(r.IntN(1<<r.IntN(16))) &^ 7
			addrs[i], sizes[i] = at, r.IntN(1<<r.IntN(13))
			if r.IntN(20) == 0 {
				addrs[i] = r.Uint64()
			}
		}
		r.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		for i, got := range n.read(m, addrs, func(i int) int { return sizes[i] }) {
			want := make([]byte, sizes[i])
			if sizes[i] == 0 || !classes.Plausible(addrs[i]) || m.Read(addrs[i], want) != nil {
				want = nil
			}
			if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Fatalf("%d bytes at %#x: %d bytes, want %d", sizes[i], addrs[i], len(got), len(want))
			}
		}
	}
}

// holes is a memory of which not all pages are mapped. A byte is its address.
type holes struct{ mapped func(page uint64) bool }

func (h *holes) Read(addr uint64, buf []byte) error {
	for i := range buf {
		if at := addr + uint64(i); !h.mapped(at >> 12) {
			return unix.EFAULT
		} else {
			buf[i] = byte(at ^ at>>8 ^ at>>16)
		}
	}
	return nil
}

func (h *holes) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		if err := h.Read(addrs[i], bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// TestPlaceIndex: a place is found by its thread's number, and by no other, while threads come and go.
func TestPlaceIndex(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	v := &virtualThreads{seed: maphash.MakeSeed()}
	known := map[uint64]int32{}
	for range 50 {
		v.census++
		for range r.IntN(2000) {
			id := uint64(r.IntN(3000) + 1)
			place, found := v.find(id)
			if was, is := known[id]; found != is || is && place != was {
				t.Fatalf("thread %d is at %d, %v; want %d, %v", id, place, found, was, is)
			}
			if !found {
				place, _ = v.freePlace()
				v.index.add(v.seed, id, place, v.places)
				known[id] = place
			}
			v.places[place] = virtual{id: id, census: v.census}
		}
		v.sweep()
		maps.DeleteFunc(known, func(id uint64, place int32) bool { return v.places[place].id != id })
	}
}

// TestVirtualMoves: while collections move all objects and other threads go on, the stacks of those that wait are the
// right ones, and they are seen to be in the same wait. Those that go on are seen to.
func TestVirtualMoves(t *testing.T) {
	jdk := with25(t)
	for _, flag := range []string{"-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseSerialGC"} {
		t.Run(flag, func(t *testing.T) {
			jvm := jdk.Start(t, []string{flag, "-Xmx64m"}, "Rests", "400", "gc", "goes")
			p := openJVM(t, jvm.PID)
			ts, err := p.JavaThreads()
			if err != nil {
				t.Fatal(err)
			}
			want := dumpVirtual(t, jdk, jvm)
			ofProgram := func(name string) bool { return name == "Rests.rest" || strings.HasPrefix(name, "Rests.lambda$named") }
			maps.DeleteFunc(want, func(_ string, w []string) bool { return !slices.ContainsFunc(w, ofProgram) })
			if len(want) != 404 {
				t.Fatalf("%d threads rest", len(want))
			}
			seqs, goes := map[string]map[uint8]bool{}, map[string]bool{}
			seen, looks, wrong, failed, begun, now := 0, 0, 0, 0, uint32(0), uint32(0)
			for looks < 50 || now < begun+50 { // objects move as often as they are looked at
				looks++
				got, _, _ := seenVirtual(t, p, ts)
				if ts.VirtualUnknown() != nil {
					failed++
					continue
				}
				if now, _ = ts.heap.epoch(); begun == 0 {
					begun = now
				}
				for id, g := range got {
					if w, rests := want[id]; rests {
						seen++
						if !slices.Equal(trim(w), trim(g)) {
							wrong++
							t.Errorf("%q, want %q", g, w)
						}
					} else if slices.Contains(g, "Rests.goesOn") {
						goes[id] = true
					} else if !slices.Contains(g, "sun.nio.ch.Poller.subPollerLoop") && len(g) > 6 { // more than a thread that has not begun
						wrong++
						t.Errorf("%q", g)
					}
				}
				for i := range ts.virtual.places {
					if at := &ts.virtual.places[i]; at.id != 0 {
						id := itoa(int(at.id))
						if seqs[id] == nil {
							seqs[id] = map[uint8]bool{}
						}
						seqs[id][at.seq] = true
					}
				}
			}
			moved, still := 0, 0
			for id, all := range seqs {
				if _, rests := want[id]; rests && len(all) > 1 {
					moved++
				} else if goes[id] && len(all) == 1 {
					still++
				}
			}
			t.Logf("%d stacks in %d looks (%d failed), during %d collections: %d wrong; %d of 404 that rest seemed to go on, %d of %d that go on to rest",
				seen, looks, failed, now-begun, wrong, moved, still, len(goes))
			if seen < 400 || moved > 0 || still > len(goes)/10 {
				t.Error("they are not told apart")
			}
		})
	}
}

// trim leaves out frames that only one of both has.
func trim(names []string) (rest []string) {
	for _, name := range names {
		if name == "java.lang.Thread.runWith" || strings.HasPrefix(name, contClass) || strings.HasPrefix(name, virtualClass) || strings.Contains(name, "$$Lambda") || strings.HasPrefix(name, "java.lang.System$1") || strings.HasPrefix(name, "jdk.internal.misc.VirtualThreads") {
			continue
		}
		rest = append(rest, name)
	}
	return rest
}

// anything is a memory that has any bytes, again and again, from each address on.
type anything []byte

func (a anything) Read(addr uint64, buf []byte) error {
	for i := range buf {
		buf[i] = a[(addr+uint64(i))%uint64(len(a))]
	}
	return nil
}

func (a anything) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		_ = a.Read(addrs[i], bufs[i])
	}
	return len(addrs), nil
}

// FuzzContainers walks sets of virtual threads that are any bytes: it ends, within its bounds.
func FuzzContainers(f *testing.F) {
	node := make([]byte, 64) // that is its own key, next node, table, thread, continuation and stack
	for i := 0; i < len(node); i += 8 {
		binary.LittleEndian.PutUint64(node[i:], 4096)
	}
	f.Add(node, uint32(1), uint32(1))
	f.Add(slices.Concat(node, make([]byte, 64)), uint32(4), uint32(0))
	f.Add([]byte(strings.Repeat("\xfe\xff\xff\xff", 33)), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, data []byte, state, words uint32) {
		if len(data) == 0 || len(data) > 1<<12 {
			return
		}
		for _, bits := range []uint{32, 64} {
			layout := heapLayout{oop: packed{bits: bits, base: 4096, shift: 3}, klass: packed{bits: bits}, class: 8, collector: 4096, active: 64, collections: 72}
			h := &heap{memory: anything(data), l: layout}
			v := &virtualThreads{heap: h, seed: maphash.MakeSeed(), found: true}
			v.newOwner = func(class uint64) owner { return owner{at: 8 * (class % 5), then: 16 * (class % 2)} }
			v.l = virtualLayout{
				array: newArrayLayout(&layout), thread: h.classesOf([]uint64{4096})[0], chunk: h.classesOf([]uint64{4104})[0],
				states: map[int32]virtualState{int32(state): isParked}, id: 16, name: 24, state: 12, cont: 32, scopes: 40, tail: 16, mounted: 13,
				parent: 16, size: 24, sp: 28, bottom: 32, words: uint64(words % 4096), text: 16, coder: 12, hash: 12, key: 16, next: 24, keys: 16,
				table: 24, nextTable: 32, referent: 16, previous: 16, threadSize: 48, contSize: 24, chunkSize: 40, nodeSize: 32,
			}
			w := containers{virtualThreads: v, left: 1 << 10, met: make(map[uint64]bool)}
			w.epoch, _ = h.epoch()
			w.read([]unwind.JavaThread{{Object: 4096}, {Object: 4100}})
			if w.left > 1<<10 || len(v.places) > 1<<16 || len(w.met) > 1<<16 {
				t.Fatalf("%d left, %d places, %d sets", w.left, len(v.places), len(w.met))
			}
			for place := range min(len(v.places), 4) {
				v.name(v.places[place].id)
			}
		}
	})
}

// TestVirtualLies: whatever the objects of virtual threads say, reading them ends, and a stack is one that makes sense.
func TestVirtualLies(t *testing.T) {
	jvm := with25(t).Start(t, []string{"-XX:+UseSerialGC", "-XX:-UseCompressedOops", "-Xmx64m"}, "Rests", "80")
	p := openJVM(t, jvm.PID)
	ts, err := p.JavaThreads()
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := seenVirtual(t, p, ts)
	if len(before) < 80 || ts.VirtualUnknown() != nil {
		t.Fatalf("%d threads, %v", len(before), ts.VirtualUnknown())
	}
	if err := unix.Kill(jvm.PID, unix.SIGSTOP); err != nil { // it would believe the lies, too
		t.Fatal(err)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", jvm.PID), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	v := ts.virtual
	one := slices.IndexFunc(v.places, func(at virtual) bool { return at.id != 0 && at.state == parksFor })
	object := v.places[one].object
	_, chunk := v.readOne(object, v.epoch)
	w := containers{virtualThreads: v, left: mostNodes}
	table := v.refs(v.refs([]uint64{w.static(v.l.roots)}, v.l.keys), v.l.table)[0]
	var node uint64
	for at := table + v.l.array.data; node == 0; at += 8 {
		node, _ = p.vm.Word(at)
	}
	cont := v.refs([]uint64{object}, v.l.cont)[0]
	for _, lie := range []struct {
		what     string
		at, word uint64
	}{
		{"a node that follows itself", node + v.l.next, node},
		{"a node that is the thread", node + v.l.key, node},
		{"a table of 2^31 slots", table + v.l.array.length&^7, 1<<63 - 1},
		{"a stack that is its own parent", chunk + v.l.parent, chunk},
		{"a stack of 2^31 words", chunk + v.l.size&^7, 1<<63 - 1},
		{"a stack that ends before it begins", chunk + v.l.sp&^7, 1 << 31},
		{"a continuation without a stack", cont + v.l.tail, 0},
		{"a stack that is a thread", cont + v.l.tail, object},
		{"a thread whose scope is itself", object + v.l.scopes, object},
		{"a thread of no class", object + v.heap.l.class&^7, p.vm.Low},
	} {
		was, err := p.vm.Word(lie.at)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []uint64{lie.word, was} {
			if _, err := memory.WriteAt(binary.LittleEndian.AppendUint64(nil, word), int64(lie.at)); err != nil {
				t.Fatal(err)
			}
			after, _, moved := seenVirtual(t, p, ts)
			t.Logf("%s: %d threads, %d moved, %v", lie.what, len(after), moved, ts.VirtualUnknown())
			wrong := 0
			for id, stack := range after {
				if !slices.Equal(stack, before[id]) {
					wrong++
				}
			}
			if wrong > 1 || word == was && (wrong > 0 || len(after) != len(before)) {
				t.Errorf("%s: %d stacks are others, %d threads", lie.what, wrong, len(after))
			}
		}
	}
}
