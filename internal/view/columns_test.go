package view

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// decode reads the JSON of a view.
func decode(t *testing.T, v, into any) {
	t.Helper()
	var text bytes.Buffer
	if err := terminal.WriteJSON(&text, v); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), into); err != nil {
		t.Fatal(err)
	}
}

// drawing returns a profile with caught calls of phase 1, and the answers to all questions about it.
func drawing(t *testing.T) (*Profile, map[string]View) {
	t.Helper()
	m := profiletest.Drawing(500)
	m.SetMoments(slices.Values([]ccmap.Moment{{Time: 5e8, Path: 1, Weight: profiletest.SampleNS}}))
	p := New("drawing", m.Snapshot())
	answers := map[string]View{}
	for _, q := range Questions() {
		of := p
		if q.Name == "requests" {
			of = waiting()
		}
		v, err := answer(q, of, "all", "true")
		if err != nil {
			t.Fatalf("%s: %v", q.Name, err)
		}
		answers[q.Name] = v
	}
	return p, answers
}

// waiting returns a profile of goroutines, with requests.
func waiting() *Profile {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Unit, m.Meta().Duration = ccmap.NewUnit("wall", ccmap.Nanoseconds), time.Second
	at := ccmap.NodeID(0)
	for _, name := range []string{query.Answering()[0], "main.handle", "[select]"} {
		at = m.Child(at, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name}))
	}
	m.Add(at, ccmap.Counters{Samples: 20, Time: 1e9})
	return New("waits", m.Snapshot())
}

// answer asks a question about a profile, with a parameter that is not the default, if the question has it.
func answer(q Question, p *Profile, name, value string) (View, error) {
	form := q.New()
	for _, param := range form.Params {
		if param.Name != name {
			continue
		}
		switch v := param.Value.(type) {
		case *bool:
			*v = value == "true"
		case *string:
			*v = value
		}
	}
	about := About{Profiles: []*Profile{p}, Find: query.Named}
	switch {
	case q.Subject.Compares():
		about.Profiles = append(about.Profiles, profileOf("other", 100, time.Millisecond))
	case q.Subject != OfMethods:
		about.Text = "main.draw"
	}
	return form.Answer(about)
}

// TestColumnsAreMembers: every member of the JSON of every list is a declared column with
// a description, and every column of a table is declared.
func TestColumnsAreMembers(t *testing.T) {
	t.Parallel()
	_, lists := drawing(t)
	for _, q := range Questions() {
		name, layout := q.Name, q.Layout
		declared, named := map[string]bool{}, map[string]bool{}
		for _, c := range layout.Columns {
			if declared[c.Key], named[c.Name] = true, true; c.Doc == "" {
				t.Errorf("%s: column %q, member %q is not described", name, c.Name, c.Key)
			}
		}
		for _, title := range layout.All {
			if !named[title] && name != "query" && name != "receivers" { // their figures are of several kinds of rows
				t.Errorf("%s: no column %q", name, title)
			}
		}
		for _, title := range layout.First {
			if !slices.Contains(layout.All, title) {
				t.Errorf("%s: first column %q is not among all", name, title)
			}
		}
		var got any
		decode(t, lists[name].JSON(), &got)
		checkMembers(t, name, declared, "", got)
	}
}

func checkMembers(t *testing.T, view string, declared map[string]bool, parent string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if !declared[parent+key] {
				t.Errorf("%s: member %s is not declared", view, parent+key)
			}
			if key != "phases" { // its members are numbers of phases
				checkMembers(t, view, declared, parent+key+".", member)
			}
		}
	case []any:
		for _, member := range v {
			checkMembers(t, view, declared, strings.TrimSuffix(parent, ".")+"[].", member)
		}
	}
}

// TestChosenColumns: a table has the columns that are asked for, in that order, and an
// unknown one is an error that lists all.
func TestChosenColumns(t *testing.T) {
	t.Parallel()
	_, lists := drawing(t)
	for _, q := range Questions() {
		name, layout := q.Name, q.Layout
		chosen := []string{layout.All[len(layout.All)-1], strings.ToUpper(layout.All[0])}
		var text bytes.Buffer
		if err := lists[name].Text(&text, TextOptions{Columns: chosen}); err != nil {
			t.Fatal(err)
		}
		title := layout.All[len(layout.All)-1] + " " + layout.All[0]
		if !slices.ContainsFunc(strings.Split(text.String(), "\n"), func(line string) bool { return strings.HasPrefix(strings.Join(strings.Fields(line), " "), title) }) {
			t.Errorf("%s: no line %q in\n%s", name, title, text.String())
		}
		err := lists[name].Text(io.Discard, TextOptions{Columns: []string{"heat"}})
		if err == nil || !strings.Contains(err.Error(), `no column "heat": take `+layout.All[0]+", ") {
			t.Errorf("%s: unknown column: %v", name, err)
		}
	}
}

// TestUnknownOrders: an order that a list does not have is an error, and none is the first.
func TestUnknownOrders(t *testing.T) {
	t.Parallel()
	p, _ := drawing(t)
	for _, q := range Questions() {
		if len(q.Layout.Orders) == 0 {
			continue
		}
		if _, err := answer(q, p, "sort", "heat"); err == nil || !strings.Contains(err.Error(), `no order "heat": take `) {
			t.Errorf("%s: %v", q.Name, err)
		}
		if _, err := answer(q, p, "sort", ""); err != nil {
			t.Errorf("%s: %v", q.Name, err)
		}
	}
	first, err := NewPoints(p, PointsList{})
	if err != nil {
		t.Fatal(err)
	}
	named, err := NewPoints(p, PointsList{List: List{Order: pointsLayout.Orders[0]}})
	if err != nil || !reflect.DeepEqual(first.Rows, named.Rows) {
		t.Errorf("points without an order are not in the first order, %v", err)
	}
}
