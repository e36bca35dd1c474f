package taker

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// script is an engine whose records are told in advance.
type script struct {
	t     *Taker
	waits []error // what Wait returns, one after another; at the end the target replaces itself
	said  []string
}

func (s *script) Wait() (exited bool, err error) {
	if len(s.waits) == 0 {
		s.t.Ended = "ended"
		return false, nil
	}
	err, s.waits = s.waits[0], s.waits[1:]
	return false, err
}

func (s *script) Turn(context.Context)     { s.said = append(s.said, "turn") }
func (s *script) Stop()                    { s.said = append(s.said, "stop") }
func (s *script) TakeLast(context.Context) { s.said = append(s.said, "last") }
func (s *script) Settle()                  { s.said = append(s.said, "settle") }

// TestLoop: an engine takes records until its target ends, or nothing can be waited for.
func TestLoop(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		waits []error
		done  bool
		want  error
		said  []string
	}{
		"the target ends":       {[]error{nil, nil}, false, nil, []string{"turn", "turn", "turn"}},
		"no records":            {[]error{nil, broken, nil}, false, broken, []string{"turn"}},
		"the session was ended": {[]error{nil}, true, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{t: new(Taker), waits: c.waits}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.done {
				cancel()
			}
			if err := s.t.takeUntilEnd(ctx, s); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if !slices.Equal(s.said, c.said) {
				t.Errorf("%q, want %q", s.said, c.said)
			}
		})
	}
}

// TestInbox: records come back in their order, and those without room are counted.
func TestInbox(t *testing.T) {
	t.Parallel()
	var i Inbox
	add := func(record string) (first, room bool) { return i.Add([]byte(record[:1]), []byte(record[1:]), 6) }
	if first, room := add("abc"); !first || !room {
		t.Errorf("the first record: first %t, room %t", first, room)
	}
	if first, room := add("def"); first || !room {
		t.Errorf("the second record: first %t, room %t", first, room)
	}
	if _, room := add("g"); room || i.Lost() != 1 {
		t.Errorf("room %t, lost %d", room, i.Lost())
	}
	records := i.Swap(nil)
	add("hij")
	i.PutBack(records[3:])
	if got := string(i.Swap(nil)); got != "defhij" {
		t.Errorf("left %q", got)
	}
}
