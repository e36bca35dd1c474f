package fanin

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lists generates entries of a few methods, in order.
func lists(t *rapid.T) List {
	all := make(map[Key]Entry)
	for range rapid.IntRange(0, 6).Draw(t, "methods") {
		k := Key{Name: rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "name"), Body: rapid.Uint32Range(0, 2).Draw(t, "body")}
		n := rapid.Uint64Range(0, 500).Draw(t, "samples")
		e := Entry{Key: k, FanIn: FanIn{Samples: n, Other: n}}
		if n > 0 {
			e.Callers = 1
		}
		all[k] = e
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Entry) int { return a.Key.compare(b.Key) })
}

// TestTableKeepsTheBetter: of all that was stored under a key, no entry is better than the one that stands, each counts
// once, and a file gives the table back.
func TestTableKeepsTheBetter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := Table{}
		var stored []List
		for range rapid.IntRange(1, 5).Draw(t, "profiles") {
			l := lists(t)
			before := len(table)
			s := table.Store(l)
			if s.Created+s.Overwritten+s.Ties+s.Worse != len(l) || len(table) != before+s.Created {
				t.Fatalf("%d entries, %d then %d in the table: %+v", len(l), before, len(table), s)
			}
			stored = append(stored, l)
		}
		for _, l := range stored {
			for _, e := range l {
				is, known := table[e.Key]
				if !known || Better(is, e.FanIn) > 0 {
					t.Fatalf("%+v stands, and %+v is better", is, e)
				}
			}
		}
		file, err := table.Encode()
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := f.Entries()
		if err != nil || cmp.Diff(TableOf(all), table) != "" {
			t.Fatalf("error %v\n%s", err, cmp.Diff(TableOf(all), table))
		}
	})
}

// TestChoose: the better source is taken, one's own if both are about equal, and a method that neither knows has none.
// Of all methods, each entry of both sources stands once.
func TestChoose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own, shared := lists(t), lists(t)
		k := Key{Name: rapid.SampledFrom([]string{"A", "B", "C", "D"}).Draw(t, "asked"), Body: rapid.Uint32Range(0, 3).Draw(t, "code")}
		_, isOwn := own.Find(k)
		_, isShared := shared.Find(k)
		c, known := Choose(k, own, shared)
		if known != (isOwn || isShared) || known && c.Name != k.Name {
			t.Fatalf("%+v: known %v, in its own %v, in the shared one %v: %+v", k, known, isOwn, isShared, c)
		}
		ours, theirs := 0, 0
		for _, k := range Methods(own, shared) {
			c, _ := Choose(k, own, shared)
			if again, _ := Choose(c.Key, own, shared); cmp.Diff(again, c) != "" {
				t.Fatal(cmp.Diff(again, c))
			}
			want := c.SharedSamples != nil
			if c.OwnSamples != nil {
				want = want && Better(FanIn{Samples: *c.OwnSamples}, FanIn{Samples: *c.SharedSamples}) > 0
				ours++
			}
			if c.SharedSamples != nil {
				theirs++
			}
			if c.Shared != want {
				t.Fatalf("shared %v, want %v: %+v", c.Shared, want, c)
			}
		}
		if ours != len(own) || theirs != len(shared) {
			t.Fatalf("%d of %d own entries, %d of %d shared ones", ours, len(own), theirs, len(shared))
		}
	})
}

// TestFind: an entry whose code is not known is any code's, if it is the only one of its name.
func TestFind(t *testing.T) {
	t.Parallel()
	l := List{{Key: Key{Name: "a"}}, {Key: Key{Name: "b", Body: 1}}, {Key: Key{Name: "c", Body: 1}}, {Key: Key{Name: "c", Body: 2}}}
	for k, want := range map[Key]Key{
		{Name: "a"}: l[0].Key, {Name: "a", Body: 7}: l[0].Key, {Name: "b"}: l[1].Key, {Name: "b", Body: 1}: l[1].Key, {Name: "c", Body: 2}: l[3].Key,
	} {
		if e, found := l.Find(k); !found || e.Key != want {
			t.Errorf("%+v: %+v, found %v", k, e.Key, found)
		}
	}
	for _, k := range []Key{{Name: "b", Body: 2}, {Name: "c"}, {Name: "c", Body: 3}, {Name: "a", Signature: "()"}, {}} {
		if e, found := l.Find(k); found {
			t.Errorf("%+v: %+v", k, e.Key)
		}
	}
}
