package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
)

// asyncProfiler is the library of async-profiler, which a JVM loads into itself. It is built
// elsewhere: a flag says where.
type asyncProfiler string

const asyncName = "async-profiler"

// asyncProfiler returns the library in the folder of a build; "" without the flag.
func (f *field) asyncProfiler() (asyncProfiler, error) {
	if f.async == "" {
		return "", nil
	}
	for _, folder := range []string{"", "lib", "build/lib"} {
		if found := glob(filepath.Join(f.async, folder, "libasyncProfiler.so")); len(found) > 0 {
			path, err := filepath.Abs(found[0])
			return asyncProfiler(path), err
		}
	}
	return "", fmt.Errorf("find libasyncProfiler.so in %s: build async-profiler there, or leave out -async", f.async)
}

// asyncPatience is how long a busy machine may take to load the library.
const asyncPatience = 30 * time.Second

// do makes a JVM load the library, unless it has, and gives it a command.
func (a asyncProfiler) do(ctx context.Context, pid int, command string) error {
	jvm, err := attach.Open(pid)
	if err != nil {
		return fmt.Errorf("%s: %w", asyncName, err)
	}
	defer jvm.Close()
	answer, err := jvm.Command(ctx, asyncPatience, "load", string(a), "true", command)
	if err == nil && strings.TrimSpace(answer) != "return code: 0" {
		err = errors.New(strings.TrimSpace(answer))
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", asyncName, command, err)
	}
	return nil
}

// record records samples of CPU time every 10 ms into a file while do runs.
func (a asyncProfiler) record(ctx context.Context, pid int, file string, do func(context.Context) error) error {
	return a.recordEvery(ctx, pid, 10*time.Millisecond, file, do)
}

// recordEvery is record with another interval. Its signal is not the one that JDK 25 samples with.
func (a asyncProfiler) recordEvery(ctx context.Context, pid int, interval time.Duration, file string, do func(context.Context) error) error {
	if err := a.do(ctx, pid, fmt.Sprintf("start,event=cpu,interval=%d,signal=26,jfr,file=%s", interval.Nanoseconds(), file)); err != nil {
		return err
	}
	return errors.Join(do(ctx), a.do(ctx, pid, "stop"))
}
