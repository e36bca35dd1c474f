package terminal

import (
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	screen, tty := terminaltest.Open(t, 10)
	p := Progress{W: tty, drawn: time.Now().Add(-time.Hour)}
	for range 3 { // the others come too soon
		p.Draw(func() string { return "1 of 1000 profiles" })
	}
	p.Clear()
	p.Clear()
	tty.Close()
	want := ClearLine + shortenEnd("1 of 1000 profiles", 9) + ClearLine
	if got := terminaltest.Read(screen); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogStandsAboveTheLiveLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := aboveLine{&out}
	if n, err := log.Write([]byte("message\n")); n != len("message\n") || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if want := ClearLine + "message\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
