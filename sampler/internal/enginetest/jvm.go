package enginetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/sampler"
)

// testJVM attaches to a Java program on each JDK, compiled and interpreted: frames, positions
// and threads must not tell the two apart.
func testJVM(t *testing.T, open Open) {
	t.Parallel()
	jdks, flags := jvmtest.JDKs(t), []string{"-Xmixed", "-Xint", "-XX:+UseZGC"}
	if testing.Short() { // what runs at the same time is the same in all
		jdks, flags = jdks[:1], flags[:1]
	}
	for _, jdk := range jdks {
		for _, flag := range flags {
			t.Run(jdk.Name+flag, func(t *testing.T) {
				t.Parallel()
				checkLoop(t, open, jdk, flag)
			})
		}
	}
}

// Positions in Loop.java of package jvmtest.
const (
	lineOfCall = 14 // deep calls call
	lineOfDeep = 17 // deep calls itself
	lineOfWork = 22 // work calls deep
)

func checkLoop(t *testing.T, open Open, jdk jvmtest.JDK, flag string) {
	const most = 300
	jvm := jdk.Start(t, []string{flag}, "Loop")
	s, sink := Attach(t, open, jvm.PID, sampler.ProcessOptions{Interval: 2 * time.Millisecond})
	if target := s.Info().Target; !strings.HasPrefix(target.Runtime, "OpenJDK "+jdk.Name) || target.BuildID == "" {
		t.Errorf("the runtime is %q, its build %q", target.Runtime, target.BuildID)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		AwaitSamples(t, s, most)
		cancel()
	}()
	if _, err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	java, whole, strays, threads := 0, 0, 0, map[uint64]bool{}
	for _, c := range Drained(sink) {
		if root := c.Names[len(c.Names)-1]; strings.HasPrefix(root, "[") && (c.Has("start_thread") || c.Has("clone3")) {
			strays++
			t.Logf("below %s is what begins a thread: %q", root, c.Names) // with the symbols of the C library installed
		}
		if !c.Has("Loop.work") {
			continue
		}
		java++
		threads[c.Thread] = true
		if !c.Truncated {
			whole++
			checkLoopStack(t, c, sink.Names)
		}
	}
	t.Logf("%d samples of the worker, %d whole", java, whole)
	// The outer end of a deep stack is read later. A thread of the compiler that has ended meanwhile has left it to another.
	if strays > most/50 {
		t.Errorf("%d of %d stacks go on below what begins a thread", strays, most)
	}
	if java < most/10 || whole < java*97/100 || len(threads) != 1 {
		t.Errorf("%d samples of the worker of %d, %d whole, on %d threads", java, most, whole, len(threads))
	}
}

// checkLoopStack holds a whole stack against the program: work calls deep, which calls itself.
func checkLoopStack(t *testing.T, c Sample, names *ccmap.Names) {
	t.Helper()
	work := slices.Index(c.Names, "Loop.work")
	if c.Names[len(c.Names)-1] != "java.lang.Thread.run" {
		t.Errorf("the root is %s", c.Names[len(c.Names)-1])
	}
	for i, f := range c.Frames[:work+1] {
		if i == 0 || names.At(f.Method).Coordinate != ccmap.CoordinateBytecode {
			continue // innermost, where the position is not exact
		}
		want := map[string][]int32{
			"Loop.work/Loop.deep": {lineOfWork}, "Loop.deep/Loop.deep": {lineOfDeep}, "Loop.deep/Loop.call": {lineOfCall},
		}[c.Names[i]+"/"+c.Names[i-1]]
		if line := names.Line(f); want != nil && !slices.Contains(want, line) {
			t.Errorf("%s calls %s on line %d, want %d", c.Names[i], c.Names[i-1], line, want)
		}
	}
}
