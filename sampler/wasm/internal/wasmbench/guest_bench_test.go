// Package wasmbench measures the cost of sampling WebAssembly guests from inside, as
// benchmarks:
//
//	go test ./sampler/wasm/internal/wasmbench -bench . -benchtime 1x -short            two small guests, as CI does
//	go test ./sampler/wasm/internal/wasmbench -bench . -benchtime 1x                   few guests, half a minute
//	go test ./sampler/wasm/internal/wasmbench -bench . -benchtime 1x -count 20 \
//		-guests all -length 120ms >guests && go -C scripts tool benchstat -row /guest -col /way guests
//
// The guests are real programs (package guests) and two small ones, one that hardly calls
// and one that hardly does anything else. Every figure is paired: a run on plain wazero
// and a run in another way alternate in this process, and a pair gives one ratio. The
// ways are
//
//   - plain: plain again, which is the noise;
//   - polls: rewritten, with nothing but polls, whose mark is never set;
//   - sampled at 50, 10 and 1 ms: the sampler, with exact activations and caught calls,
//     and a session that folds its samples into a map, as in an embedder;
//   - listener: plain, with a listener on every function that does nothing. It also gives
//     the time that it adds, divided by the time that sampling adds at 10 ms, by the
//     medians so far; less than 0 if sampling adds none.
//
// Runs are measured twice: by the CPU time of the guest's own thread, which other
// processes hardly disturb, and by wall time.
package wasmbench

import (
	"context"
	"flag"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	guestNames = flag.String("guests", "matrix,fib,c-parse,go-queens,sqlite", "comma-separated names of the guests to measure, or all")
	length     = flag.Duration("length", 60*time.Millisecond, "processor time of a plain run")
)

// prepared is a program that is built in all ways, for all counts of a benchmark.
type prepared struct {
	program
	buildSet
	rounds int                  // that take the length
	cpu    map[string][]float64 // other/plain, by way
}

var known = map[string]*prepared{}

func prepare(b *testing.B, p program) *prepared {
	b.Helper()
	if known[p.name] != nil {
		return known[p.name]
	}
	ctx := context.WithoutCancel(b.Context()) // it outlives this count
	set, err := buildAll(ctx, p.binary)
	if err != nil {
		b.Fatal(err)
	}
	all := &prepared{program: p, buildSet: set, cpu: map[string][]float64{}}
	for all.rounds = 1; ; all.rounds *= 2 {
		if s := measure(b, p, set.plain, all.rounds); s.cpu >= *length/2 {
			all.rounds = max(1, int(float64(all.rounds)*float64(*length)/float64(s.cpu)))
			break
		}
	}
	known[p.name] = all
	return all
}

// load loads the guests to measure.
func load(b *testing.B) []program {
	b.Helper()
	names := *guestNames
	if testing.Short() {
		names = "matrix,c-parse"
	}
	programs, err := loadPrograms(b.Context(), strings.Split(names, ","))
	if err != nil {
		b.Fatal(err)
	}
	return programs
}

func BenchmarkGuest(b *testing.B) {
	for _, program := range load(b) {
		b.Run("guest="+program.name, func(b *testing.B) {
			p := prepare(b, program)
			for _, w := range p.ways() {
				b.Run("way="+w.name, func(b *testing.B) { p.compare(b, w) })
			}
		})
	}
}

// BenchmarkCompile reports the cost of modules before they run.
func BenchmarkCompile(b *testing.B) {
	for _, program := range load(b) {
		b.Run("guest="+program.name, func(b *testing.B) {
			var cost compileCost
			var err error
			p := prepare(b, program)
			for b.Loop() {
				if cost, err = p.compileCost(b.Context(), p.binary); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(cost.speed, "MB/s")
			b.ReportMetric(cost.growth, "bytes/plain")
			b.ReportMetric(cost.time, "compile/plain")
		})
	}
}

// compare runs pairs. Which run is first alternates.
func (p *prepared) compare(b *testing.B, w way) {
	if w.interval != 0 {
		if err := w.build.profiler.SetInterval(w.interval); err != nil {
			b.Fatal(err)
		}
	}
	rounds := max(1, p.rounds/w.shorter)
	var cpu, wall []float64
	for plainFirst := true; b.Loop(); plainFirst = !plainFirst {
		var plain, other spent
		if plainFirst {
			plain = measure(b, p.program, p.plain, rounds)
		}
		other = measure(b, p.program, w.build, rounds)
		if !plainFirst {
			plain = measure(b, p.program, p.plain, rounds)
		}
		cpu, wall = append(cpu, ratio(other.cpu, plain.cpu)), append(wall, ratio(other.wall, plain.wall))
	}
	p.cpu[w.name] = append(p.cpu[w.name], cpu...)
	b.ReportMetric(median(cpu), "cpu/plain")
	b.ReportMetric(median(wall), "wall/plain")
	if sampled := p.cpu[way10]; w.name == wayListener && len(sampled) > 0 {
		b.ReportMetric((median(p.cpu[wayListener])-1)/(median(sampled)-1), "added/10ms")
	}
}

// median returns the middle of some values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// spent is the time of a run: wall time, and CPU time of its own thread. The second
// leaves out other processes and other threads of this one.
type spent struct{ wall, cpu time.Duration }

// measure runs a program once.
func measure(b *testing.B, p program, with build, rounds int) spent {
	b.Helper()
	runtime.GC() // garbage of earlier runs
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, before := time.Now(), threadTime()
	if err := p.run(b.Context(), with, rounds); err != nil {
		b.Fatal(err)
	}
	return spent{time.Since(start), threadTime() - before}
}

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has the clock
	}
	return time.Duration(t.Nano())
}
