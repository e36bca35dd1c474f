package valueprof

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{PolicyDecay, PolicyReset, PolicyOff} {
		if got, err := ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%v: parsed as %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("never"); err == nil {
		t.Error("no error")
	}
	if s := Policy(9).String(); s != "Policy(9)" {
		t.Error(s)
	}
}

// TestJudge: each policy judges a full table by the adds since the last look that
// matched and that did not.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy         Policy
		matched, other int64
		want           outcome
	}{
		{PolicyDecay, 89, 10, outcomeEarly},
		{PolicyDecay, 1000, 100, outcomeGood},
		{PolicyDecay, 1000, 101, outcomeDecayed},
		{PolicyReset, 1000, 500, outcomeGood},
		{PolicyReset, 1000, 501, outcomeReset},
		{PolicyOff, 0, 1000, outcomeGood},
	} {
		table := fullTable()
		last := lastLook{matched: table.Matched(), other: table.Other()}
		table.AddN(1, c.matched)
		table.AddN(99, c.other)
		total := table.Total()
		if got := c.policy.judge(table, &last, 100, nil); got != c.want {
			t.Errorf("%+v: outcome %d", c, got)
		}
		if table.Total() != total {
			t.Errorf("%+v: total was %d, is %d", c, total, table.Total())
		}
		if c.want != outcomeEarly && c.policy.judge(table, &last, 1, nil) != outcomeEarly {
			t.Errorf("%+v: the look is not remembered", c)
		}
	}
}

// fullTable returns a table with the values 1 to 3, twice each, and some others.
func fullTable() *Table {
	t := New(3, HashAuto)
	for v := range uint64(10) {
		t.AddN(1+v, 2)
	}
	return t
}

// TestNotFullIsLeft: policies leave a table that has room alone.
func TestNotFullIsLeft(t *testing.T) {
	t.Parallel()
	table := New(3, HashAuto)
	table.AddN(1, 1000)
	for _, p := range []Policy{PolicyDecay, PolicyReset} {
		if v := p.judge(table, &lastLook{}, 100, nil); v != outcomeGood {
			t.Errorf("%v: outcome %d", p, v)
		}
	}
}

func TestTooFewAddsAreKept(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Every: 1000, Capacity: 3})
	for v := range uint64(600) {
		p.Call(Site{}, v)
	}
	p.look()
	if p.janitor.decays != 0 {
		t.Fatal("decayed too early")
	}
	for range 600 {
		p.Call(Site{}, 0) // a hit, which the janitor does not see
	}
	p.look()
	if p.janitor.decays != 1 {
		t.Errorf("decayed %d times", p.janitor.decays)
	}
}

// TestEverySiteIsFollowed: many sites take turns, so each has few of the adds between
// two looks. For each site the janitor finds the values that follow a warm-up.
func TestEverySiteIsFollowed(t *testing.T) {
	t.Parallel()
	const sites = 50
	p := NewProfile(Options{Every: 100, Capacity: 7})
	for round := range uint64(2000) {
		for s := range uint32(sites) {
			v := round % 97 // to warm up
			if round >= 200 {
				v = 1000 + round%4
			}
			p.Call(Site{Method: s / 3, Offset: s}, v)
		}
	}
	for _, v := range p.Points(inContext) {
		for i := range v.Values[:4] {
			if v.Values[i].Value < 1000 {
				t.Errorf("%+v", v)
			}
		}
	}
	if s := p.Stats(); s.Decays < sites || s.Looks > 2000*sites/25 {
		t.Errorf("%+v", s)
	}
}

func TestJanitorLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := NewProfile(Options{
		Every: 100, Capacity: 3,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	for v := range uint64(100) {
		p.Call(Site{}, v)
	}
	if s := log.String(); !strings.Contains(s, "tables=1 decayed=1 reset=0") {
		t.Errorf("log: %s", s)
	}
}
