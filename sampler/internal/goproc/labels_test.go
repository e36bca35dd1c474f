package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// heap is memory of a target from 4096 on.
type heap struct {
	b     [1 << 16]byte
	reads int
}

func (h *heap) Read(addr uint64, buf []byte) error {
	h.reads++
	if addr < 4096 || addr > uint64(len(h.b)) || uint64(len(buf)) > uint64(len(h.b))-addr {
		return errors.New("not mapped")
	}
	copy(buf, h.b[addr:])
	return nil
}

func (h *heap) put(addr uint64, words ...uint64) {
	for i, w := range words {
		binary.NativeEndian.PutUint64(h.b[addr+8*uint64(i):], w)
	}
}

func (h *heap) text(addr uint64, s string) uint64 { copy(h.b[addr:], s); return addr }

// route puts a set with the label route at 8192, as Go 1.24 and later have it.
func (h *heap) route(value string) {
	h.put(8192, 8704, 1, 1)
	h.put(8704, h.text(9000, "route"), 5, h.text(9100, value), uint64(len(value)))
}

func signature(m *ccmap.Method) string {
	if m == nil {
		return "none"
	}
	return m.Signature
}

// TestLabelsOfGarbage: whatever a pointer leads to, reading ends, and the set is other
// labels.
func TestLabelsOfGarbage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(h *heap){
		"count":           func(h *heap) { h.put(8200, math.MaxUint64) },
		"one too many":    func(h *heap) { h.put(8200, ccmap.MaxLabels+1) },
		"list":            func(h *heap) { h.put(8192, math.MaxUint64&^7) },
		"unaligned list":  func(h *heap) { h.put(8192, 8705) },
		"length":          func(h *heap) { h.put(8712, math.MaxUint64) },
		"long text":       func(h *heap) { h.put(8728, ccmap.MaxLabelText+1) },
		"text in nowhere": func(h *heap) { h.put(8704, 1<<40) },
		"text in kernel":  func(h *heap) { h.put(8704, math.MaxUint64-2) },
	} {
		h := new(heap)
		h.route("/api")
		damage(h)
		if m := newLabels(h).at(8192, false); m == nil || m.Signature != "" {
			t.Errorf("%s: %q", name, signature(m))
		}
	}
	for _, addr := range []uint64{1, 8, 4097, 1 << 47, math.MaxUint64, 1<<16 - 8} {
		for _, isMap := range []bool{false, true} {
			if m := newLabels(new(heap)).at(addr, isMap); m != nil && m.Signature != "" {
				t.Errorf("at %#x: %q", addr, signature(m))
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		h, pointers := new(heap), []uint64{0, 1, 4096, 8192, 12288, 1 << 15, 1<<16 - 8, 1 << 50, math.MaxUint64, 5, 16}
		for a := uint64(4096); a < uint64(len(h.b)); a += 8 {
			h.put(a, pointers[random.IntN(len(pointers))])
		}
		newLabels(h).at(8192, i%2 == 0)
		if most := 3 + 4 + mostFurther + 2 + 2*ccmap.MaxLabels; h.reads > most {
			t.Fatalf("%d reads of one set, want %d at most", h.reads, most)
		}
	}
}

// TestLabelsOfMap: a map of Go 1.23 and earlier, and one whose buckets lead in a circle.
func TestLabelsOfMap(t *testing.T) {
	t.Parallel()
	h := new(heap)
	h.put(8192, 8704)                // *map
	h.put(8704, 2, 0, 9216, 0, 0, 0) // head: count, B = 0, buckets
	h.b[9216], h.b[9217] = 7, 200    // hashes of cells 0 and 1
	keys, values := uint64(9216+bucketCells), uint64(9216+bucketCells+bucketCells*stringSize)
	h.put(keys, h.text(12000, "route"), 5, h.text(12010, "job"), 3)
	h.put(values, h.text(12020, "/api"), 4, h.text(12030, "7"), 1)
	if m := newLabels(h).at(8192, true); signature(m) != "job=7 route=/api" {
		t.Errorf("map: %q", signature(m))
	}
	h.put(9216+bucketSize-8, 9216)
	h.put(8704, 16)
	if m := newLabels(h).at(8192, true); signature(m) != "" || h.reads > 20 {
		t.Errorf("circle: %q after %d reads", signature(m), h.reads)
	}
	h.put(8704, 0)
	if m := newLabels(h).at(8192, true); m != nil {
		t.Errorf("empty: %q", signature(m))
	}
}

// TestLabelsAreCached: a set that is known costs two reads, and gives way when its memory
// is another set's.
func TestLabelsAreCached(t *testing.T) {
	t.Parallel()
	h, now := new(heap), time.Now()
	l := newLabels(h)
	l.now = func() time.Time { return now }
	want := func(text string, reads int) {
		t.Helper()
		h.reads = 0
		if m := l.at(8192, false); signature(m) != text || h.reads != reads {
			t.Errorf("%q in %d reads, want %q in %d", signature(m), h.reads, text, reads)
		}
	}
	h.route("/api")
	want("route=/api", 4)
	want("route=/api", 2)
	h.route("/other") // of another length
	want("route=/other", 4)
	h.route("/again") // of the same length, at the same place
	now = now.Add(rereadAfter)
	want("route=/again", 4)
	h.put(8200, 0)
	want2 := l.at(8192, false)
	if want2 != nil {
		t.Errorf("an empty set is %q", signature(want2))
	}
}

// TestLabelSetsAreBounded: of many sets the last are other labels, and those that are known
// remain.
func TestLabelSetsAreBounded(t *testing.T) {
	t.Parallel()
	h, now := new(heap), time.Now()
	l := newLabels(h)
	l.now = func() time.Time { now = now.Add(rereadAfter); return now }
	others := 0
	for i := range ccmap.MaxLabelSets + 5 {
		h.route(fmt.Sprint(i))
		if m := l.at(8192, false); m.Signature == "" {
			others++
		}
	}
	h.route("0")
	if m := l.at(8192, false); others != 5 || signature(m) != "route=0" {
		t.Errorf("%d others, then %q", others, signature(m))
	}
	h.route(strings.Repeat("x", ccmap.MaxLabelText))
	if len(l.texts) > ccmap.MaxLabelSets || len(l.known) > mostKnown {
		t.Errorf("%d texts and %d pointers are kept", len(l.texts), len(l.known))
	}
}
