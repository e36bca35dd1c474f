package perfevent

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/internal/process"
)

// fields appends little-endian numbers of 4 or 8 bytes.
func fields(numbers ...any) []byte {
	var b []byte
	for _, n := range numbers {
		switch n := n.(type) {
		case uint32:
			b = binary.NativeEndian.AppendUint32(b, n)
		case uint64:
			b = binary.NativeEndian.AppendUint64(b, n)
		case []byte:
			b = append(b, n...)
		}
	}
	return b
}

// sampleBody is the body of a sample record as the kernel writes it.
func sampleBody() []byte {
	return fields(
		uint64(0x401000), uint32(7), uint32(8), uint64(99), uint32(1), uint32(0), uint64(77),
		uint64(5), ^uint64(127), uint64(0xffffffff81000000), contextUser, uint64(0x401000), uint64(0x402000),
		uint64(unix.PERF_SAMPLE_REGS_ABI_64), uint64(3), uint64(1), uint64(2), uint64(0x401000),
		uint64(10), uint64(12), uint64(13), uint64(14), uint64(15),
		uint64(16), []byte("0123456789abcdef"), uint64(8),
	)
}

func TestDecodeSample(t *testing.T) {
	t.Parallel()
	var got Sample
	if err := got.Decode(unix.PERF_RECORD_MISC_KERNEL, sampleBody()); err != nil {
		t.Fatal(err)
	}
	want := Sample{
		PID: 7, TID: 8, Time: 99, Count: 77, Kernel: true, KernelChain: []uint64{0xffffffff81000000},
		Chain:   []uint64{0x401000, 0x402000},
		HasRegs: true, Regs: process.Registers{BX: 3, BP: 1, SP: 2, IP: 0x401000, R10: 10, R12: 12, R13: 13, R14: 14, R15: 15},
		Stack: []byte("01234567"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded sample differs (-want +got):\n%s", diff)
	}
}

func TestDecodeSampleCutAnywhere(t *testing.T) {
	t.Parallel()
	body := sampleBody()
	for n := range body {
		var s Sample
		if err := s.Decode(0, body[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a sample", n, len(body))
		}
	}
}

func TestDecodeSampleReusesChain(t *testing.T) {
	body := sampleBody()
	var s Sample
	if allocs := testing.AllocsPerRun(100, func() {
		if err := s.Decode(0, body); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("decoding allocates %v times", allocs)
	}
}

func TestDecodeLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind uint32
		body []byte
	}{
		{unix.PERF_RECORD_LOST, fields(uint64(3), uint64(41))},
		{unix.PERF_RECORD_LOST_SAMPLES, fields(uint64(41))},
	} {
		if n, err := DecodeLost(c.kind, c.body); n != 41 || err != nil {
			t.Errorf("record %d: lost %d, %v; want 41", c.kind, n, err)
		}
	}
}

// TestProcessOfRecord: samples, the fates of threads, mappings and all others name their process in their own
// place. A process that is born is none that events could be set on before.
func TestProcessOfRecord(t *testing.T) {
	t.Parallel()
	trailer := fields(uint32(7), uint32(8), uint64(99), uint32(1), uint32(0))
	for _, c := range []struct {
		kind uint32
		body []byte
		want uint32
	}{
		{unix.PERF_RECORD_SAMPLE, sampleBody(), 7},
		{unix.PERF_RECORD_COMM, append(fields(uint32(6), uint32(6), []byte("name\x00\x00\x00\x00")), trailer...), 6},
		{unix.PERF_RECORD_MMAP, append(fields(uint32(5), uint32(5), uint64(1), uint64(2), uint64(3)), trailer...), 5},
		{unix.PERF_RECORD_FORK, append(fields(uint32(4), uint32(4), uint32(9), uint32(8), uint64(5)), trailer...), 4},
		{unix.PERF_RECORD_FORK, append(fields(uint32(4), uint32(3), uint32(4), uint32(3), uint64(5)), trailer...), 0},
		{unix.PERF_RECORD_EXIT, append(fields(uint32(4), uint32(1), uint32(4), uint32(1), uint64(5)), trailer...), 4},
		{unix.PERF_RECORD_LOST, append(fields(uint64(3), uint64(41)), trailer...), 7},
		{unix.PERF_RECORD_THROTTLE, append(fields(uint64(3), uint64(41), uint64(2)), trailer...), 7},
		{unix.PERF_RECORD_LOST, fields(uint64(3)), 0},
	} {
		n := Record{Kind: c.kind, Body: c.body}
		if got := n.Process(); got != c.want {
			t.Errorf("record %d of %d bytes is of process %d, want %d", c.kind, len(c.body), got, c.want)
		}
	}
}

// rawRecord is a whole record.
func rawRecord(kind uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, kind)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(len(body)+headerBytes))
	return append(b, body...)
}

