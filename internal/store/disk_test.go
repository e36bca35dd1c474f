package store

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestOutboxOnFullDisk: while the disk of the store is full, what was filed stays due, and nothing is filed or sealed by
// halves. With room again, the hub gets each filed sample once.
func TestOutboxOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		testrun.Lacks(t, "mount a small disk: %v (needs root)", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s, o := outboxOf(t, dir, "one", all)
	t.Cleanup(func() { s.Close() }) // before its disk goes
	hub, filed, rnd := newHub(), int64(0), rand.New(rand.NewPCG(1, 2))
	key := Key{Target: "web", Build: "b1", Unit: ccmap.CPUTime}
	at := day
	file := func() (err error) {
		at = at.Add(time.Minute)
		samples := int64(1 + rnd.IntN(5))
		if _, err = s.File(key, at, at.Add(time.Minute), profile(samples)); err == nil {
			filed += samples
		}
		return err
	}
	send := func() error {
		err := o.Seal(1)
		sealed, _ := o.Waiting()
		for _, one := range sealed {
			frame, bad := o.Frame(one)
			if bad != nil {
				t.Fatal(bad)
			}
			hub.take(t, frame)
			err = errors.Join(err, o.Done(one))
		}
		return err
	}
	ballast := dir + "/ballast"
	full := 0
	for range 10 {
		for range 3 {
			if err := file(); err != nil {
				t.Fatal(err)
			}
		}
		fillDisk(t, ballast, rnd.Int64N(12<<10))
		for range 4 {
			for _, err := range []error{file(), send()} {
				if errors.Is(err, unix.ENOSPC) {
					full++
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(file(), send(), send()); err != nil {
		t.Fatal(err)
	}
	sealed, due := o.Waiting()
	of := build{key.Target, key.Build, key.Unit.Kind(), key.Unit.Base()}
	if hub.samples[of] != filed || len(sealed)+due > 0 || o.Lost() > 0 || full == 0 {
		t.Errorf("the hub has %d samples of %d; %d and %d wait, %d lost; the disk was full %d times",
			hub.samples[of], filed, len(sealed), due, o.Lost(), full)
	}
}

// fillDisk fills the disk of a file but for so many bytes.
func fillDisk(t *testing.T, name string, but int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for block := make([]byte, 4<<10); err == nil; size += int64(len(block)) {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Truncate(max(size-4<<10-but, 0)); err != nil {
		t.Fatal(err)
	}
}
