package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// program folds samples of a program of so many methods, whose map has some thousand contexts. A hundred stacks are
// hot.
type program struct {
	m      *ccmap.Map
	rnd    *rand.Rand
	stacks [][]ccmap.Frame
}

func newProgram(methods, stacks int) *program {
	p := &program{m: ccmap.New(ccmap.Options{}), rnd: rand.New(rand.NewPCG(1, 2))}
	for i := range methods {
		p.m.Names().Intern(ccmap.Method{
			Name: fmt.Sprintf("github.com/example/service/internal/package%d.(*Type%d).Method%d", i%50, i%300, i),
			File: fmt.Sprintf("/home/build/service/internal/package%d/file%d.go", i%50, i%200), StartLine: int32(i), Module: "0123456789abcdef",
		})
	}
	for range stacks {
		stack := make([]ccmap.Frame, 10+p.rnd.IntN(15))
		for j := range stack { // outermost frames are shared
			method := j
			if j > 4 {
				method = p.rnd.IntN(methods)
			}
			stack[len(stack)-1-j] = ccmap.Frame{Method: ccmap.FirstID + ccmap.MethodID(method), Offset: uint32(p.rnd.IntN(4))}
		}
		p.stacks = append(p.stacks, stack)
	}
	return p
}

// run folds samples of the first hot stacks, and some of the others.
func (p *program) run(samples, hot int) {
	for i := range samples {
		stack := p.stacks[p.rnd.IntN(hot)]
		if i%20 == 0 {
			stack = p.stacks[p.rnd.IntN(len(p.stacks))]
		}
		p.fold(stack)
	}
}

func (p *program) fold(stack []ccmap.Frame) {
	p.m.Fold(&ccmap.Sample{Frames: stack, Thread: 1, Weight: 1e7, Top: ccmap.TopNew, Fresh: int32(len(stack))})
}

// meter measures the CPU time of the process, which a busy machine does not make longer.
type meter struct{ since, sum time.Duration }

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *meter) start() { m.since = cpuTime() }
func (m *meter) stop()  { m.sum += cpuTime() - m.since }

