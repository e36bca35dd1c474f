package jfr

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestRival: a profiler in the JVM is blamed if samples are missing, and only then.
func TestRival(t *testing.T) {
	t.Parallel()
	missing := func(percent time.Duration) ccmap.Loss {
		return ccmap.Loss{Clock: 2 * time.Second, Unaccounted: 2 * time.Second * percent / 100}
	}
	for _, c := range []struct {
		what, library string
		loss          ccmap.Loss
		want          string // the beginning; empty: nothing
	}{
		{"async-profiler", "/opt/ap/lib/libasyncProfiler.so", missing(34), "async-profiler is in the JVM and has its signal SIGPROF"},
		{"a copy that is gone", "/tmp/async-profiler-1a2b.so (deleted)", missing(99), "async-profiler is in the JVM"},
		{"Datadog", "/tmp/scratch/libjavaProfiler-7.so", missing(50), "Datadog's profiler is in the JVM"},
		{"at rest", "/opt/ap/lib/libasyncProfiler.so", missing(3), ""},
		{"too early", "/opt/ap/lib/libasyncProfiler.so", ccmap.Loss{Clock: leastClock / 2, Unaccounted: leastClock / 2}, ""},
		{"no clock", "/opt/ap/lib/libasyncProfiler.so", ccmap.Loss{}, ""},
		{"another", "/usr/lib/libc.so.6", missing(99), "the JVM does not sample threads of native code"},
		{"native code", "/usr/lib/libc.so.6", missing(20), ""},
	} {
		r := rival{libraries: func() ([]string, error) { return []string{"/usr/bin/java", c.library}, nil }}
		got := r.look(time.Now(), c.loss)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestRivalLooksSeldom: the memory map is not read with each flush, and one that cannot be read is no profiler.
func TestRivalLooksSeldom(t *testing.T) {
	t.Parallel()
	looks, loaded := 0, false
	r := rival{libraries: func() ([]string, error) {
		looks++
		if !loaded {
			return nil, errors.New("permission denied")
		}
		return []string{"/lib/libasyncProfiler.so"}, nil
	}}
	loss := ccmap.Loss{Clock: 10 * time.Second, Unaccounted: 2 * time.Second}
	now := time.Now()
	for range 10 {
		if why := r.look(now, loss); why != "" {
			t.Errorf("blames %q", why)
		}
	}
	loaded = true
	if why := r.look(now.Add(looksApart), loss); looks != 2 || why == "" {
		t.Errorf("%d looks, %q", looks, why)
	}
	if r.look(now.Add(2*looksApart), loss); looks != 2 {
		t.Error("looks again for what it has found")
	}
}

// agent is a library that takes SIGPROF, as async-profiler does.
const agent = `#include <signal.h>
static void handle(int signal) {}
int Agent_OnLoad(void *vm, char *options, void *reserved) { return signal(SIGPROF, handle) == SIG_ERR; }
`

// TestRivalInJVM: a JVM in which a profiler has SIGPROF takes no samples of CPU time, and the session says why.
func TestRivalInJVM(t *testing.T) {
	all := javas(t)
	java := all[len(all)-1]
	if !strings.Contains(java, "25") {
		testrun.Lacks(t, "no JDK 25 is installed")
	}
	library := filepath.Join(t.TempDir(), "libasyncProfiler.so")
	if err := os.WriteFile(library+".c", []byte(agent), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, library+".c").CombinedOutput(); err != nil {
		testrun.Lacks(t, "run gcc: %v\n%s", err, out)
	}
	jvm := startJVM(t, java, spin, "-agentpath:"+library)
	s, err := Open(t.Context(), options(jvm.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	for s.Stats().Unseen == "" && ctx.Err() == nil {
		select {
		case <-s.Info().Sink.Queue.Ready():
		case <-time.After(pollTime):
		}
		s.Info().Sink.Queue.Drain(func(*ccmap.Sample) {})
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	if share, _ := st.Loss.UnaccountedShare(); !strings.HasPrefix(st.Unseen, "async-profiler is in the JVM") || share < missesMost {
		t.Errorf("%.1f %% are missing: %q", 100*share, st.Unseen)
	}
}
