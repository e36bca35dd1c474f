package livetop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
	"github.com/ccmapd/ccmapd/internal/view"
)

// shown is what a terminal has shown. Any goroutine may look.
type shown struct {
	mu   sync.Mutex
	text strings.Builder
	more chan bool // holds a token after more was shown
}

func watch(screen *os.File) *shown {
	s := &shown{more: make(chan bool, 1)}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := screen.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			select {
			case s.more <- true:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// await waits until the terminal shows a text, after all that it showed before.
func (s *shown) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		s.mu.Lock()
		all := s.text.String()
		if _, rest, ok := strings.Cut(all, text); ok {
			s.text.Reset()
			s.text.WriteString(rest)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-timeout:
			t.Fatalf("the terminal never shows %q, but %q", text, all)
		}
	}
}

// profile is a profile of two methods with a window.
func profile() *view.Profile {
	m := ccmap.New(ccmap.Options{Window: time.Minute})
	for i, name := range []string{"main.hot", "main.cold"} {
		frames := []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: name})}}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: int64(2-i) * 1e9, Time: 1, Fresh: ccmap.FreshUnknown})
	}
	return view.New("@web", m.Snapshot())
}

// TestKeys: keys sort, filter, choose the recent samples and quit; in the end the terminal is as
// it was.
func TestKeys(t *testing.T) {
	t.Parallel()
	screen, tty := terminaltest.Open(t, 100)
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	seen := watch(screen)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), Options{In: tty, Out: tty, Profile: func(context.Context) (*view.Profile, error) { return profile(), nil }})
	}()
	seen.await(t, "main.hot")
	seen.await(t, "s sort: flat")
	for _, step := range []struct{ keys, want string }{
		{"s", "s sort: cum"}, {"r", "r samples: recent"}, {"/", "filter: _"}, {"co", "filter: co_"}, {"x\x7f\r", "/ filter: co (Esc drops it)"},
		{"\x1b", "/ filter   q quit"}, {"/[\x1b", "/ filter   q quit"},
	} {
		io.WriteString(screen, step.keys)
		seen.await(t, step.want)
	}
	io.WriteString(screen, "q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	seen.await(t, "\x1b[?1049l")
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was %+v, and is %+v, %v", before, after, err)
	}
}

// TestTrouble: without a first profile the screen ends with the error; a later error stands below the
// profile of before.
func TestTrouble(t *testing.T) {
	t.Parallel()
	gone := errors.New("the daemon is gone")
	for _, first := range []bool{false, true} {
		screen, tty := terminaltest.Open(t, 100)
		seen := watch(screen)
		ctx, cancel := context.WithCancel(t.Context())
		ended, asked := make(chan error, 1), 0
		go func() {
			ended <- Run(ctx, Options{In: tty, Out: tty, Profile: func(context.Context) (*view.Profile, error) {
				if asked++; first && asked == 1 {
					return profile(), nil
				}
				return nil, gone
			}})
		}()
		if !first {
			if err := <-ended; !errors.Is(err, gone) {
				t.Error(err)
			}
			cancel()
			continue
		}
		seen.await(t, gone.Error())
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestNoTerminal: a pipe is not redrawn.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), Options{In: strings.NewReader(""), Out: new(bytes.Buffer)}); !errors.Is(err, terminal.ErrNoTerminal) {
		t.Error(err)
	}
}
