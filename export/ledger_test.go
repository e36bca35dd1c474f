package export

import (
	"errors"
	"io"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// liveNow collects the garbage, and returns the bytes in use.
func liveNow() int64 {
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return int64(live[0].Value.Uint64())
}

// many returns a document that repeats a text, without holding it.
func many(head, text string, count int) io.Reader { return repeated(head, text, count, "") }

// TestReservedMemoryIsAllThatIsTaken reads files that are small and take much memory when decoded. Whenever a read
// asks for more, it must hold no more than it had reserved; it must end where it gets no more, and name the reason.
// It does not run beside other tests, which have heaps, too.
func TestReservedMemoryIsAllThatIsTaken(t *testing.T) {
	const most, unreserved = 24 << 20, 4 << 20 // bytes; buffers and Go's own come on top
	full := errors.New("all memory is reserved")
	for name, in := range map[string]io.Reader{
		"pprof, empty strings":     many("", "\x32\x00", 15_000_000),
		"pprof, functions":         many("\x32\x00", "\x2a\x00", 15_000_000),
		"pprof, comments":          many("\x32\x00", "\x6a\x01\x00", 10_000_000),
		"pprof in gzip":            strings.NewReader(compressed(t, Gzip, strings.Repeat("\x32\x00", 10_000_000))),
		"pprof in zstd":            strings.NewReader(compressed(t, Zstd, strings.Repeat("\x32\x00", 10_000_000))),
		"xml, empty comments":      many(`<ccmap version="1"><meta>`, `<comment/>`, 3_000_000),
		"xml, empty methods":       strings.NewReader(numbered(`<ccmap version="1"><methods>`, `<method name="%d"/>`, 100_000, ``)),
		"json, empty strings":      many(`{"ccmap_version":1,"meta":{"comments":[""`, `,""`, 10_000_000),
		"json, intervals":          many(`{"ccmap_version":1,"meta":{"intervals":[{}`, `,{}`, 10_000_000),
		"folded, frames of a line": many("", "a;", 20_000_000),
	} {
		t.Run(name, func(t *testing.T) {
			before, reserved := liveNow(), int64(0)
			_, _, err := Read(in, ReadOptions{MaxMemory: 10 * most, Reserve: func(bytes int64) error {
				if reserved>>22 != bytes>>22 { // each collection takes its time
					if took := liveNow() - before; took > reserved+unreserved {
						t.Errorf("%d bytes are held, and %d are reserved", took, reserved)
					}
				}
				if bytes <= reserved || bytes > 10*most {
					t.Errorf("%d bytes are asked for after %d", bytes, reserved)
				}
				if bytes > most {
					return full
				}
				reserved = bytes
				return nil
			}})
			if !errors.Is(err, full) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("after %d bytes: %v", reserved, err)
			}
			liveNow() // buffers are kept for the next file until the second collection
			if took := liveNow() - before; took > unreserved {
				t.Errorf("%d bytes are held after the end", took)
			}
		})
	}
}

// Reading ahead restores the same map, and refuses the same files. Steps that reads share add up.
func TestAhead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		data := mustEncode(rt, JSON, drawPruned(rt, buildLocated).Snapshot())
		for range rapid.IntRange(1, 2).Draw(rt, "layers") {
			data = compressed(t, rapid.SampledFrom([]Compression{Gzip, Zstd}).Draw(rt, "compression"), data)
		}
		if rapid.Bool().Draw(rt, "damaged") {
			b := []byte(data[:rapid.IntRange(1, len(data)).Draw(rt, "bytes")])
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "place")] ^= byte(rapid.IntRange(0, 255).Draw(rt, "bits"))
			data = string(b)
		}
		var steps, ahead atomic.Int64
		want, _, wantErr := Read(strings.NewReader(data), ReadOptions{MaxSteps: 1 << 40, Steps: &steps})
		got, _, err := Read(strings.NewReader(data), ReadOptions{MaxSteps: 1 << 40, Steps: &ahead, Ahead: true})
		if (err == nil) != (wantErr == nil) {
			rt.Fatalf("ahead: %v; else: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := diffContent(want.Snapshot(), got.Snapshot()); diff != "" {
			rt.Fatalf("(-want +ahead):\n%s", diff)
		}
		if steps.Load() != ahead.Load() {
			rt.Fatalf("%d steps ahead, and %d else", ahead.Load(), steps.Load())
		}
		if _, _, err := Read(strings.NewReader(data), ReadOptions{MaxSteps: 2*steps.Load() - 1, Steps: &steps, Ahead: true}); !errors.Is(err, ErrTooLarge) {
			rt.Fatalf("a second read within twice the steps but one: %v", err)
		}
	})
}
