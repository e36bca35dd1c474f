package main

import (
	"cmp"
	"context"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/family"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// childrenFlag is the flag that samples child processes, too.
const childrenFlag = "children"

// subject is a process to sample, with its children where they are asked for.
type subject struct {
	config session.Config
	opener func(context.Context) session.Opener
	close  func() // releases what is left, when the session has ended
}

// sampledBy returns what a session with a process needs. Its children are watched for from now on.
func (env *environment) sampledBy(f *samplingFlags, pid int) (subject, error) {
	if !f.children {
		open := func(ctx context.Context) session.Opener { return env.toProcess(ctx, f, pid) }
		return subject{f.config(env), open, func() {}}, nil
	}
	const unlimited = -1
	c := f.config(env)
	shared := engine.NewShared(engine.SharedOptions{MaxHostOverhead: cmp.Or(f.ofHost/100, unlimited), Logger: c.Logger})
	all := *env
	all.engines = shared.Share(env.engines)
	open := func(ctx context.Context) session.Opener { return all.toProcess(ctx, f, pid) }
	children, err := family.Open(family.Options{
		PID: pid, MaxMemory: c.MaxMemory, Window: c.Window, Logger: c.Logger,
		Session: func(ctx context.Context, pid int) (session.Config, session.Opener) { return all.childOf(ctx, *f, pid) },
		Outputs: func(name string, pid int) []manager.Dump { return f.dumpsBeside(env, name, pid) },
	})
	if err != nil {
		return subject{}, err
	}
	return subject{children.Adopt(c), open, func() {
		children.Close()
		if err := shared.Close(); err != nil {
			c.Logger.Warn("end sampling of CPUs", "error", err)
		}
	}}, nil
}

// childOf returns the session of a child. The flags are its own, since its owner may bound them.
func (env *environment) childOf(ctx context.Context, f samplingFlags, pid int) (session.Config, session.Opener) {
	return f.config(env), env.toProcess(ctx, &f, pid)
}

// dumpsBeside returns the dumps of the profile of another program.
func (f *samplingFlags) dumpsBeside(env *environment, name string, pid int) []manager.Dump {
	var dumps []manager.Dump
	for _, pattern := range f.outputs {
		dumps = append(dumps, f.dump(env, output.Beside(pattern, name), pid))
	}
	if f.lone.store {
		dumps = append(dumps, env.newLone(f).output(ccmap.Target{Executable: name}, f.unit()))
	}
	return dumps
}
