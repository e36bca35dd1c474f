package compilation

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func logOf(t testing.TB, records ...Record) []byte {
	t.Helper()
	var text []byte
	for _, r := range records {
		var err error
		if text, err = Append(text, r); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

func some(n int) (records []Record) {
	for i := range n {
		records = append(records, Record{
			Method: Method{Name: fmt.Sprintf("p.Work.m%d", i), Signature: "(I)I", Body: uint64(i)}, Time: int64(i), Level: 3 + i%2, OSR: i%3 - 1,
			Calls: []Call{{Caller: "p.Work.m", Callee: "p.Sq.a\n", Offset: i, Inlined: i%2 == 0, Words: "too deep"}},
		})
	}
	return records
}

func read(t testing.TB, text []byte) Log {
	t.Helper()
	l, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLogKeepsRecords(t *testing.T) {
	t.Parallel()
	want := some(20)
	text := logOf(t, want...)
	if got := read(t, text); !reflect.DeepEqual(got, Log{Records: want}) {
		t.Errorf("%+v", got)
	}
	if n := bytes.Count(text, []byte("\n")); n != len(want) {
		t.Errorf("%d lines for %d records", n, len(want))
	}
}

// TestCutLog: whatever a kill leaves of a log, every whole line of it is read.
func TestCutLog(t *testing.T) {
	t.Parallel()
	want := some(6)
	text := logOf(t, want...)
	for n := range len(text) {
		whole := bytes.Count(text[:n], []byte("\n"))
		got := read(t, text[:n])
		if len(got.Records) != whole || got.Damaged != 0 || got.Torn != (n > 0 && text[n-1] != '\n') {
			t.Fatalf("of %d bytes: %d records, %d damaged, torn %v", n, len(got.Records), got.Damaged, got.Torn)
		}
	}
}

// TestFlippedBits: a flipped bit loses the record that it is in, or the two that became one line, and makes none.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	want := some(8)
	text := logOf(t, want...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		bad := bytes.Clone(text)
		at := random.IntN(len(bad))
		bad[at] ^= 1 << random.IntN(8)
		got := read(t, bad)
		if len(got.Records) < len(want)-2 {
			t.Fatalf("byte %d: %d records are left", at, len(got.Records))
		}
		for _, r := range got.Records {
			if !reflect.DeepEqual(r, want[r.Time]) {
				t.Fatalf("byte %d: a record became another: %+v", at, r)
			}
		}
	}
}

func TestBadRecordsAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []Record{
		{}, {Method: Method{Name: strings.Repeat("n", longestName+1)}}, {Method: Method{Name: "m"}, OSR: -3},
		{Method: Method{Name: "m"}, Level: -1}, {Method: Method{Name: "m"}, Wrong: -1},
	} {
		if text, err := Append(nil, r); err == nil || len(text) > 0 {
			t.Errorf("%.60v was appended", r)
		}
	}
	long := append(append([]byte("0 "), bytes.Repeat([]byte("x"), longestLine+1)...), '\n')
	got := read(t, append(long, logOf(t, some(1)...)...))
	if len(got.Records) != 1 || got.Damaged != 1 {
		t.Errorf("after a line without an end: %d records, %d damaged", len(got.Records), got.Damaged)
	}
}

// TestCacheKeepsTheRichest: the last record of the highest level counts, and lower levels never do.
func TestCacheKeepsTheRichest(t *testing.T) {
	t.Parallel()
	m := Method{Name: "m"}
	for _, test := range []struct {
		levels []int
		want   int // index
	}{{[]int{3}, 0}, {[]int{3, 4, 3}, 1}, {[]int{4, 4}, 1}, {[]int{3, 3, 2}, 1}} {
		c := NewCache(nil)
		for i, level := range test.levels {
			c.Add(Record{Method: m, Level: level, Time: int64(i), OSR: NoOSR})
		}
		r, found := c.Find(m)
		if !found || r.Time != int64(test.want) || c.Level(m) != test.levels[test.want] {
			t.Errorf("%v: %+v", test.levels, r)
		}
	}
	c := NewCache([]Record{{Method: m, Level: 2}, {Method: Method{Name: "n", Body: 1}, Level: 4}})
	if c.Level(m) != 0 || c.Level(Method{Name: "n", Body: 2}) != 0 || c.Level(Method{Name: "n"}) != 4 || c.Level(Method{Name: "other"}) != 0 {
		t.Errorf("%+v", c.All())
	}
}

// TestTenTimesWrong: after ten mismatches a record is out of use, in this run and the next, until the method is
// compiled again.
func TestTenTimesWrong(t *testing.T) {
	t.Parallel()
	m := Method{Name: "m"}
	text := logOf(t, Record{Method: m, Level: 4, OSR: NoOSR})
	c := NewCache(read(t, text).Records)
	for i := range MostWrong {
		if c.Level(m) != 4 {
			t.Fatalf("out of use after %d", i)
		}
		r, out := c.Wrong(m, 1)
		if out != (i == MostWrong-1) {
			t.Fatalf("after %d: out %v", i+1, out)
		}
		text = append(text, logOf(t, r)...)
	}
	if r, out := c.Wrong(m, 1); out || r.Name != "" || c.Level(m) != 0 {
		t.Error("a record that is out of use was wrong again")
	}
	for _, next := range []*Cache{NewCache(read(t, text).Records), NewCache(read(t, c.Compact(nil)).Records)} {
		if next.Level(m) != 0 {
			t.Error("the next run uses it again")
		}
		next.Add(Record{Method: m, Level: 3, OSR: NoOSR})
		if next.Level(m) != 3 {
			t.Error("a new record of a method is not used")
		}
	}
	if r, out := c.Wrong(Method{Name: "other"}, 1); out || r.Wrong > 0 {
		t.Error("a method without a record was wrong")
	}
}

// TestWrongWithoutRecords: of profiles alone a log has mismatches alone. The last one of a method counts; its cached
// profile is not known here.
func TestWrongWithoutRecords(t *testing.T) {
	t.Parallel()
	m := Method{Name: "m", Body: 1}
	c := NewCache([]Record{{Method: m, Wrong: 7, Time: 1, OSR: 5}, {Method: m, Wrong: 2, Time: 2, OSR: NoOSR}, {Method: Method{Name: "n"}}})
	want := []Record{{Method: m, Wrong: 2, Time: 2, OSR: NoOSR}}
	if !reflect.DeepEqual(c.All(), want) || c.Level(m) != 0 {
		t.Errorf("%+v", c.All())
	}
	if d := NewCache(read(t, c.Compact(nil)).Records); !reflect.DeepEqual(d.All(), want) {
		t.Errorf("compacted: %+v", d.All())
	}
	if _, out := c.Wrong(m, 3); out || c.All()[0].Wrong != 2 {
		t.Error("a mismatch of a cached profile that is not known counts")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(logOf(f, some(3)...))
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := read(t, text)
		again := read(t, logOf(t, l.Records...))
		if len(again.Records) != len(l.Records) || again.Damaged > 0 || again.Torn {
			t.Errorf("%d records, then %+v", len(l.Records), again)
		}
		c := NewCache(l.Records)
		if d := NewCache(read(t, c.Compact(nil)).Records); !reflect.DeepEqual(c.All(), d.All()) {
			t.Errorf("%+v became %+v", c.All(), d.All())
		}
	})
}
