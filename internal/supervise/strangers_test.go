package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// TestStrangers: an executable is a stranger for a second, then for twice as long each time, up to a minute, unless
// it was none after all.
func TestStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, file := make(strangers), process.FileID{Inode: 1}
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			s.remember(file, Estranged)
			time.Sleep(wait*time.Second - 1)
			if !s.has(file) || s.has(process.FileID{Inode: 2}) {
				t.Errorf("it is forgotten before %v s", int64(wait))
			}
			time.Sleep(time.Nanosecond)
			if s.has(file) {
				t.Errorf("it is a stranger after %v s", int64(wait))
			}
		}
		s.forget(file)
		s.remember(file, Estranged)
		if time.Sleep(Estranged.First); s.has(file) {
			t.Error("an executable that was no stranger is one for long")
		}
		for i := range uint64(2 * mostStrangers) {
			s.remember(process.FileID{Inode: i}, Estranged)
		}
		if len(s) > mostStrangers {
			t.Errorf("%d are remembered", len(s))
		}
	})
}
