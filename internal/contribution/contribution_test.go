package contribution

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func key(seq uint64) Key {
	from := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	return Key{
		Target: "web", Build: "1f0c", Kind: "cpu", Base: "nanoseconds", Instance: strings.Repeat("0a", 16),
		Epoch: 1, Seq: seq, From: from, To: from.Add(time.Minute), CPUs: 2,
	}
}

func segment(t testing.TB, n int) (b []byte, ends []int) {
	for seq := range n {
		var err error
		if b, err = Append(b, key(uint64(seq+1)), bytes.Repeat([]byte{byte(seq)}, 10*seq)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(b))
	}
	return b, ends
}

func seqs(b []byte) (good []uint64, bad int) {
	for f, err := range Scan(b) {
		if err == nil {
			good = append(good, f.Key.Seq)
		} else {
			bad++
		}
	}
	return good, bad
}

// TestDamage changes each byte of a segment, one at a time: one frame is lost, and no wrong one accepted.
func TestDamage(t *testing.T) {
	t.Parallel()
	b, ends := segment(t, 4)
	want := []uint64{1, 2, 3, 4}
	if good, bad := seqs(b); !slices.Equal(good, want) || bad > 0 {
		t.Fatalf("read %v and %d bad ones", good, bad)
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x10
		at := 0
		for ends[at] <= i {
			at++
		}
		good, bad := seqs(damaged)
		if rest := slices.Delete(slices.Clone(want), at, at+1); !slices.Equal(good, rest) || bad == 0 {
			t.Fatalf("byte %d: read %v and %d bad ones, want %v", i, good, bad, rest)
		}
	}
	for i := range b {
		whole := 0
		for whole < 4 && ends[whole] <= i {
			whole++
		}
		if good, _ := seqs(b[:i]); len(good) != whole {
			t.Fatalf("of %d bytes read %v, want %d", i, good, whole)
		}
	}
}

// TestNewer: a frame of a later version is told from a damaged one, and the next frame is found.
func TestNewer(t *testing.T) {
	t.Parallel()
	b, _ := segment(t, 2)
	b[4] = Version + 1
	if _, err := One(b[:headSize+5]); !errors.Is(err, ErrDamaged) {
		t.Errorf("half a frame of a later version: %v", err)
	}
	var newer int
	for f, err := range Scan(b) {
		if errors.Is(err, ErrNewer) && len(f.Bytes) > 0 {
			newer++
		}
	}
	if good, _ := seqs(b); newer != 1 || !slices.Equal(good, []uint64{2}) {
		t.Errorf("%d newer, and %v", newer, good)
	}
}

// TestOne: bytes after a frame are an error, and so are keys that the hub does not take.
func TestOne(t *testing.T) {
	t.Parallel()
	b, ends := segment(t, 2)
	if f, err := One(b[:ends[0]]); err != nil || f.Key != key(1) {
		t.Errorf("read %+v, error %v", f.Key, err)
	}
	if _, err := One(b); !errors.Is(err, ErrDamaged) {
		t.Errorf("two frames: %v", err)
	}
	for _, change := range []func(*Key){
		func(k *Key) { k.Target = "" }, func(k *Key) { k.Build = "a\nb" }, func(k *Key) { k.Kind = strings.Repeat("a", 300) },
		func(k *Key) { k.Instance = "../" }, func(k *Key) { k.Instance = strings.Repeat("0A", 16) },
		func(k *Key) { k.Epoch = 0 }, func(k *Key) { k.Seq = 0 }, func(k *Key) { k.To = k.From }, func(k *Key) { k.CPUs = 0 },
	} {
		k := key(1)
		change(&k)
		frame, err := Append(nil, k, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := One(frame); !errors.Is(err, ErrDamaged) {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

func FuzzScan(f *testing.F) {
	b, _ := segment(f, 3)
	f.Add(b)
	f.Add(b[5:])
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for frame, err := range Scan(b) {
			if n += len(frame.Bytes); len(frame.Bytes) == 0 {
				t.Fatal("no progress")
			}
			if err != nil {
				continue
			}
			if again, err := One(frame.Bytes); err != nil || again.Key != frame.Key {
				t.Fatalf("%+v is read again as %+v, error %v", frame.Key, again.Key, err)
			}
		}
		if n != len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
	})
}
