package process

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStrangers: an executable is a stranger for a second, then for twice as long each time, up to a minute, unless
// it was none after all.
func TestStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, file := make(Strangers), FileID{Inode: 1}
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			s.Remember(file)
			time.Sleep(wait*time.Second - 1)
			if !s.Has(file) || s.Has(FileID{Inode: 2}) {
				t.Errorf("it is forgotten before %v s", int64(wait))
			}
			time.Sleep(time.Nanosecond)
			if s.Has(file) {
				t.Errorf("it is a stranger after %v s", int64(wait))
			}
		}
		s.Forget(file)
		s.Remember(file)
		if time.Sleep(firstEstranged); s.Has(file) {
			t.Error("an executable that was no stranger is one for long")
		}
		for i := range uint64(2 * mostStrangers) {
			s.Remember(FileID{Inode: i})
		}
		if len(s) > mostStrangers {
			t.Errorf("%d are remembered", len(s))
		}
	})
}
