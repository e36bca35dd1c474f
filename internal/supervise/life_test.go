package supervise

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

var errNo = errors.New("no")

// events are what can happen to a process.
var events = map[string]func(*Life, time.Time) Standing{
	"Try":       (*Life).Try,
	"Succeed":   (*Life).Succeed,
	"Wait":      func(l *Life, now time.Time) Standing { return l.Wait(now, errNo, time.Time{}) },
	"End":       func(l *Life, now time.Time) Standing { return l.End(now, errNo) },
	"refused":   func(l *Life, now time.Time) Standing { return l.Fail(now, errNo, 0) },
	"stranger":  func(l *Life, now time.Time) Standing { return l.Fail(now, refusal.ErrNotManaged, 0) },
	"ended":     func(l *Life, now time.Time) Standing { return l.Fail(now, refusal.ErrNoProcess, 0) },
	"hung":      func(l *Life, now time.Time) Standing { return l.Fail(now, fmt.Errorf("read: %w", hang.ErrHung), 0) },
	"is away":   func(l *Life, now time.Time) Standing { return l.FailAs(now, Waiting, refusal.ErrNoProcess, 0) },
	"is absent": func(l *Life, now time.Time) Standing { return l.FailAs(now, Over, errNo, 0) },
}

// TestTransitions: the table of the package's documentation. From each state that a process can go on from, an event
// leads to one state, whatever the state was; one that costs a thread can only end, and one that is over stays so.
func TestTransitions(t *testing.T) {
	t.Parallel()
	leads := map[string]State{
		"Try": Opening, "Succeed": Open, "Wait": Waiting, "End": Over, "refused": Refused, "stranger": Strange, "ended": Over,
		"hung": Hung, "is away": Waiting, "is absent": Over,
	}
	for first, reached := range leads {
		for event, happen := range events {
			now := time.Unix(1000, 0)
			l := NewLife(Policy{}, now)
			events[first](l, now)
			want := leads[event]
			switch {
			case reached == Over, reached == Hung && want != Over:
				want = reached
			}
			if is := happen(l, now); is.State != want || is != l.Is() {
				t.Errorf("from %s, %s leads to %d, want %d", first, event, is.State, want)
			}
		}
	}
}

// TestDue: an attempt is due at once where nothing was tried, after a wait where one has failed, and never where the
// policy knows no wait, the process is sampled, has cost a thread or is over.
func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := Policy{Refused: Backoff{First: time.Second, Longest: 4 * time.Second}, Strange: Backoff{First: time.Minute, Longest: time.Minute}}
	l := NewLife(p, now)
	if !l.Due(now) {
		t.Error("a process that nobody has tried is not due")
	}
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		l.Try(now)
		if l.Due(now) {
			t.Error("a process is due while it is opened")
		}
		if is := l.Fail(now, errNo, 0); is.Next.Sub(now) != wait || l.Due(is.Next.Add(-1)) || !l.Due(is.Next) {
			t.Errorf("failure %d is followed by %v, want %v", i, is.Next.Sub(now), wait)
		}
	}
	if is := l.Fail(now, errNo, longLife); is.Next.Sub(now) != time.Second {
		t.Errorf("after a long life the next wait is %v", is.Next.Sub(now))
	}
	if is := l.Fail(now, refusal.ErrNotManaged, 0); is.Next.Sub(now) != time.Minute {
		t.Errorf("a stranger waits for %v", is.Next.Sub(now))
	}
	never := NewLife(Policy{}, now)
	for _, event := range []string{"refused", "stranger", "Succeed", "hung", "End"} {
		if events[event](never, now); never.Due(now.Add(1000 * time.Hour)) {
			t.Errorf("after %s, an attempt is due", event)
		}
	}
}

// TestSince: a state begins when it is entered, and not when its reason changes.
func TestSince(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	l := NewLife(Policy{}, begin)
	later := begin.Add(time.Second)
	if is := l.Wait(later, errNo, time.Time{}); is.Since != begin || is.Err != errNo {
		t.Errorf("%+v", is)
	}
	if is := l.Try(later); is.Since != later || is.Err != nil {
		t.Errorf("%+v", is)
	}
}

// TestSpread: waits differ, and by no more than asked for.
func TestSpread(t *testing.T) {
	t.Parallel()
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := Spread(time.Second, 0.2)
		least, most = min(least, d), max(most, d)
	}
	if least < 800*time.Millisecond || most > 1200*time.Millisecond || most-least < 300*time.Millisecond {
		t.Errorf("waits are %v to %v", least, most)
	}
}
