package queue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// samples draws samples with any value in every field.
func samples(maxFrames int) *rapid.Generator[ccmap.Sample] {
	frame := rapid.Custom(func(r *rapid.T) ccmap.Frame {
		return ccmap.Frame{Method: ccmap.MethodID(rapid.Uint32().Draw(r, "method")), Offset: rapid.Uint32().Draw(r, "offset")}
	})
	return rapid.Custom(func(r *rapid.T) ccmap.Sample {
		return ccmap.Sample{
			Frames:    rapid.SliceOfN(frame, 1, maxFrames).Draw(r, "frames"),
			Thread:    rapid.Uint64().Draw(r, "thread"),
			Goroutine: rapid.Uint64().Draw(r, "goroutine"),
			OSThread:  rapid.Uint32().Draw(r, "os thread"),
			Time:      rapid.Int64().Draw(r, "time"),
			Weight:    rapid.Int64().Draw(r, "weight"),
			Top:       ccmap.Repetition(rapid.Uint8().Draw(r, "top")),
			Fresh:     rapid.Int32().Draw(r, "fresh"),
			Depth:     rapid.Uint32().Draw(r, "depth"),
			Truncated: rapid.Bool().Draw(r, "truncated"),
			Early:     rapid.Bool().Draw(r, "early"),
			Hit:       rapid.Bool().Draw(r, "hit"),
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := samples(200).Draw(r, "sample")
		w := make([]word, recordWords(&want), 300)
		encode(w, &want)
		var got ccmap.Sample
		if n := decode(&got, w[:cap(w)]); n != len(w) {
			r.Fatalf("decoded %d words of %d", n, len(w))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("sample changed (-pushed +delivered):\n%s", diff)
		}
		if cap(got.Frames) != len(got.Frames) {
			r.Fatalf("an append to the frames would overwrite the next record")
		}
	})
}
