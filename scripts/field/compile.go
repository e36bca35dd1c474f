package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/compiler"
)

// compiled is a package that takes the compiler half a minute.
const compiled = "cmd/compile/internal/ssa"

// measureCompiler runs the Go compiler from start to end under ccmapd, while it writes a
// profile of itself.
func measureCompiler(ctx context.Context, f *field, name string) (row, error) {
	w := f.newWindow(name)
	w.peer = filepath.Join(filepath.Dir(w.file), "runtime.pb.gz")
	if err := os.MkdirAll(filepath.Dir(w.file), 0o755); err != nil {
		return row{}, err
	}
	compile, err := compiler.Command(compiled, f.Path("importcfg"))
	if err != nil {
		return row{}, err
	}
	f.Say("watching %s", name)
	run := []string{f.Ccmapd, "run", "--json", "-o", w.file, "-o", w.pprof, "-o", w.pgo, "--tune=false", "-i", "10ms", "--"}
	run = append(append(run, compile[0], "-cpuprofile="+w.peer), compile[1:]...)
	var said bytes.Buffer // run reports to its standard error
	cmd, err := campaign.Launch{Command: run}.Cmd(ctx)
	if err != nil {
		return row{}, err
	}
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return row{}, fmt.Errorf("run the compiler: %w\n%s", err, &said)
	}
	report, err := campaign.ParseReport(said.Bytes())
	if err != nil {
		return row{}, err
	}
	w.clock = withChildren(cmd.ProcessState.SysUsage()) - report.CPU
	return f.judge(ctx, name, "the Go compiler on `"+compiled+"`, under `run --`", w)
}

// withChildren returns the CPU time of a process and of all children that it waited for.
func withChildren(usage any) time.Duration {
	u, ok := usage.(*syscall.Rusage)
	if !ok {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
