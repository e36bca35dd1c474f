package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// profileOfMethods returns a profile of methods a, b, c … with so many samples of their own, of a unit and an engine.
func profileOfMethods(unit ccmap.Unit, engine string, samples ...int64) *Profile {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Unit, m.Meta().Engine = unit, engine
	for i, n := range samples {
		id := m.Names().Intern(ccmap.Method{Name: string(rune('a' + i))})
		m.Add(m.Child(m.Root(), ccmap.NoOffset, id), ccmap.Counters{Samples: n, Time: 10 * n})
	}
	return New("p", m.Snapshot())
}

// topText prints the list of methods.
func topText(t *testing.T, p *Profile, l List) (text string, v *Top) {
	t.Helper()
	v, err := NewTop(p, l)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := v.Text(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.String(), v
}

// TestTies: rows that chance can have put in this order are told, among the first ones and in the order of flat time.
func TestTies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p     *Profile
		order string
		want  string // "": quiet
	}{
		{profileOfMethods(ccmap.CPUTime, "bpf", 5000, 2000, 1000, 500, 200), ByFlat, ""},
		{profileOfMethods(ccmap.CPUTime, "bpf", 5000, 1203, 1200, 500, 200), ByFlat, "\nRows 2 and 3 cannot be told apart: they have 1,203 and 1,200 samples of their own.\n"},
		{profileOfMethods(ccmap.CPUTime, "bpf", 1010, 1000, 990, 500, 200), ByFlat, "\nRows 1 and 2 cannot be told apart from the row below by their samples.\n"},
		{profileOfMethods(ccmap.CPUTime, "bpf", 5000, 2000, 1000, 500, 200, 51, 50, 49), ByFlat, ""},
		{profileOfMethods(ccmap.CPUTime, "bpf", 5000, 1203, 1200, 500, 200), ByCum, ""},
		{profileOfMethods(ccmap.CPUTime, "bpf", 4, 3, 2), ByFlat, ""}, // too few to tell anything
		{profileOfMethods(ccmap.CPUTime, "wasm, exact", 5000, 1203, 1200), ByFlat, ""},
		{profileOfMethods(ccmap.NewUnit("alloc_space", "bytes"), "jfr", 5000, 1203, 1200), ByFlat, ""},
		{profileOfMethods(ccmap.CPUTime, "bpf", 100), ByFlat, ""},
		{profileOfMethods(ccmap.CPUTime, "bpf"), ByFlat, ""},
	} {
		text, v := topText(t, c.p, List{Order: c.order})
		if c.want == "" && (strings.Contains(text, "told apart")) || !strings.Contains(text, c.want) {
			t.Errorf("by %s, want %q:\n%s", c.order, c.want, text)
		}
		var b bytes.Buffer
		if err := v.Text(&b, TextOptions{Brief: true}); err != nil || strings.Contains(b.String(), "Rows ") {
			t.Errorf("in brief: %v\n%s", err, &b)
		}
	}
}

// TestIntervalsInJSON: each share is inside its interval, and there is none where nothing is known of it.
func TestIntervalsInJSON(t *testing.T) {
	t.Parallel()
	type share struct {
		Percent float64
		Low     *float64 `json:"share_low"`
		High    *float64 `json:"share_high"`
	}
	var top struct {
		Methods []struct{ Flat, Cum share }
		Ties    *[]struct {
			Row int
			P   float64
		}
	}
	decode := func(p *Profile) error {
		top.Methods, top.Ties = nil, nil
		v, err := NewTop(p, List{})
		if err != nil {
			return err
		}
		text, err := json.Marshal(v.JSON())
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &top)
	}
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(1, 2000), 1, 8).Draw(t, "samples")
		if err := decode(profileOfMethods(ccmap.CPUTime, "bpf", samples...)); err != nil {
			t.Fatal(err)
		}
		for _, m := range top.Methods {
			for _, s := range []share{m.Flat, m.Cum} {
				if s.Low == nil || s.High == nil || *s.Low > s.Percent+1e-9 || *s.High < s.Percent-1e-9 || *s.Low < 0 || *s.High > 100 {
					t.Errorf("%v of %v", s, samples)
				}
			}
		}
		if top.Ties == nil {
			t.Fatal("no ties are told, and not that there are none")
		}
		for _, tie := range *top.Ties {
			if tie.Row < 1 || tie.Row >= min(len(samples), leadingRows) || tie.P < 0.05 || tie.P > 1 {
				t.Errorf("%+v of %v", tie, samples)
			}
		}
	})
	for _, p := range []*Profile{
		profileOfMethods(ccmap.CPUTime, "wasm, exact", 10, 10), profileOfMethods(ccmap.NewUnit("alloc_space", "bytes"), "jfr", 10, 10),
	} {
		if err := decode(p); err != nil || top.Ties != nil || top.Methods[0].Flat.Low != nil || top.Methods[0].Cum.High != nil {
			t.Errorf("%v: %s", err, fmt.Sprintf("%+v", top))
		}
	}
}
