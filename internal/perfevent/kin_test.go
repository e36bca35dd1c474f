package perfevent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) {
	tests := testrun.Guard(m)
	if life := os.Getenv(livesEnv); life != "" {
		liveOn(life)
	}
	os.Exit(tests.Run())
}

// TestKin follows a shell with its children: events of CPUs and events of threads tell the same.
func TestKin(t *testing.T) {
	t.Parallel()
	for name, ofCPUs := range map[string]bool{"CPUs": true, "threads": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkKin(t, ofCPUs)
		})
	}
}

func checkKin(t *testing.T, ofCPUs bool) {
	var cpus []int
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	k, err := openKin(cpus, ofCPUs)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		testrun.Lacks(t, "not permitted: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if k.ofCPUs != ofCPUs {
		t.Skip("events of CPUs are not permitted")
	}
	c := exec.Command("/bin/sh", "-c", "read go; /bin/cat /dev/null; (exit 0); true")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := k.Follow([]uint32{uint32(c.Process.Pid)}); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("go\n"))
	got := changesUntilDeath(t, k, c.Process.Pid)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	want := []string{"born", "executed cat", "died", "born", "died"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// changesUntilDeath returns what happens to the children of a process until it ends.
func changesUntilDeath(t *testing.T, k *Kin, pid int) (all []string) {
	children := make(map[int]bool)
	for t.Context().Err() == nil {
		if err := k.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
		changes, lost := k.Changes()
		if lost {
			t.Fatal("changes are lost")
		}
		for _, c := range changes {
			switch {
			case c.Kind == Died && c.PID == pid:
				return all
			case c.Kind == Born && c.Parent == pid:
				children[c.PID] = true
				all = append(all, "born")
			case c.Kind == Executed && children[c.PID]:
				all = append(all, "executed "+c.Name)
			case c.Kind == Died && children[c.PID]:
				all = append(all, "died")
			}
		}
	}
	return all
}

// TestChangesInOrder: the death of a process waits for its birth, which another CPU writes after its
// ring was read.
func TestChangesInOrder(t *testing.T) {
	t.Parallel()
	k := &Kin{found: []Change{{Kind: Died, PID: 7, time: 12}, {Kind: Died, PID: 5, time: 10}}}
	want := []Change{{Kind: Died, PID: 5, time: 10}}
	if got := k.until(10); !slices.Equal(got, want) {
		t.Errorf("the first look finds %+v, want %+v", got, want)
	}
	if err := k.Wait(time.Hour); err != nil {
		t.Error(err)
	}
	k.found, k.held = append(k.found[1:], Change{Kind: Born, PID: 7, Parent: 5, time: 11}), 2
	want = []Change{{Kind: Born, PID: 7, Parent: 5, time: 11}, {Kind: Died, PID: 7, time: 12}}
	if got, lost := k.Changes(); lost || !slices.Equal(got, want) {
		t.Errorf("the second look finds %+v, want %+v", got, want)
	}
}

// FuzzChangeOf holds that a change is of a process, and that no bytes are read beyond a record.
func FuzzChangeOf(f *testing.F) {
	f.Add(uint32(unix.PERF_RECORD_FORK), uint16(0), fields(uint32(7), uint32(5), uint32(7), uint32(6), uint64(1)))
	f.Add(uint32(unix.PERF_RECORD_COMM), uint16(unix.PERF_RECORD_MISC_COMM_EXEC), append(fields(uint32(7), uint32(7)), "cat\x00\x00"...))
	f.Add(uint32(unix.PERF_RECORD_EXIT), uint16(0), []byte{1})
	f.Fuzz(func(t *testing.T, kind uint32, misc uint16, body []byte) {
		c, ok, lost := changeOf(&Record{Kind: kind, Misc: misc, Body: bytes.Clone(body)})
		if ok && (lost || c.PID <= 0 || len(c.Name) > 16 || c.Kind == Born && c.Parent == c.PID) {
			t.Errorf("change %+v, lost %v", c, lost)
		}
	})
}
