package perf

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

// TestNoRecordIsForgotten: epoll tells of a record once, to the runtime's poller
// perhaps while nobody waits. The record must end the next wait all the same.
func TestNoRecordIsForgotten(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "calls", "500", "60")
	s, sink := attach(t, g.pid(), Options{Interval: time.Millisecond})
	defer s.Close()
	d := s.drainer
	d.local = sink.Queue.Ring()
	defer d.local.Close()

	g.proceed(t)
	if _, err := d.waiter.wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	g.stop(t)
	for range 2 { // the first look is that of the poller
		if ready, exited := d.waiter.look(); !ready || exited {
			t.Errorf("with records in a ring: ready %v, exited %v", ready, exited)
		}
	}
	d.drain(context.Background())
	if ready, _ := d.waiter.look(); ready {
		t.Error("ready after all records were drained")
	}
}

// stop stops the workload, and returns when it has stopped.
func (g *target) stop(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		tids, err := readTasks(g.pid())
		if err != nil {
			t.Fatal(err)
		}
		if allStopped(t, tids) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func allStopped(t *testing.T, tids []uint32) bool {
	t.Helper()
	for _, tid := range tids {
		stat, err := readStat(int(tid))
		if err != nil {
			t.Fatal(errors.Join(errors.New("a thread has ended"), err))
		}
		if stat.state != 'T' {
			return false
		}
	}
	return true
}
