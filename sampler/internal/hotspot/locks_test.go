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
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// locksOwners are who owns what threads of the program Locks wait for.
var locksOwners = map[string]string{
	"wanter-0": "keeper", "wanter-1": "keeper", "reads-too": "writer", "left": "right", "right": "left",
	"enterer": "locker", "locker": "enterer",
}

// ownersOf returns who owns what threads wait for, by name.
func ownersOf(t testing.TB, ts *JavaThreads) (map[string]string, error) {
	t.Helper()
	if err := ts.Refresh(); err != nil {
		t.Fatal(err)
	}
	ts.Census(func(int, *process.Task) bool { return true })
	locks, err := ts.Locks()
	owners := map[string]string{}
	for tid, l := range locks {
		if l.Owner != 0 {
			owners[ts.Name(tid)] = ts.Name(l.Owner)
		}
	}
	return owners, err
}

// TestLocksMove: while collections move all objects, an owner is the right one, or it is said that it is not known.
func TestLocksMove(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		for _, flag := range []string{"-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseSerialGC"} {
			t.Run(jdk.Name+flag, func(t *testing.T) {
				jvm := jdk.Start(t, []string{flag, "-Xmx64m"}, "Locks", "gc")
				ts, err := openJVM(t, jvm.PID).JavaThreads()
				if err != nil {
					t.Fatal(err)
				}
				known, unknown, begun, now := 0, 0, uint32(0), uint32(0)
				for known+unknown < 100 || now < begun+10 {
					owners, err := ownersOf(t, ts)
					if now, _ = ts.heap.epoch(); begun == 0 {
						begun = now
					}
					for name, owner := range owners {
						if locksOwners[name] != owner {
							t.Fatalf("%q owns what %q waits for", owner, name)
						}
					}
					if err == nil && len(owners) == len(locksOwners) {
						known++
					} else {
						unknown++
					}
				}
				t.Logf("%d times known, %d times not, during %d collections", known, unknown, now-begun)
				if known == 0 {
					t.Error("owners were never known")
				}
			})
		}
	}
}

// TestLocksLie: whatever the fields of threads and locks say, an owner is a thread of the list, and the work is bounded.
func TestLocksLie(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, []string{"-XX:+UseSerialGC", "-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"}, "Locks")
			p := openJVM(t, jvm.PID)
			ts, err := p.JavaThreads()
			if err != nil {
				t.Fatal(err)
			}
			if owners, err := ownersOf(t, ts); err != nil || !maps.Equal(owners, locksOwners) {
				t.Fatalf("owners %v, %v", owners, err)
			}
			if err := unix.Kill(jvm.PID, unix.SIGSTOP); err != nil { // it would believe the lies, too
				t.Fatal(err)
			}
			lieOfLocks(t, p, ts)
		})
	}
}

// lieOfLocks writes lies into a JVM that is stopped.
func lieOfLocks(t *testing.T, p *Process, ts *JavaThreads) {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	poke := func(addr, word uint64) {
		if _, err := memory.WriteAt(binary.LittleEndian.AppendUint64(nil, word), int64(addr)); err != nil {
			t.Fatal(err)
		}
	}
	r := lockReader{heap: ts.heap, table: p.classes, met: make(map[uint64]lineage), left: mostLooked}
	at := slices.IndexFunc(ts.last, func(j unwind.JavaThread) bool { return ts.Name(uint64(j.TID)) == "wanter-0" })
	byObject, current := r.objects(ts.last)
	object := current[at]
	klass := r.classesOf([]uint64{object})[0]
	parkBlocker, err := p.classes.Field(r.lineage(klass).thread, "parkBlocker", "Ljava/lang/Object;")
	if err != nil {
		t.Fatal(err)
	}
	lock := r.refs([]uint64{object}, parkBlocker)[0]
	lockClass := r.classesOf([]uint64{lock})[0]
	owner, err := p.classes.Field(r.lineage(lockClass).lock, "exclusiveOwnerThread", "Ljava/lang/Thread;")
	if err != nil {
		t.Fatal(err)
	}
	super, _ := p.vm.Offset("Klass._super")
	for _, lie := range []struct {
		what     string
		at, word uint64
	}{
		{"a lock that its waiter owns", lock + owner, object},
		{"a lock that a lock owns", lock + owner, lock},
		{"a lock that nothing owns", lock + owner, 7},
		{"a thread parked for itself", object + parkBlocker, object},
		{"a thread parked for what is no object", object + parkBlocker, p.vm.Low},
		{"a thread parked for an address beyond memory", object + parkBlocker, ^uint64(0) - 7},
		{"a class that descends from itself", lockClass + super, lockClass},
		{"an object of no class", object + ts.heap.l.class, p.vm.Low},
	} {
		was, err := p.vm.Word(lie.at)
		if err != nil {
			t.Fatal(err)
		}
		poke(lie.at, lie.word)
		p.classes.Refresh()
		owners, err := ownersOf(t, ts)
		t.Logf("%s: %v, %v", lie.what, owners, err)
		for name, owner := range owners {
			if !strings.HasPrefix(name, "wanter") && locksOwners[name] != owner || owner == "" {
				t.Errorf("%s: %q owns what %q waits for", lie.what, owner, name)
			}
		}
		poke(lie.at, was)
	}
	counted, _ := p.vm.Word(ts.heap.l.collector)
	poke(counted+ts.heap.l.active&^7, ^uint64(0))
	if owners, err := ownersOf(t, ts); err == nil {
		t.Errorf("%v of %d threads while objects move", owners, len(byObject))
	}
}
