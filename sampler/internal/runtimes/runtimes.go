// Package runtimes finds out what a process runs, and opens that runtime for an engine:
//
//  1. A process that has mapped libjvm.so is a JVM, whatever else its libraries hold. HotSpot
//     is told from OpenJ9 by the library's name.
//  2. All others are tried as Go programs.
//  3. What is neither may be a native image of GraalVM, which the error then names.
//
// Open belongs to the engine's goroutine, as the runtime does that it returns.
package runtimes

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/goproc"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot"
)

// Open opens the runtime of a process. The watch gives up reads of the target's memory and
// files that never return. Errors wrap the errors of package sampler: one that is no permission
// and not about the process is [sampler.ErrNotManaged], or [sampler.ErrProgram] with the name
// of the runtime.
func Open(ctx context.Context, o sampler.ProcessOptions, w *hang.Watch) (process.Runtime, error) {
	vm, err := vmOf(o.PID)
	if err != nil {
		return nil, err
	}
	switch vm {
	case openJ9:
		return nil, process.As(fmt.Errorf("it runs on Eclipse OpenJ9, whose stacks are not known here: %w; a HotSpot JVM (OpenJDK, Temurin) can run the program, too", sampler.ErrUnsupported), sampler.ErrProgram)
	case hotSpot:
		jvm, err := hotspot.Open(ctx, o, w)
		if err != nil {
			return nil, err // not a nil JVM in an interface
		}
		return jvm, nil
	}
	golang, err := goproc.Open(ctx, o, w)
	switch {
	case errors.Is(err, sampler.ErrNotManaged):
		return nil, explain(ctx, o.PID, w)
	case err != nil:
		return nil, err
	}
	if o.NoLabels {
		golang.IgnoreLabels()
	}
	return golang, nil
}

// explain says what a process is that is neither a Go program nor a JVM.
func explain(ctx context.Context, pid int, w *hang.Watch) error {
	if native, _ := gosym.HasSection(ctx, pid, w, gosym.SectionSVM); native {
		return process.As(fmt.Errorf("it is a native image of GraalVM, whose stacks are not known here: %w; HotSpot can run the program from its class files", sampler.ErrUnsupported), sampler.ErrProgram)
	}
	exe, err := process.Executable(pid)
	if err != nil {
		exe = "the executable"
	}
	return fmt.Errorf("%s: %w", exe, sampler.ErrNotManaged)
}

// IsHotSpot reports whether a process is taken for a HotSpot JVM. It may be none.
func IsHotSpot(pid int) bool {
	vm, err := vmOf(pid)
	return err == nil && vm == hotSpot
}

// vm is a virtual machine for Java.
type vm uint8

const (
	noVM vm = iota
	hotSpot
	openJ9
)

// vmOf tells by its libraries on which virtual machine a process runs. OpenJ9 has a libjvm.so,
// too, which leads to its own library.
func vmOf(pid int) (vm, error) {
	libraries, err := process.Libraries(pid)
	if err != nil {
		return noVM, err
	}
	found := noVM
	for _, library := range libraries {
		switch name := strings.TrimSuffix(path.Base(library), " (deleted)"); {
		case strings.HasPrefix(name, "libj9vm"):
			return openJ9, nil
		case name == "libjvm.so":
			found = hotSpot
		}
	}
	return found, nil
}
