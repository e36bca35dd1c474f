package hotspot

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
)

// entersFlags are for the program Enters, one of whose threads does not give its carrier up.
var entersFlags = []string{"-Djdk.virtualThreadScheduler.parallelism=4", "-Xmx64m"}

// waited is what a thread waits for, and who owns it. Threads are known by name, virtual ones by Java's number, as a name
// cannot always be read while objects move. The one that is on its carrier is "pinned".
type waited struct{ class, owner string }

func (d *dumped) known() string {
	if d.Virtual && d.Name != "pinned" {
		return d.TID
	}
	return d.Name
}

// dumpedMonitors returns what threads wait for by the JVM's own dump, and which of them wait for the same monitor.
func dumpedMonitors(t testing.TB, jdk jvmtest.JDK, jvm *jvmtest.JVM) (monitors map[string]waited, same map[string][]string) {
	t.Helper()
	threads, owners := dumpThreads(t, jdk, jvm), map[string]string{}
	for _, thread := range threads {
		for _, at := range thread.MonitorsOwned {
			for _, lock := range at.Locks {
				owners[lock] = thread.known()
			}
		}
	}
	monitors, same = map[string]waited{}, map[string][]string{}
	for _, thread := range threads {
		if thread.BlockedOn != "" {
			class, _, _ := strings.Cut(thread.BlockedOn, "@")
			monitors[thread.known()] = waited{strings.Replace(class, "[I", "int[]", 1), owners[thread.BlockedOn]}
			same[thread.BlockedOn] = append(same[thread.BlockedOn], thread.known())
		}
	}
	return monitors, same
}

// seenMonitors returns the same by ccmapd.
func seenMonitors(t testing.TB, ts *JavaThreads) (monitors map[string]waited, same map[string][]string, err error) {
	t.Helper()
	if err := ts.Refresh(); err != nil {
		t.Fatal(err)
	}
	ts.Census(func(int, *process.Task) bool { return true })
	locks, err := ts.Locks()
	monitors, same = map[string]waited{}, map[string][]string{}
	for id, l := range locks {
		if !l.Monitor {
			continue
		}
		name, owner := seenAs(ts, id), ""
		if l.Owner != 0 {
			owner = seenAs(ts, l.Owner)
		}
		monitors[name] = waited{l.Class, owner}
		at := fmt.Sprintf("%s@%#x", l.Class, l.Addr)
		same[at] = append(same[at], name)
	}
	return monitors, same, err
}

func seenAs(ts *JavaThreads, task uint64) string {
	id, isVirtual := VirtualID(task)
	switch name := ts.Name(task); {
	case isVirtual:
		return itoa(int(id))
	case strings.HasPrefix(name, "ForkJoinPool"):
		return "pinned"
	default:
		return name
	}
}

// partition returns the groups of names, in order.
func partition(same map[string][]string) []string {
	var all []string
	for _, names := range same {
		slices.Sort(names)
		all = append(all, strings.Join(names, " "))
	}
	slices.Sort(all)
	return all
}

// TestVirtualMonitors: the monitors that virtual threads wait for, which of them wait for the same one, and the owners
// are those of the JVM's own dump, whatever the JVM's flags.
func TestVirtualMonitors(t *testing.T) {
	jdk := with25(t)
	for _, flags := range jvmtest.PartInTurn(virtualVariants, 3) {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			jvm := jdk.Start(t, slices.Concat(flags, entersFlags), "Enters")
			ts, err := openJVM(t, jvm.PID).JavaThreads()
			if err != nil {
				t.Fatal(err)
			}
			got, gotSame, err := seenMonitors(t, ts)
			if err != nil {
				t.Fatal(err)
			}
			want, wantSame := dumpedMonitors(t, jdk, jvm)
			t.Logf("%d threads wait for %d monitors", len(got), len(gotSame))
			if len(want) != 24 || !maps.Equal(want, got) {
				t.Errorf("%d threads\n%v\nwant %d\n%v", len(got), got, len(want), want)
			}
			if !slices.Equal(partition(wantSame), partition(gotSame)) {
				t.Errorf("the same monitors: %q, want %q", partition(gotSame), partition(wantSame))
			}
		})
	}
}

