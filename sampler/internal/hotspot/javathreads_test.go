package hotspot

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
)

// TestThreadsLie: a JVM whose list of threads has one thread again and again, or is endless, is read within bounds, and
// nobody owns a monitor that is a lie.
func TestThreadsLie(t *testing.T) {
	jvm := jvmtest.JDKs(t)[0].Start(t, nil, "Stuck")
	p := openJVM(t, jvm.PID)
	ts, err := p.JavaThreads()
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		if err := ts.Refresh(); err != nil {
			t.Fatal(err)
		}
		var places []int32
		ts.Census(func(place int, task *process.Task) bool {
			ts.Owner(task.Lock)
			places = append(places, int32(place))
			return true
		})
		ts.Look(places, func(int32, *process.TaskLook) { n++ })
		return n
	}
	const atLeast = 8 // of the program
	if n := count(); n < atLeast {
		t.Fatalf("%d threads", n)
	}
	if err := unix.Kill(jvm.PID, unix.SIGSTOP); err != nil { // it would believe the lies, too
		t.Fatal(err)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", jvm.PID), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	poke := func(addr, word uint64, size int) {
		b := binary.LittleEndian.AppendUint64(nil, word)
		if _, err := memory.WriteAt(b[:size], int64(addr)); err != nil {
			t.Fatal(err)
		}
	}
	at, _ := p.vm.Static("ThreadsSMRSupport._java_thread_list")
	list, _ := p.vm.Word(at)
	length, _ := p.vm.Offset("ThreadsList._length")
	array, _ := p.vm.Offset("ThreadsList._threads")
	entries, _ := p.vm.Word(list + array)
	first, _ := p.vm.Word(entries)
	for i := range uint64(len(ts.list)) {
		poke(entries+8*i, first, 8)
	}
	if n := count(); n > 1 || len(ts.placeOf) != 1 {
		t.Errorf("%d threads of one, %d places", n, len(ts.placeOf))
	}
	pending, _ := p.vm.Offset("JavaThread._current_pending_monitor")
	poke(first+pending, first, 8) // a monitor that is a thread
	count()
	poke(list+length, 0x7fffffff, 4)
	if n := count(); n > 1<<16 || len(ts.places) > 1<<16 {
		t.Errorf("%d threads, %d places", n, len(ts.places))
	}
}
