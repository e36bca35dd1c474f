package perfevent

import (
	"errors"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// counted is a function whose executions are counted.
//
//go:noinline
func counted() {}

// ownThreads lists the threads of this process.
func ownThreads() (tids []uint32, err error) {
	entries, err := os.ReadDir("/proc/self/task")
	for _, e := range entries {
		tid, _ := strconv.ParseUint(e.Name(), 10, 32)
		tids = append(tids, uint32(tid))
	}
	return tids, err
}

// TestCounter counts calls on threads that were there, and on those that begin later and end.
func TestCounter(t *testing.T) {
	c, err := OpenCounter(ownThreads, uint64(reflect.ValueOf(counted).Pointer()))
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const threads, calls = 12, 250
	var all sync.WaitGroup
	ready := make(chan bool)
	for range threads {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			<-ready
			for range calls {
				counted()
			}
		})
	}
	close(ready)
	all.Wait()
	// Go preempts a goroutine now and then, and few times in such a run just there.
	if n, err := c.Count(); n < threads*calls || n > threads*(calls+1) || err != nil {
		t.Errorf("counted %d of %d calls, error %v", n, threads*calls, err)
	}
}

func TestCounterNeedsAllThreads(t *testing.T) {
	last := uint32(1 << 30)
	_, err := OpenCounter(func() ([]uint32, error) { last++; return []uint32{last}, nil }, 8)
	if !errors.Is(err, ErrThreads) {
		t.Errorf("error %v where a thread begins each time, want %v", err, ErrThreads)
	}
}
