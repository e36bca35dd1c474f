package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestUnreadableIsBounded: a program is read once by each engine as long as it is remembered, and of many programs
// only so many are. Other errors are not remembered.
func TestUnreadableIsBounded(t *testing.T) {
	t.Parallel()
	var u Unreadable
	read := 0
	failing := func(err error) []Engine {
		return []Engine{{"a", nil, func(context.Context, sampler.ProcessOptions) (Source, error) {
			read++
			return nil, err
		}}}
	}
	tooOld := fmt.Errorf("too old: %w", sampler.ErrProgram)
	number := func(n uint64) Program { return Program{File: process.FileID{Inode: n}} }
	open := func(n uint64, err error) error {
		_, err = u.Spare(failing(err), number(n))[0].Open(t.Context(), sampler.ProcessOptions{})
		return err
	}
	for range 2 {
		for n := range uint64(mostUnreadable) {
			if err := open(n, tooOld); !errors.Is(err, sampler.ErrProgram) || !errors.Is(err, sampler.ErrUnsupported) {
				t.Fatal(err)
			}
		}
	}
	if read != mostUnreadable || u.Told(number(1)) || !u.Told(number(1)) || u.Told(number(mostUnreadable)) {
		t.Errorf("%d programs were read", read)
	}
	open(mostUnreadable, tooOld)
	open(mostUnreadable, tooOld)
	if len(u.refused) != 1 || read != mostUnreadable+1 {
		t.Errorf("%d are remembered, %d were read", len(u.refused), read)
	}
	for n := range 2 {
		_, err := u.Spare(failing(fmt.Errorf("attach to process 1: %w", tooOld)), number(2))[0].Open(t.Context(), sampler.ProcessOptions{PID: n + 1})
		if want := fmt.Sprintf("attach to process %d: %v", n+1, tooOld); err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	read--
	for range 2 {
		open(1, sampler.ErrPermission)
	}
	if read != mostUnreadable+3 {
		t.Errorf("an error that may change is remembered")
	}
}