func (m *meter) report(b *testing.B) {
	b.ReportMetric(float64(m.sum.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkAppend is what a target costs each ten seconds, without the sync: the snapshot, the delta, and its body.
func BenchmarkAppend(b *testing.B) {
	encodings := []struct {
		name   string
		encode func(*ccmap.Snapshot) int
	}{
		{"columns", func(s *ccmap.Snapshot) int {
			body, _ := encodeBody(s)
			return len(body)
		}},
		{"json", func(s *ccmap.Snapshot) int {
			var text bytes.Buffer
			export.Write(&text, export.JSON, s)
			return len(encoder.EncodeAll(text.Bytes(), nil))
		}},
		{"none", func(s *ccmap.Snapshot) int { return 0 }},
	}
	for _, hot := range []int{10, 30} {
		for _, e := range encodings {
			b.Run(fmt.Sprintf("hot=%d/encoding=%s", hot, e.name), func(b *testing.B) {
				p := newProgram(2000, 500)
				p.run(50000, 500)
				last := p.m.Snapshot()
				size, nodes := 0, 0
				var cpu meter
				for b.Loop() {
					b.StopTimer()
					p.run(500, hot)
					b.StartTimer()
					cpu.start()
					now := p.m.Snapshot()
					delta, err := ccmap.Delta(last, now)
					if err != nil {
						b.Fatal(err)
					}
					last = now
					s := delta.Snapshot()
					size += e.encode(s)
					cpu.stop()
					nodes += s.Len()
				}
				cpu.report(b)
				b.ReportMetric(float64(size)/float64(b.N), "bytes")
				b.ReportMetric(float64(nodes)/float64(b.N), "nodes")
			})
		}
	}
}

// BenchmarkRecover reads the log of an hour of 20 targets.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	p := newProgram(2000, 500)
	p.run(50000, 500)
	last := p.m.Snapshot()
	var streams []*Stream
	for i := range 20 {
		streams = append(streams, s.NewStream(Key{Target: fmt.Sprint("target", i)}))
	}
	for range 360 {
		p.run(500, 20)
		now := p.m.Snapshot()
		delta, err := ccmap.Delta(last, now)
		if err != nil {
			b.Fatal(err)
		}
		last = now
		var frames []Frame
		for _, stream := range streams {
			frames = append(frames, Frame{Stream: stream, From: day, To: day, Delta: delta.Snapshot()})
		}
		if err := s.Append(frames...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.LogBytes()), "log-bytes")
	s.Close()
	b.Run("open", func(b *testing.B) {
		var cpu meter
		for b.Loop() {
			cpu.start()
			s, err := Open(Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
			cpu.stop()
		}
		cpu.report(b)
	})
	b.Run("recover", func(b *testing.B) {
		b.ReportMetric(float64(dirBytes(b, dir)), "log-bytes")
		var cpu meter
		for b.Loop() {
			cpu.start()
			s, err := Open(Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			if got := s.Recovered(); len(got) != 20 {
				b.Fatal(len(got))
			}
			s.Close()
			cpu.stop()
		}
		cpu.report(b)
	})
}

func dirBytes(b *testing.B, dir string) int64 {
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	return s.LogBytes()
}

// BenchmarkList lists a store of 20 targets with a week of hours, and reads its index.
func BenchmarkList(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	small := profile(1)
	files := 0
	for target := range 20 {
		k := Key{Target: fmt.Sprint("target", target), Build: "0123456789abcdef"}
		for hour := range 168 {
			n := fileName{from: day.Add(time.Duration(hour) * time.Hour), to: day.Add(time.Duration(hour+1) * time.Hour), owner: k.Owner}
			name := k.dir() + "/" + n.String()
			f, err := s.disk.Create(name)
			if err != nil {
				b.Fatal(err)
			}
			f.Close()
			if err := s.noteQuality(name, QualityOf(small), small.Meta()); err != nil {
				b.Fatal(err)
			}
			files++
		}
	}
	s.writeIndex()
	b.Run("index", func(b *testing.B) {
		var cpu meter
		for b.Loop() {
			cpu.start()
			x, err := readIndex(s.disk)
			if err != nil || len(x.files) != files {
				b.Fatal(err, len(x.files))
			}
			cpu.stop()
		}
		cpu.report(b)
	})
	b.Run("list", func(b *testing.B) {
		var cpu meter
		for b.Loop() {
			cpu.start()
			if l := s.Reader().List(Filter{}); len(l.Entries) != files {
				b.Fatal(len(l.Entries))
			}
			cpu.stop()
		}
		cpu.report(b)
	})
}

// BenchmarkRead reads files of many contexts.
func BenchmarkRead(b *testing.B) {
	for _, nodes := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s, err := Open(Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			p := newProgram(5000, nodes/10) // a stack has more than ten nodes of its own
			for _, stack := range p.stacks {
				p.fold(stack)
			}
			if _, err := s.File(web, day, day, p.m.Snapshot()); err != nil {
				b.Fatal(err)
			}
			e := s.Reader().List(Filter{}).Entries[0]
			b.ReportMetric(float64(e.Size), "bytes")
			var cpu meter
			for b.Loop() {
				cpu.start()
				m, err := s.Reader().Read(e)
				if err != nil || m.Len() < nodes {
					b.Fatal(err, m.Len())
				}
				cpu.stop()
			}
			cpu.report(b)
		})
	}
}

// BenchmarkSend makes a contribution of a period of so many contexts, reads it as it is sent, and notes that the hub has
// it: all that a daemon does for the hub each hub.every, but for the request.
func BenchmarkSend(b *testing.B) {
	for _, contexts := range []int{300, 1000} {
		b.Run(fmt.Sprintf("contexts=%d", contexts), func(b *testing.B) {
			s, err := Open(Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			o, err := s.OpenOutbox("one", all)
			if err != nil {
				b.Fatal(err)
			}
			p := newProgram(500, contexts)
			for _, stack := range p.stacks {
				p.fold(stack)
			}
			at := day
			var cpu meter
			for b.Loop() {
				at = at.Add(time.Minute)
				if _, err := s.File(web, at, at.Add(time.Minute), p.m.Snapshot()); err != nil {
					b.Fatal(err)
				}
				cpu.start()
				err := o.Seal(1)
				sealed, _ := o.Waiting()
				if err != nil || len(sealed) != 1 {
					b.Fatal(len(sealed), err)
				}
				_, err = o.Frame(sealed[0])
				if err := errors.Join(err, o.Done(sealed[0])); err != nil {
					b.Fatal(err)
				}
				cpu.stop()
			}
			cpu.report(b)
		})
	}
}
