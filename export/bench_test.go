package export

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// forest is a map of about the given number of nodes: stacks of 20 to 39 frames
// that part ways here and there, with a position at the end of each.
func forest(nodes int) *ccmap.Map {
	rng := rand.New(rand.NewPCG(1, 2))
	m := ccmap.New(ccmap.Options{})
	var methods []ccmap.MethodID
	for i := range 2000 {
		methods = append(methods, m.Names().Intern(ccmap.Method{
			Name:      fmt.Sprintf("example.com/some/package%d.(*Type%d).Method%d", i%40, i%200, i),
			File:      fmt.Sprintf("/src/example.com/some/package%d/file%d.go", i%40, i%200),
			StartLine: int32(10 * i),
			Module:    "build-id",
		}))
	}
	for m.Len() < nodes {
		n := m.Root()
		for depth := range 20 + rng.IntN(20) {
			branches := 1 + 20*rng.IntN(2)*rng.IntN(2)*rng.IntN(2)
			n = m.Child(n, uint32(depth), methods[(int(n)*31+rng.IntN(branches))%len(methods)])
		}
		m.Add(n, ccmap.Counters{Activations: 1})
		m.Add(m.Child(n, 5, ccmap.NoMethod), ccmap.Counters{Samples: 3, Time: 30e6})
	}
	return m
}

const benchNodes = 100_000

func BenchmarkWrite(b *testing.B) {
	s := forest(benchNodes).Snapshot()
	for _, f := range Formats() {
		b.Run("format="+f.String(), func(b *testing.B) {
			var written countWriter
			for b.Loop() {
				written = 0
				if err := Write(&written, f, s); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s.Len(), int64(written))
		})
	}
}

type countWriter int64

func (w *countWriter) Write(p []byte) (int, error) {
	*w += countWriter(len(p))
	return len(p), nil
}

func BenchmarkRead(b *testing.B) {
	s := forest(benchNodes).Snapshot()
	for _, f := range Formats() {
		b.Run("format="+f.String(), func(b *testing.B) {
			data := encode(b, f, s)
			for b.Loop() {
				if _, _, err := Read(bytes.NewReader([]byte(data)), ReadOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s.Len(), int64(len(data)))
		})
	}
}

// What merging costs for each file: to read it, and to add it to a sum that has
// all its contexts.
func BenchmarkPart(b *testing.B) {
	data := encode(b, Pprof, forest(benchNodes).Snapshot())
	part := func(b *testing.B) *Part {
		p, err := ReadPart(strings.NewReader(data), ReadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	b.Run("step=read", func(b *testing.B) {
		for b.Loop() {
			part(b).pprof.release()
		}
		report(b, benchNodes, int64(len(data)))
	})
	b.Run("step=add", func(b *testing.B) {
		sum := NewSum(ccmap.New(ccmap.Options{}))
		for b.Loop() {
			b.StopTimer()
			p := part(b)
			b.StartTimer()
			if err := sum.Add(p, Weight{}); err != nil {
				b.Fatal(err)
			}
		}
		report(b, benchNodes, int64(len(data)))
	})
}

// plantation is a map of points alone: call sites with two values in three
// contexts each.
func plantation(points int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Names: forest(0).Names()})
	for i := range points {
		p := ccmap.Point{Origin: ccmap.OriginBurst, Method: ccmap.MethodID(i % 2000), Offset: uint32(i / 8000), Nulls: ccmap.NullsUnknown}
		p.Values = []ccmap.PointValue{{Value: uint64(i * 7 % 2000), Count: 1000}, {Value: uint64(i * 3 % 2000), Count: 10}}
		if context := i / 2000 % 4; context > 0 {
			p.Callers = []ccmap.Frame{{Method: ccmap.MethodID(context)}, {Method: 1}, {Method: 2}}
		}
		m.AddPoint(p)
	}
	return m
}

func BenchmarkPoints(b *testing.B) {
	const points = 10_000
	s := plantation(points).Snapshot()
	for f := Pprof; f <= JSON; f++ {
		data := encode(b, f, s)
		b.Run("step=write/format="+f.String(), func(b *testing.B) {
			for b.Loop() {
				if err := Write(io.Discard, f, s); err != nil {
					b.Fatal(err)
				}
			}
			reportPer(b, "point", points, int64(len(data)))
		})
		b.Run("step=read/format="+f.String(), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Read(strings.NewReader(data), ReadOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			reportPer(b, "point", points, int64(len(data)))
		})
	}
}

func BenchmarkCompress(b *testing.B) {
	s := forest(benchNodes).Snapshot()
	for name, c := range map[string]Compression{"gzip": Gzip, "zstd": Zstd} {
		b.Run("compression="+name, func(b *testing.B) {
			var written countWriter
			for b.Loop() {
				written = 0
				if err := writeCompressed(io.Writer(&written), XML, c, s); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s.Len(), int64(written))
		})
	}
}

// million is a map of a million nodes or, with -short, of ten thousand: CI runs each benchmark once.
var million = sync.OnceValue(func() *ccmap.Snapshot {
	if testing.Short() {
		return forest(10_000).Snapshot()
	}
	return forest(1_000_000).Snapshot()
})

// BenchmarkFiles reads and writes one large map in each format, uncompressed, with the
// same profile.proto read and written by google/pprof.
func BenchmarkFiles(b *testing.B) {
	for _, f := range Formats() {
		data := encode(b, f, million())
		measure(b, f.String(), "ccmapd", "write", len(data), func() error { return Write(io.Discard, f, million()) })
		measure(b, f.String(), "ccmapd", "read", len(data), func() error {
			_, _, err := Read(strings.NewReader(data), ReadOptions{MaxMemory: 1 << 30})
			return err
		})
	}
	data := encode(b, Pprof, million())
	p, err := profile.Parse(strings.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	measure(b, Pprof.String(), "google/pprof", "write", len(data), func() error { return p.WriteUncompressed(io.Discard) })
	measure(b, Pprof.String(), "google/pprof", "read", len(data), func() error {
		_, err := profile.Parse(strings.NewReader(data))
		return err
	})
}

// measure runs a benchmark, and reports its CPU time beside its elapsed time: the
// collector of garbage runs on other CPUs.
func measure(b *testing.B, format, by, step string, bytes int, f func() error) {
	b.Run(fmt.Sprintf("format=%s/step=%s/by=%s", format, step, by), func(b *testing.B) {
		b.SetBytes(int64(bytes))
		b.ReportAllocs()
		begin := cpuTime(b)
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((cpuTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
	})
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func report(b *testing.B, nodes int, bytes int64) { reportPer(b, "node", nodes, bytes) }

func reportPer(b *testing.B, what string, n int, bytes int64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/"+what)
	b.ReportMetric(float64(bytes)/float64(n), "B/"+what)
}
