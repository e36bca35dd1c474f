package jfr

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// The rate is counted by the seconds of the events themselves, however late they are read.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		apart time.Duration
		want  bool
	}{{time.Second / mostAllocations, false}, {time.Second / (mostAllocations + 100), true}} {
		r := rate{limit: mostAllocations}
		for i := range int64(3 * mostAllocations) {
			r.add(1e18 + i*int64(c.apart))
		}
		if r.isTooHigh() != c.want {
			t.Errorf("events %v apart are too many: %v, want %v", c.apart, r.isTooHigh(), c.want)
		}
	}
}

// A JVM that tells more allocations than are wanted is asked to pick some, once, and the session says so. Few are
// wanted here: a busy machine has no thousands.
func TestAllocationsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("records a JVM for seconds")
	}
	jvm := jvmtest.Run(t, filepath.Join(jvmtest.JDKs(t)[0].Home, "bin/java"), t.TempDir(),
		"-Xmx512m", "-XX:TLABSize=64k", "-XX:-ResizeTLAB", "-cp", jvmtest.Classes(t), "Mixes", "50x200", "50x100")
	o := options(jvm.PID)
	o.Unit = Alloc
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.folder.rate.limit = 3
	target, err := attach.Open(jvm.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	picks := func() bool { return strings.Contains(s.Stats().Warning, "the JVM picks at most 100 a second") }
	for !picks() {
		s.Info().Sink.Queue.Drain(func(*ccmap.Sample) {})
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(pollTime):
		}
	}
	for len(ours.FindAllString(recordingsOf(t, target), -1)) != 1 { // the one before is about to be stopped
		s.Info().Sink.Queue.Drain(func(*ccmap.Sample) {})
		time.Sleep(pollTime)
	}
	list, err := target.Jcmd(t.Context(), patient, "JFR.check verbose=true")
	if err != nil || !strings.Contains(list, "jdk.ObjectAllocationSample") || strings.Contains(list, "jdk.ObjectAllocationInNewTLAB") {
		t.Errorf("the JVM records %s, %v", list, err)
	}
	cancel()
	s.Info().Sink.Queue.Drain(func(*ccmap.Sample) {})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func recordingsOf(t *testing.T, target *attach.Target) string {
	t.Helper()
	list, err := target.Jcmd(t.Context(), patient, "JFR.check")
	if err != nil {
		t.Fatal(err)
	}
	return list
}
