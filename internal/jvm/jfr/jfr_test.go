package jfr

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// readOne reads the first chunk of a recording.
func readOne(t testing.TB, data []byte) *Chunk {
	t.Helper()
	c, err := NewReader(bytes.NewReader(data), nil).Next()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func samplesOf(c *Chunk, m Measure) []Sample {
	var s Settings
	c.Survey(&s)
	return slices.Collect(c.Samples(m, &s))
}

func TestSamples(t *testing.T) {
	t.Parallel()
	c := readOne(t, recording())
	samples := samplesOf(c, CPU)
	if len(samples) != 3 || c.Corrupt() != 0 {
		t.Fatalf("%d samples, %d corrupt values", len(samples), c.Corrupt())
	}
	s := samples[2]
	if s.Weight != int64(10*time.Millisecond) || s.Time != 1e18+12_000 || s.Key != 2 || s.Thread.Text("javaName") != "w1" || s.Thread.Int("osThreadId") != 77 {
		t.Errorf("sample %+v of %q %d", s, s.Thread.Text("javaName"), s.Thread.Int("osThreadId"))
	}
	frames, truncated := Stack(nil, samples[0].Trace)
	want := []Method{
		{Class: "Main", Name: "run", Descriptor: "()V", Native: true},
		{Class: "Main", Name: "main", Descriptor: "()V", Static: true},
	}
	if diff := cmp.Diff(want, []Method{frames[0].Info(), frames[1].Info()}); diff != "" || truncated {
		t.Errorf("truncated %v; methods (-want +got):\n%s", truncated, diff)
	}
	if f := frames[0]; f.Line != -1 || f.Bytecode != -1 || frames[1].Line != 12 || frames[1].Bytecode != 7 {
		t.Errorf("frames %+v", frames)
	}
	if _, truncated := Stack(nil, s.Trace); !truncated {
		t.Error("the second stack is whole")
	}
	if locks := samplesOf(c, Lock); len(locks) != 1 || locks[0].Weight != int64(5*time.Millisecond) {
		t.Errorf("locks %+v", locks)
	}
}

// Names of async-profiler's settings choose what its samples count.
func TestExecutionMeasure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Settings
		want Measure
	}{
		{Settings{}, CPU},
		{Settings{Async: true}, CPU},
		{Settings{Async: true, Event: "ctimer"}, CPU},
		{Settings{Async: true, Event: "wall"}, Wall},
		{Settings{Async: true, Event: "cache-misses"}, Count},
	} {
		e := Object{kind: &Type{Name: "jdk.ExecutionSample"}}
		if k, ok := kindOf(e, &c.s); !ok || k.measure != c.want {
			t.Errorf("%+v: %v, want %v", c.s, k.measure, c.want)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	c := readOne(t, recording())
	texts := c.constants[int64(typeID("jdk.types.Symbol"))]
	o := Object{c, &Type{Fields: []Field{{Name: "f", Type: c.Type("jdk.types.Symbol")}}}, texts[5]}
	if got := o.Text("f"); got != "wé" {
		t.Errorf("a constant of a constant is %q", got)
	}
	if got := (Object{}).Get("a").Text("b"); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// A number is read as it was written, in nine bytes at most.
func TestVarint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "number")
		c := cursor{data: appendVarint(nil, v)}
		if size := len(c.data); c.varint() != int64(v) || len(c.data) != 0 || size > longestVarint {
			t.Errorf("%d in %d bytes", v, size)
		}
	})
	c := cursor{data: bytes.Repeat([]byte{0xff}, 10)}
	if v := c.varint(); v != -1 || len(c.data) != 1 {
		t.Errorf("ten bytes: %d, rest %x", v, c.data)
	}
}

func TestNanoseconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ perSecond, ticks, want int64 }{
		{1e9, 5, 5}, {1e9, -5, -5}, {1e6, 3, 3000}, {3e9, 3, 1},
		{1, math.MaxInt64, math.MaxInt64}, {1, math.MinInt64, -math.MaxInt64}, {2, math.MaxInt64, math.MaxInt64},
	} {
		h := Header{TicksPerSecond: c.perSecond}
		if got := h.Nanoseconds(c.ticks); got != c.want {
			t.Errorf("%d ticks of %d a second are %d ns, want %d", c.ticks, c.perSecond, got, c.want)
		}
	}
}

// A chunk that is read in pieces gives the same events as one that is read at once.
func TestPieces(t *testing.T) {
	t.Parallel()
	data := recording()
	h, err := ParseHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	whole := readOne(t, data)
	pieces := NewChunk(h, nil)
	count := 0
	for at := HeaderSize; at < len(data); {
		size := int((&cursor{data: data[at:]}).varint())
		if err := pieces.Add(data[at : at+size]); err != nil {
			t.Fatal(err)
		}
		for range pieces.Events() {
			count++
		}
		at += size
	}
	want := 0
	for range whole.Events() {
		want++
	}
	if count != want-1 { // the first came before the types
		t.Errorf("%d events in pieces, %d at once", count, want)
	}
}