// TestRecordsSurviveWraparound writes records into a circular buffer at any
// offset, as the kernel does, and reads them back.
func TestRecordsSurviveWraparound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := make([]byte, 1<<rapid.IntRange(7, 10).Draw(t, "log of size"))
		tail := rapid.Uint64().Draw(t, "tail") &^ 7
		var scratch []byte
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			body := rapid.SliceOfN(rapid.Byte(), 0, len(data)-headerBytes).Draw(t, "body")
			kind := rapid.Uint32Range(1, 20).Draw(t, "kind")
			raw := rawRecord(kind, body)
			for i, b := range raw {
				data[(tail+uint64(i))&uint64(len(data)-1)] = b
			}
			head := tail + uint64(len(raw))
			rec, err := recordAt(data, tail, head, &scratch)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Kind != kind || !cmp.Equal(rec.Body, body) {
				t.Fatalf("read record %d %x, want %d %x", rec.Kind, rec.Body, kind, body)
			}
			tail = head
		}
	})
}

// FuzzDecode reads a ring of any bytes, with any tail and head.
func FuzzDecode(f *testing.F) {
	f.Add(rawRecord(unix.PERF_RECORD_SAMPLE, sampleBody()), uint64(0), uint64(200))
	f.Add(rawRecord(unix.PERF_RECORD_FORK, fields(uint32(1), uint32(1), uint32(2), uint32(1), uint64(5))), uint64(8), uint64(48))
	f.Add(rawRecord(unix.PERF_RECORD_LOST, fields(uint64(1), uint64(2))), uint64(1<<64-8), uint64(16))
	f.Add(rawRecord(unix.PERF_RECORD_COMM, fields(uint32(1), uint32(1), []byte("name\x00\x00\x00\x00"))), uint64(0), uint64(24))
	f.Add(rawRecord(unix.PERF_RECORD_SAMPLE, caughtBody(1, 2)), uint64(0), uint64(112))
	f.Fuzz(func(t *testing.T, raw []byte, tail, head uint64) {
		data := make([]byte, 1<<12)
		copy(data, raw)
		var scratch []byte
		for range len(data) {
			rec, err := recordAt(data, tail, head, &scratch)
			if err != nil {
				return
			}
			if len(rec.Body) != int(rec.size)-headerBytes || uint64(rec.size) > head-tail {
				t.Fatalf("record of %d bytes has a body of %d, with %d unread", rec.size, len(rec.Body), head-tail)
			}
			decodeAny(t, rec)
			tail += uint64(rec.size)
		}
	})
}

func decodeAny(t *testing.T, rec Record) {
	body := rec.Body
	recordTime(rec.Kind, body)
	rec.Process()
	DecodeLost(rec.Kind, body)
	DecodeTask(body)
	DecodeComm(body)
	if name := decodeName(body); len(name) > 16 {
		panic("a name of more than 16 bytes")
	}
	var s Sample
	if err := s.Decode(rec.Misc, body); err == nil && len(s.Chain)*8+len(s.Stack) > len(body) {
		t.Fatalf("sample with %d callers and %d bytes of stack in %d bytes", len(s.Chain), len(s.Stack), len(body))
	}
	var call Call
	if err := call.Decode(Breakpoint{PC: 0x401000}, body); err == nil && (len(call.Chain) == 0 || len(call.Chain)*8 > len(body)) {
		t.Fatalf("call with %d callers in %d bytes", len(call.Chain), len(body))
	}
}
