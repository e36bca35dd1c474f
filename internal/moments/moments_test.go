package moments

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

func newTestLog() *Log {
	l := &Log{offset: func() int64 { return int64(time.Hour) }}
	l.ahead = l.offset()
	l.begin()
	return l
}

func read(t interface{ Fatal(...any) }, data []byte) (all []ccmap.Moment, lost uint64) {
	lost, err := Read(bytes.NewReader(data), func(m ccmap.Moment) bool { all = append(all, m); return true })
	if err != nil {
		t.Fatal(err)
	}
	return all, lost
}

// TestLog: a file has all moments that were added, to a millisecond; their weights are right in the sum, and each by
// three percent and what was carried. So it is across chunks, files, and chunks that could not be written.
func TestLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newTestLog()
		var file []byte
		var want []ccmap.Moment
		kept, lost := 0, uint64(0) // of want
		at := int64(time.Minute)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				c := l.Take()
				if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
					lost += uint64(len(want) - kept)
					want = want[:kept]
					l.Lose(c)
					continue
				}
				file, kept = append(file, c.Bytes...), len(want)
			case 1:
				l.Begin()
			default:
				at += rapid.Int64Range(-int64(time.Second), int64(time.Minute)).Draw(t, "time")
				m := ccmap.Moment{Time: at, Path: rapid.Uint64Range(1, 5).Draw(t, "path"), Weight: rapid.Int64Range(0, 1<<40).Draw(t, "weight")}
				l.Add(m)
				m.Time = (m.Time + int64(time.Hour)) / 1e6 * 1e6
				want = append(want, m)
			}
		}
		file = append(file, l.Take().Bytes...)
		got, gotLost := read(t, file)
		if gotLost != lost && len(want) > kept || len(got) != len(want) {
			t.Fatalf("%d moments, %d lost; want %d, %d", len(got), gotLost, len(want), lost)
		}
		for i := range got {
			if got[i].Time != want[i].Time || got[i].Path != want[i].Path {
				t.Fatalf("moment %d: %v, want %v", i, got[i], want[i])
			}
		}
		if lost > 0 {
			return // with their weights
		}
		var sum, wanted int64
		for i := range got {
			sum, wanted = sum+got[i].Weight, wanted+want[i].Weight
			if math.Abs(float64(sum-wanted)) > 0.07*float64(1<<40) {
				t.Fatalf("after %d moments the weight is %d, want %d", i+1, sum, wanted)
			}
		}
	})
}

// TestSize: samples of a busy program take at most four bytes each.
func TestSize(t *testing.T) {
	t.Parallel()
	l, file := newTestLog(), []byte(nil)
	const samples = 100_000 // of 100 a second, taken every 10 s
	seed := uint64(1)
	for i := range samples {
		seed = seed*6364136223846793005 + 1442695040888963407
		path := seed >> 33 % (1 << (seed >> 60)) // a few contexts have most samples, of some ten thousand
		l.Add(ccmap.Moment{Time: int64(i) * 1e7, Path: path*0x9e3779b97f4a7c15 + 1, Weight: 1e7 + int64(seed>>40)%1e5})
		if i%1000 == 999 {
			file = append(file, l.Take().Bytes...)
		}
	}
	if each := float64(len(file)) / samples; each > 4 {
		t.Errorf("a sample takes %.2f bytes", each)
	} else {
		t.Logf("a sample takes %.2f bytes", each)
	}
}

// TestBounds: a log that nobody takes stops to grow, and counts what it leaves out.
func TestBounds(t *testing.T) {
	t.Parallel()
	l := newTestLog()
	const samples = 300_000
	for i := range samples {
		l.Add(ccmap.Moment{Time: int64(i), Path: uint64(i) + 1, Weight: 1})
	}
	if held := len(l.records) + pathBytes*len(l.paths); held > mostHeld+pathBytes+32 {
		t.Errorf("it holds %d bytes", held)
	}
	first := l.Take()
	l.Add(ccmap.Moment{Path: 1})
	second := l.Take()
	got, lost := read(t, slices.Concat(first.Bytes, second.Bytes))
	if !second.Begins || len(got)+int(lost) != samples+1 || lost == 0 {
		t.Errorf("%d moments, %d lost, the next chunk begins a file: %v", len(got), lost, second.Begins)
	}
}

// TestDamage: a file that was cut has what is before the cut; a chunk with a flipped bit is an error after all before it.
func TestDamage(t *testing.T) {
	t.Parallel()
	l := newTestLog()
	var file []byte
	var ends []int
	for i := range 3 {
		l.Add(ccmap.Moment{Time: int64(i), Path: uint64(i) + 7, Weight: 3})
		file = append(file, l.Take().Bytes...)
		ends = append(ends, len(file))
	}
	wholeUpTo := func(n int) int {
		return len(slices.DeleteFunc(slices.Clone(ends), func(end int) bool { return end > n }))
	}
	for n := len(header); n < len(file); n++ {
		if all, _ := read(t, file[:n]); len(all) != wholeUpTo(n) {
			t.Fatalf("of %d bytes there are %d moments", n, len(all))
		}
	}
	for n := len(header); n < len(file); n++ {
		bad := slices.Clone(file)
		bad[n] ^= 0x10
		got := 0
		_, err := Read(bytes.NewReader(bad), func(ccmap.Moment) bool { got++; return true })
		if got != wholeUpTo(n) || err != nil && !errors.Is(err, errDamaged) {
			t.Fatalf("byte %d: %d moments, %v", n, got, err)
		}
	}
}

// FuzzRead: whatever a file has, reading it ends, and what was written is read.
func FuzzRead(f *testing.F) {
	l := newTestLog()
	for i := range 50 {
		l.Add(ccmap.Moment{Time: int64(i) * 1e7, Path: uint64(i % 5), Weight: int64(i)})
	}
	f.Add(l.Take().Bytes, false)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 2, 1, 65, 2, 0, 2}, true)
	f.Fuzz(func(t *testing.T, data []byte, isPlain bool) {
		if isPlain { // what a checksum would keep out
			data = appendFrame([]byte(header), data)
		}
		var all []ccmap.Moment
		_, err := Read(bytes.NewReader(data), func(m ccmap.Moment) bool {
			if m.Time < 0 || m.Weight < 0 {
				t.Fatalf("%v", m)
			}
			all = append(all, m)
			return len(all) < 1<<16
		})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Write(&b, slices.Values(all)); err != nil {
			t.Fatal(err)
		}
		if again, lost := read(t, b.Bytes()); len(again)+int(lost) != len(all) {
			t.Fatalf("%d moments, %d lost, of %d", len(again), lost, len(all))
		}
	})
}

// BenchmarkMoments folds known stacks, and tells a log of each.
func BenchmarkMoments(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			l, o := NewLog(), ccmap.Options{}
			if kept {
				o.Moments = l.Add
			}
			m := ccmap.New(o)
			var samples []ccmap.Sample
			for i := range 200 {
				s := ccmap.Sample{Weight: 1e7, Fresh: 1}
				for d := range 20 {
					name := fmt.Sprintf("m%d", (i*d)%97)
					s.Frames = append(s.Frames, ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: name}), Offset: uint32(d)})
				}
				samples = append(samples, s)
			}
			for i := 0; b.Loop(); i++ {
				s := &samples[i%len(samples)]
				s.Time = int64(i) * 1e6
				if m.Fold(s); i%10_000 == 0 {
					l.Take()
				}
			}
		})
	}
}
