package main

import (
	"context"
	"path"
	"time"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// isJavaLauncher reports whether a program is the launcher of JVMs. It cannot be held until it
// is sampled: it maps the JVM by itself, and later.
func isJavaLauncher(program string) bool { return path.Base(program) == "java" }

// Times of a JVM's start, generous for a machine that is busy.
const (
	jvmStartTime = 10 * time.Second
	jvmPollTime  = 20 * time.Millisecond
)

// onceStarted returns an opener that waits until the JVM has started. Then an error is one.
func onceStarted(ctx context.Context, pid int, open session.Opener) session.Opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		if err := awaitJVM(ctx, pid); err != nil {
			return engine.Choice{}, err
		}
		return open(o)
	}
}

// awaitJVM waits until a JVM handles SIGQUIT, which it does at the end of its own start. It waits no longer if that
// cannot be seen: who talks to the JVM then says what is wrong.
func awaitJVM(ctx context.Context, pid int) error {
	tick := time.NewTicker(jvmPollTime)
	defer tick.Stop()
	for late := time.Now().Add(jvmStartTime); time.Now().Before(late); {
		if ready, err := attach.HandlesQuit(pid); ready || err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
