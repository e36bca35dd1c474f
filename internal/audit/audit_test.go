package audit

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logOf returns a log and its text.
func logOf(burst int) (*Log, *strings.Builder) {
	text := new(strings.Builder)
	return New(slog.New(slog.NewTextHandler(text, nil)), burst), text
}

// TestBounds: a party that causes many lines has so many, and hides no line of another one. What is left out is
// told once.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, text := logOf(5)
		count := func(part string) int { return strings.Count(text.String(), part) }
		for range 1000 {
			l.Info("flood", "many")
		}
		l.Info("quiet", "one")
		if count("msg=many") != 5 || count("msg=one") != 1 || count("left out") != 0 {
			t.Errorf("%s", text)
		}
		time.Sleep(2 * every)
		for range 10 {
			l.Info("flood", "later")
		}
		if count("msg=later") != 2 || count("of=flood lines=995") != 1 {
			t.Errorf("%s", text)
		}
		time.Sleep(time.Hour)
		l.Info("quiet", "two")
		if count("of=flood lines=8") != 1 || len(l.parties) != 1 {
			t.Errorf("%s: %v", text, l.parties)
		}
		for range 10 {
			l.Info("quiet", "three")
		}
		l.Flush()
		l.Flush()
		if count("of=quiet lines=6") != 1 || count("left out") != 3 {
			t.Errorf("%s", text)
		}
	})
}

// TestManyParties: the names of a user with many numbers take no memory without end.
func TestManyParties(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, text := logOf(1)
		for i := range 3 * mostParties {
			l.Info(fmt.Sprint(i), "line")
			l.Info(fmt.Sprint(i), "line")
		}
		if lines := strings.Count(text.String(), "msg=line"); len(l.parties) > mostParties+1 || lines > mostParties+1 {
			t.Errorf("%d parties, %d lines", len(l.parties), lines)
		}
		l.Flush()
		if !strings.Contains(text.String(), "of=others lines=") {
			t.Error("further parties are not told of")
		}
	})
}

// TestQuietLog: a log that takes no such lines says nothing of those that are left out.
func TestQuietLog(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	l := New(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn})), 1)
	for range 10 {
		l.Info("a", "line")
	}
	l.Flush()
	if text.Len() > 0 {
		t.Error(text.String())
	}
}