// TestVirtualMonitorsMove: while collections move all objects, monitors and their owners are the right ones, or not known.
func TestVirtualMonitorsMove(t *testing.T) {
	jdk := with25(t)
	for _, flag := range []string{"-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseSerialGC"} {
		t.Run(flag, func(t *testing.T) {
			jvm := jdk.Start(t, append([]string{flag}, entersFlags...), "Enters", "gc")
			ts, err := openJVM(t, jvm.PID).JavaThreads()
			if err != nil {
				t.Fatal(err)
			}
			want, _ := dumpedMonitors(t, jdk, jvm)
			known, unknown, begun, now := 0, 0, uint32(0), uint32(0)
			for known+unknown < 100*len(want) || now < begun+10 {
				got, _, err := seenMonitors(t, ts)
				if now, _ = ts.heap.epoch(); begun == 0 {
					begun = now
				}
				if err != nil {
					got = nil
				}
				for name, of := range got {
					if of.owner != "" && of != want[name] || of.class != want[name].class {
						t.Fatalf("%s waits for %v, want %v", name, of, want[name])
					}
				}
				known += len(got)
				unknown += len(want) - len(got)
			}
			t.Logf("%d times known, %d times not, during %d collections", known, unknown, now-begun)
			if known == 0 {
				t.Error("monitors were never known")
			}
		})
	}
}

// TestMonitorsLie: whatever nodes, monitors and objects say, a monitor is one whose object says so, and its owner a thread.
func TestMonitorsLie(t *testing.T) {
	jvm := with25(t).Start(t, append([]string{"-XX:+UseSerialGC", "-XX:-UseCompressedOops"}, entersFlags...), "Enters")
	p := openJVM(t, jvm.PID)
	ts, err := p.JavaThreads()
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := seenMonitors(t, ts)
	if err != nil || len(before) != 24 {
		t.Fatalf("%d monitors, %v", len(before), err)
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
	l := &v.l.queued
	threads, ids := v.those((*virtual).entersMonitor, nil, nil)
	one := slices.IndexFunc(ids, func(id uint64) bool { return ts.Name(id) == "wants-slept-0" })
	node := v.words(offset(threads, l.node))[one]
	monitor := v.words([]uint64{node + l.monitor})[0]
	owners, objects := p.vm.Query().Offset("ObjectMonitor._owner"), p.vm.Query().Offset("ObjectMonitor._object")
	asleep, _ := v.those((*virtual).hasLocked, nil, nil)
	_, chunk := v.readOne(asleep[0], v.epoch)
	for _, lie := range []struct {
		what     string
		at, word uint64
	}{
		{"a thread without a node", threads[one] + l.node, 0},
		{"a node that is the thread", threads[one] + l.node, threads[one]},
		{"a node beyond memory", threads[one] + l.node, ^uint64(0) - 7},
		{"a node of another thread", node + l.thread, v.words([]uint64{v.words(offset(threads, l.node))[(one+1)%len(threads)] + l.thread})[0]},
		{"a node of no monitor", node + l.monitor, 0},
		{"a monitor that is a node", node + l.monitor, node},
		{"a monitor that is code", node + l.monitor, p.vm.Low},
		{"a monitor of no object", monitor + objects, 0},
		{"a monitor of another's object", monitor + objects, v.words([]uint64{v.words(offset(threads, l.node))[0] + l.thread})[0]},
		{"a monitor that nothing owns", monitor + owners, 0},
		{"a monitor that is deflated", monitor + owners, 2},
		{"a monitor that thread 2^63 owns", monitor + owners, 1 << 63},
		{"a thread that has locked 2^8 objects", chunk + l.locked&^7, ^uint64(0)},
	} {
		was, err := p.vm.Word(lie.at)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []uint64{lie.word, was} {
			if _, err := memory.WriteAt(binary.LittleEndian.AppendUint64(nil, word), int64(lie.at)); err != nil {
				t.Fatal(err)
			}
			l.learned = false // nodes are learned of lies, too
			after, _, err := seenMonitors(t, ts)
			t.Logf("%s: %d monitors, %v", lie.what, len(after), err)
			for name, of := range after {
				if of != before[name] && of.owner != "" && of.class != before[name].class {
					t.Errorf("%s: %s waits for %v, want %v", lie.what, name, of, before[name])
				}
			}
			if word == was && !maps.Equal(after, before) {
				t.Errorf("%s is over, and there are %v, want %v", lie.what, after, before)
			}
		}
	}
}
