// Package mergebench compares ccmapd merge with go tool pprof -proto, and with gunzip alone,
// over the same profiles, in turns:
//
//	go -C scripts test ./mergebench -bench . -benchtime 3x -files 1000 -contexts 10000 -program 100000
//
// The profiles are of one program on many machines, always the same. The ratios are of
// wall time, CPU time and peak memory, as the kernel counts them for a process (wait4). Gunzip
// is klauspost's on all CPUs, in this process: any merge takes that long at least. A
// machine may be noisy, but the ratio of two neighbouring runs usually is not.
package mergebench

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

var (
	dir      = flag.String("dir", "", "keep the profiles in this directory, and use those that are there")
	files    = flag.Int("files", 4, "profiles")
	contexts = flag.Int("contexts", 1000, "contexts of a profile")
	program  = flag.Int("program", 10_000, "contexts of the program, the union of many profiles")
)

func BenchmarkMerge(b *testing.B) {
	work := b.TempDir()
	if *dir == "" {
		*dir = work
	}
	ccmapd := filepath.Join(work, "ccmapd")
	if err := campaign.Build(b.Context(), ccmapd, "./cmd/ccmapd"); err != nil {
		b.Fatal(err)
	}
	pprof, err := exec.Command("go", "tool", "-n", "pprof").Output() // so that the go command is not measured
	if err != nil {
		b.Fatalf("find go tool pprof: %v", err)
	}
	paths, err := newFleet(*program, *contexts).write(*dir, *files)
	if err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("files=%d", *files), func(b *testing.B) {
		ours := tool{name: "ccmapd", command: []string{ccmapd, "merge", "-o"}, output: filepath.Join(work, "ours.pb.gz")}
		peer := tool{name: "pprof", command: []string{strings.TrimSpace(string(pprof)), "-proto", "-symbolize=none", "-output"}, output: filepath.Join(work, "peer.pb.gz")}
		var gunzip unpacker
		for b.Loop() {
			peer.merge(b, paths)
			gunzip.run(b, paths)
			ours.merge(b, paths)
		}
		b.ReportMetric(ours.wall.Seconds()/gunzip.wall.Seconds(), "ccmapd/gunzip")
		b.ReportMetric(gunzip.wall.Seconds()/float64(b.N), "gunzip-s")
		b.ReportMetric(gunzip.cpu.Seconds()/float64(b.N), "gunzip-cpu-s")
		b.ReportMetric(peer.wall.Seconds()/ours.wall.Seconds(), "pprof/ccmapd")
		b.ReportMetric(peer.cpu.Seconds()/ours.cpu.Seconds(), "pprof/ccmapd-cpu")
		b.ReportMetric(float64(peer.peak)/float64(ours.peak), "pprof/ccmapd-peak")
		ours.report(b)
		peer.report(b)
		if got, want := ours.total(b), peer.total(b); got != want {
			b.Errorf("the merged profiles differ: ccmapd has %+v, pprof %+v", got, want)
		}
	})
}

// tool is a command that merges profiles, COMMAND OUTPUT FILES, with the cost of its runs.
type tool struct {
	name      string
	command   []string
	output    string
	wall, cpu time.Duration
	peak      int64 // bytes of memory
}

func (t *tool) merge(b *testing.B, paths []string) {
	b.Helper()
	cmd := exec.Command(t.command[0], append(append(t.command[1:len(t.command):len(t.command)], t.output), paths...)...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", t.name, err, &messages)
	}
	t.wall += time.Since(start)
	t.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.peak = max(t.peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10) // kB
}

// unpacker decompresses profiles and drops them, with the cost of its runs.
type unpacker struct{ wall, cpu time.Duration }

func (u *unpacker) run(b *testing.B, paths []string) {
	b.Helper()
	start, used := time.Now(), cpuTime(b)
	work, failed := make(chan string, len(paths)), make(chan error)
	for _, path := range paths {
		work <- path
	}
	close(work)
	goroutines := runtime.GOMAXPROCS(0)
	for range goroutines {
		go func() { failed <- unpack(work) }()
	}
	for range goroutines {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	u.wall += time.Since(start)
	u.cpu += cpuTime(b) - used
}

// unpack decompresses profiles, with one decoder for all.
func unpack(paths <-chan string) error {
	z, plain := new(gzip.Reader), make([]byte, 64<<10)
	for path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			err = z.Reset(bytes.NewReader(data))
		}
		for err == nil {
			_, err = z.Read(plain)
		}
		if err != io.EOF {
			return fmt.Errorf("unpack %s: %w", path, err)
		}
	}
	return nil
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (t *tool) report(b *testing.B) {
	runs := float64(b.N)
	b.ReportMetric(t.wall.Seconds()/runs, t.name+"-s")
	b.ReportMetric(t.cpu.Seconds()/runs, t.name+"-cpu-s")
	b.ReportMetric(float64(t.peak)/1e6, t.name+"-peak-MB")
	b.ReportMetric(float64(t.cpu.Nanoseconds())/runs/float64(*files**contexts), t.name+"-cpu-ns/sample")
}

// total returns the totals of the output.
func (t *tool) total(b *testing.B) ccmap.Counters {
	b.Helper()
	s, err := campaign.ReadProfile(t.output)
	if err != nil {
		b.Fatal(err)
	}
	return s.Total()
}