// A recording that ends anywhere is an error, never a shorter recording.
// A stack may come with the next piece of a chunk.
func TestWaits(t *testing.T) {
	t.Parallel()
	c := NewChunk(Header{TicksPerSecond: 1e9}, nil)
	sample := typeID("jdk.ExecutionSample")
	if err := c.Add(append(metadata(), event(sample, 10, 1, 1)...)); err != nil {
		t.Fatal(err)
	}
	s := samplesOf(c, CPU)[0]
	if !s.Waits() {
		t.Error("a sample has a stack that was not written")
	}
	if err := c.Add(constants()); err != nil {
		t.Fatal(err)
	}
	if s.Waits() {
		t.Error("the stack has come, and is not found")
	}
	if frames, _ := Stack(nil, s.Trace); len(frames) != 2 {
		t.Errorf("the stack has %d frames, want 2", len(frames))
	}
	if s = (Sample{}); s.Waits() {
		t.Error("a sample without a stack waits for one")
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	data := recording()
	for n := 1; n < len(data); n++ {
		_, err := NewReader(bytes.NewReader(data[:n]), nil).Next()
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

// A chunk whose JVM was killed ends the recording.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	data := recording()
	data[64] = 3
	r := NewReader(bytes.NewReader(append(data, "an event that was being written"...)), nil)
	if c, err := r.Next(); err != nil || len(samplesOf(c, CPU)) != 3 {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after it: %v", err)
	}
}

func TestCorrupt(t *testing.T) {
	t.Parallel()
	huge := numbers(uint64(1 << 62))
	deep := numbers(0, 0, 1, 1, "root")
	for range 1_000_000 {
		deep = append(deep, 0, 0, 1)
	}
	for name, data := range map[string][]byte{
		"event of no bytes":    chunk([]byte{0}),
		"event too long":       chunk([]byte{9, 1}),
		"negative size":        chunk(append(numbers(uint64(1<<64-5)), 1, 2, 3)),
		"ten bytes of size":    chunk(bytes.Repeat([]byte{0xff}, 10)),
		"elements nest":        chunk(event(metadataEvent, deep)),
		"text out of range":    chunk(event(metadataEvent, 0, 0, 1, 0, 5, 0, 0)),
		"too many texts":       chunk(event(metadataEvent, 0, 0, 1, huge)),
		"too many pools":       chunk(metadata(), event(checkpointEvent, 0, 0, 0, []byte{0}, huge)),
		"too many constants":   chunk(metadata(), checkpoint(numbers(typeID("int"), huge))),
		"unknown pool":         chunk(metadata(), checkpoint(numbers(uint64(1000), 1, 1, 1))),
		"pool without bytes":   chunk(metadata(), checkpoint(numbers(typeID("test.Empty"), 3, 1, 2, 3))),
		"elements of no bytes": chunk(metadata(), checkpoint(numbers(typeID("test.Odd"), 1, 1, 100, 7))),
		"type inside itself":   chunk(metadata(), checkpoint(numbers(typeID("test.Self"), 1, 1, 0))),
		"no version":           append([]byte(Magic+"\x00\x01"), make([]byte, HeaderSize)...),
		"no magic":             make([]byte, HeaderSize),
		"no clock":             append(chunk()[:56], make([]byte, 12)...),
	} {
		_, err := NewReader(bytes.NewReader(data), nil).Next()
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Constants that lead to each other end.
func TestConstantCycle(t *testing.T) {
	t.Parallel()
	c := readOne(t, chunk(metadata(), checkpoint(
		pool("java.lang.String", 2, 1, []byte{textConstant, 2}, 2, []byte{textConstant, 1}),
		pool("java.lang.Thread", 1, 1, []byte{textConstant, 1}, 7),
	), event(typeID("jdk.ExecutionSample"), 1, 1, 1)))
	for e := range c.Events() {
		if got := e.Get("sampledThread").Text("javaName"); got != "" {
			t.Errorf("text %q", got)
		}
	}
}

// Memory is taken before it is used, and given back.
func TestMemory(t *testing.T) {
	t.Parallel()
	errFull := errors.New("full")
	data := append(recording(), recording()...)
	for limit := int64(0); ; limit += 512 {
		held := int64(0)
		r := NewReader(bytes.NewReader(data), func(n int64) error {
			if held+n > limit {
				return errFull
			}
			held += n
			return nil
		})
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if held != 0 {
			t.Fatalf("%d bytes are held after %v", held, err)
		}
		if err == io.EOF {
			break
		}
		if !errors.Is(err, errFull) {
			t.Fatal(err)
		}
	}
}

// A header that claims a large chunk takes no memory for it.
func TestClaim(t *testing.T) {
	t.Parallel()
	data := recording()
	data[8] = 0x10 // an exbibyte
	most := int64(0)
	_, err := NewReader(bytes.NewReader(data), func(n int64) error { most = max(most, n); return nil }).Next()
	if !errors.Is(err, io.ErrUnexpectedEOF) || most > leastRead {
		t.Errorf("%d bytes at once, %v", most, err)
	}
}

// A recording with any one byte changed is read to its end, or refused.
func TestOneByte(t *testing.T) {
	t.Parallel()
	data := recording()
	for at := range data {
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			changed := bytes.Clone(data)
			changed[at] = b
			readAll(t, changed)
		}
	}
}

// FuzzRecording holds that any bytes are harmless: each field of each event can be asked for.
func FuzzRecording(f *testing.F) {
	f.Add(recording())
	f.Add(chunk(metadata(), constants()))
	f.Add(append(recording(), recording()...))
	f.Add(chunk(metadata(), checkpoint(numbers(typeID("test.Odd"), 1, 1, 100, 7))))
	f.Fuzz(func(t *testing.T, data []byte) { readAll(t, data) })
}

// readAll reads all that a recording has.
func readAll(t *testing.T, data []byte) {
	r := NewReader(bytes.NewReader(data), nil)
	var s Settings
	for {
		c, err := r.Next()
		if err != nil {
			return
		}
		for e := range c.Events() {
			askAll(e, 3)
		}
		c.Survey(&s)
		for m := range NumMeasures {
			for sample := range c.Samples(m, &s) {
				frames, _ := Stack(nil, sample.Trace)
				for i := range frames {
					frames[i].Info()
				}
				if sample.Weight < 0 || sample.Count <= 0 {
					t.Fatalf("%+v", sample)
				}
			}
		}
		c.Lost()
	}
}

// askAll reads all fields in all ways, some levels deep.
func askAll(o Object, levels int) {
	if o.IsZero() || levels == 0 {
		return
	}
	for _, f := range o.Type().Fields {
		o.Int(f.Name)
		o.Float(f.Name)
		o.Text(f.Name)
		o.Nanoseconds(f.Name)
		askAll(o.Get(f.Name), levels-1)
		for element := range o.List(f.Name) {
			askAll(element, levels-1)
			break
		}
	}
}
