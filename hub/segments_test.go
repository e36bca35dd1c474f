package hub

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// again is a bucket whose client sends each write twice.
type again struct{ bucket.Bucket }

func (a *again) Put(ctx context.Context, key string, body []byte, c bucket.Condition) error {
	if err := a.Bucket.Put(ctx, key, body, c); err != nil {
		return err
	}
	return a.Bucket.Put(ctx, key, body, c)
}

// TestRanges compares ranges with a set.
func TestRanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := make(map[uint64]bool)
		var seen [][2]uint64
		for range rapid.IntRange(1, 60).Draw(t, "numbers") {
			n := rapid.Uint64Range(1, 40).Draw(t, "n")
			if has(seen, n) != set[n] {
				t.Fatalf("%v has %d: %v", seen, n, has(seen, n))
			}
			if !set[n] {
				seen, set[n] = add(seen, n), true
			}
			if !ordered(seen) {
				t.Fatalf("%v is not in order", seen)
			}
		}
		for n := range uint64(45) {
			if has(seen, n) != set[n] {
				t.Fatalf("%v has %d: %v", seen, n, has(seen, n))
			}
		}
	})
}

// TestNothingOfUsers: what tells of a machine or of a user is in no aggregate.
func TestNothingOfUsers(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 7, 1, 1)
	putSegment(t, b, f.all...)
	if err := testAggregator(b).round(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, _, err := readManifest(t.Context(), b, idOf(f.all[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := readAggregate(t.Context(), b, m, levelBuild)
	if err != nil {
		t.Fatal(err)
	}
	if is := sum.Meta(); is.Target.PID != 0 || is.Target.Executable != "" || len(is.Target.CommandLine)+len(is.Comments) > 0 || is.Target.BuildID != "1f0c" {
		t.Errorf("the description is %+v", is)
	}
}

// TestPoison: a contribution that cannot be read, and bytes that are none, are set aside; the others of the segment
// count, and the segment goes.
func TestPoison(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 8, 1, 3)
	poison, err := contribution.Append(nil, testKey("web", 0, 9), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := []byte(string(f.all[1].frame))
	damaged[len(damaged)-1]++
	for range 2 { // as if the first aggregator had been killed before it removed the segment
		putSegment(t, b, f.all[0], sent{frame: poison}, sent{frame: damaged}, f.all[2])
		if err := testAggregator(b).round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if bad, left := keysOf(t, b, badDir), keysOf(t, b, segmentsDir); len(bad) != 4 || len(left) > 0 {
		t.Errorf("set aside %q, left %q", bad, left)
	}
	checkSums(t, b, []sent{f.all[0], f.all[2]})
	a := testAggregator(b)
	a.now = func() time.Time { return time.Now().Add(2 * badKept) }
	if err := a.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bad := keysOf(t, b, badDir); len(bad) > 0 {
		t.Errorf("after two months there are %q", bad)
	}
}

// TestNewer: what a later version has written waits for a later aggregator, and blocks nothing else.
func TestNewer(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 9, 1, 4)
	newer := []byte(string(f.all[1].frame))
	newer[4]++ // the version
	putSegment(t, b, f.all[0], sent{frame: newer}, f.all[2])
	for range 2 {
		if err := testAggregator(b).round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	putSegment(t, b, f.all[3])
	if err := testAggregator(b).round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bad, left := keysOf(t, b, badDir), keysOf(t, b, segmentsDir); len(bad) > 0 || len(left) != 1 {
		t.Errorf("set aside %q, left %q", bad, left)
	}
	checkSums(t, b, []sent{f.all[0], f.all[2], f.all[3]})

	m, tag, err := readManifest(t.Context(), b, idOf(f.all[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	m.Version++
	m.advance()
	body, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), manifestKey(idOf(f.all[0].Key)), body, bucket.Condition{Tag: tag}); err != nil {
		t.Fatal(err)
	}
	other := newSent(t, testKey("other", 1, 1), randomProfile(rand.New(rand.NewPCG(1, 1)), 3).Snapshot())
	putSegment(t, b, f.all[1], other)
	if err := testAggregator(b).round(t.Context()); err == nil || !strings.Contains(err.Error(), errNewer.Error()) {
		t.Errorf("a manifest of a later version: %v", err)
	}
	if left := keysOf(t, b, segmentsDir); len(left) != 2 {
		t.Errorf("%q are left, want the one of before and that of the later manifest", left)
	}
	checkSums(t, b, []sent{other})
}

// TestEpochs: an epoch is stamped by the aggregator, old from then on after a week, and over after two: no earlier
// contribution counts again.
func TestEpochs(t *testing.T) {
	t.Parallel()
	m := &manifest{Version: manifestVersion, Instances: map[string]*instance{}}
	k := testKey("web", 1, 1)
	k.From, k.To = start.AddDate(-1, 0, 0), start.AddDate(-1, 0, 1) // a daemon's clock says nothing
	m.note(k, nil, start)
	other := testKey("web", 2, 1)
	m.note(other, nil, start.Add(10*24*time.Hour))
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	for _, test := range []struct {
		now, oldest time.Time
		old         bool
		want        verdict
	}{
		{day(6), day(6), false, duplicate},
		{day(8), day(8), true, duplicate},
		{day(13), day(13), true, duplicate},
		{day(15), day(7), true, duplicate}, // a segment of the epoch may be there
		{day(15), day(15), false, over},
	} {
		m.forget(test.now, test.oldest)
		if got := m.judge(k, nil); got != test.want || m.isOld(k, test.now) != test.old {
			t.Errorf("%s, oldest segment %s: verdict %d, old %v", test.now, test.oldest, got, m.isOld(k, test.now))
		}
	}
	if got := m.judge(other, nil); got != duplicate {
		t.Errorf("the epoch of another instance: %d", got)
	}
	k.Epoch = 2
	if got := m.judge(k, nil); got != fresh {
		t.Errorf("the next epoch: %d", got)
	}
}

// TestClones: of two machines with one instance the first counts, and the second is told.
func TestClones(t *testing.T) {
	t.Parallel()
	b := newMemory()
	r := rand.New(rand.NewPCG(1, 1))
	first := newSent(t, testKey("web", 1, 1), randomProfile(r, 5).Snapshot())
	second := newSent(t, testKey("web", 1, 1), randomProfile(r, 7).Snapshot())
	putSegment(t, b, first)
	putSegment(t, b, second)
	if err := testAggregator(b).round(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, _, err := readManifest(t.Context(), b, idOf(first.Key))
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[verdict]int{}
	for _, s := range []sent{first, second} {
		f, err := contribution.One(s.frame)
		if err != nil {
			t.Fatal(err)
		}
		verdicts[m.judge(f.Key, f.Body)]++
	}
	if verdicts[duplicate] != 1 || verdicts[cloned] != 1 {
		t.Errorf("verdicts %v", verdicts)
	}
}

// TestHostileManifest: a bucket that others have changed makes no hub read another build, or crash.
func TestHostileManifest(t *testing.T) {
	t.Parallel()
	id := idOf(testKey("web", 1, 1))
	for _, text := range []string{
		``, `{`, `[]`, `{"version":0}`, `{"version":1,"aggregate":"agg/other/build/1.json.zst"}`,
		`{"version":1,"instances":{"a":null}}`, `{"version":1,"instances":{"a":{"epochs":{"1":null}}}}`,
		`{"version":1,"instances":{"a":{"epochs":{"1":{"seen":[]}}}}}`,
		`{"version":1,"instances":{"a":{"epochs":{"1":{"seen":[[2,1]]}}}}}`,
		`{"version":4,"instances":{"ids":"AAAA"}}`,
		`{"version":4,"instances":` + columnsOf(1, `"lives":[2],"epoch":[1],"first":[0],"sums":"AAAAAA==","ranges":[0],"seen":[]`) + `}`,
		`{"version":4,"instances":` + columnsOf(1, `"lives":[-1],"epoch":[],"first":[],"sums":"","ranges":[],"seen":[]`) + `}`,
		`{"version":4,"instances":` + columnsOf(1, `"lives":[1],"epoch":[1],"first":[0],"sums":"AAAAAA==","ranges":[-1],"seen":[]`) + `}`,
		`{"version":4,"instances":` + columnsOf(1, `"lives":[1],"epoch":[1],"first":[0],"sums":"AAAAAA==","ranges":[9],"seen":[1,1]`) + `}`,
		`{"version":4,"instances":` + columnsOf(1, `"lives":[1],"epoch":[1],"first":[0],"sums":"AAAAAA==","ranges":[1],"seen":[1,18446744073709551615]`) + `}`,
		`{"version":4,"instances":` + columnsOf(2, `"lives":[0,0],"epoch":[],"first":[],"sums":"","ranges":[],"seen":[]`) + `}`, // one id twice
	} {
		b := newMemory()
		if err := b.Put(t.Context(), manifestKey(id), packer.EncodeAll([]byte(text), nil), bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readManifest(t.Context(), b, id); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// columnsOf returns so many instances of the id 0.
func columnsOf(n int, rest string) string {
	zeros := "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]"
	ids := base64.StdEncoding.EncodeToString(make([]byte, n*idSize))
	return fmt.Sprintf(`{"ids":"%s","least":%[2]s,"class":%[2]s,"look":%[2]s,"odd":%[2]s,%s}`, ids, zeros, rest)
}

// TestRoster: what is written is read, in columns as before version 4.
func TestRoster(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 1))
	m := &manifest{Version: manifestVersion, Instances: roster{}}
	for n := range uint64(200) {
		k := testKey("web", 0, 0)
		k.Instance, k.Epoch, k.Seq = fmt.Sprintf("%016x%016x", r.Uint64N(4), n/4), 1+r.Uint64N(3), 1+r.Uint64N(20)
		if m.judge(k, nil) == fresh {
			m.note(k, binary.LittleEndian.AppendUint64(nil, n), start.Add(time.Duration(r.IntN(1e6))*time.Second))
		}
		is := m.Instances[k.Instance]
		is.Least, is.Class, is.Look, is.Odd = r.Uint64N(2), r.IntN(mostClasses), r.Int64N(1e6), r.IntN(3)
	}
	packed, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	is, err := decodeManifest(packed)
	if err != nil || !reflect.DeepEqual(is.Instances, m.Instances) {
		t.Errorf("%v: the instances differ", err)
	}
	before, err := json.Marshal(struct {
		Version   int                  `json:"version"`
		Instances map[string]*instance `json:"instances"`
	}{3, m.Instances})
	if err != nil {
		t.Fatal(err)
	}
	is, err = decodeManifest(packer.EncodeAll(before, nil))
	if err != nil || !reflect.DeepEqual(is.Instances, m.Instances) {
		t.Errorf("%v: the instances of version 3 differ", err)
	}
}

func FuzzManifest(f *testing.F) {
	m := &manifest{Version: manifestVersion, Instances: map[string]*instance{}}
	m.note(testKey("web", 1, 1), nil, start)
	body, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeManifest(b)
		if err != nil {
			return
		}
		k := testKey("web", 1, 3)
		if m.judge(k, nil) == fresh {
			m.note(k, nil, start)
		}
		if m.judge(k, nil) == fresh {
			t.Fatal("what was noted is fresh")
		}
		m.forget(start, start)
	})
}

func FuzzContribution(f *testing.F) {
	s := newSent(f, testKey("web", 1, 1), randomProfile(rand.New(rand.NewPCG(1, 1)), 5).Snapshot())
	f.Add(s.frame)
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := contribution.One(b)
		if err != nil {
			return
		}
		if s, err := readContribution(frame); err == nil {
			if err := ccmap.New(ccmap.Options{}).Merge(s); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLease: one hub of two holds it, until it is silent for 15 s.
func TestLease(t *testing.T) {
	t.Parallel()
	b := newMemory()
	one, two := newLeases(b, "one", 1, leaseTime), newLeases(b, "two", 1, leaseTime)
	got := ""
	for _, at := range []int{0, 5, 10, 20, 30, 50} { // s; from 10 on the first is silent
		now := start.Add(time.Duration(at) * time.Second)
		got += fmt.Sprintf(" %d", at)
		if at <= 10 && holds(t, one, now) {
			got += "one"
		}
		if holds(t, two, now) {
			got += "two"
		}
	}
	if want := " 0one 5one 10one 20 30two 50two"; got != want {
		t.Errorf("held by%s, want%s", got, want)
	}
}

func holds(t *testing.T, l *leases, now time.Time) bool {
	held, _ := l.hold(t.Context(), now)
	return len(held) > 0
}

// TestFirstRound: a hub that has just taken the lease merges at once, however long its rounds are: the hub before it may
// have ended before its first one. Later rounds wait.
func TestFirstRound(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 21, 1, 4)
	now := time.Now()
	for life, s := range f.all[:3] {
		putSegment(t, b, s)
		h := New(Options{Bucket: b, Round: time.Hour})
		if life > 0 {
			if err := h.look(t.Context(), now); err != nil { // the hub before it may still live
				t.Fatal(err)
			}
			if len(keysOf(t, b, segmentsDir)) == 0 {
				t.Fatal("a hub without the lease has merged")
			}
		}
		now = now.Add(leaseTime)
		if err := h.look(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if left := keysOf(t, b, segmentsDir); len(left) > 0 {
			t.Fatalf("life %d: %d segments wait for a round that no hub lives to see", life, len(left))
		}
		if life == 2 {
			putSegment(t, b, f.all[3])
			if err := h.look(t.Context(), now.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if len(keysOf(t, b, segmentsDir)) != 1 {
				t.Error("a second round did not wait")
			}
		}
	}
	checkSums(t, b, f.all[:3])
}

// TestManifestIsSmall: a manifest of 10,000 instances, in their third life and with a gap each, has at most 24 bytes each.
// Of these 16 are a random id, 4 a checksum, and 1.5 the second that the hub met it.
func TestManifestIsSmall(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(30, 1))
	m := &manifest{Version: manifestVersion, Instances: map[string]*instance{}}
	for range 10_000 {
		k := testKey("web", 0, 0)
		k.Instance, k.Epoch = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()), 3
		m.note(k, binary.LittleEndian.AppendUint64(nil, r.Uint64()), start.Add(time.Duration(r.IntN(3600))*time.Second))
		is := m.Instances[k.Instance]
		is.Class, is.Look = r.IntN(2), start.Unix()/3600
		is.Epochs[3].Seen = [][2]uint64{{1, 143}, {145, 145 + r.Uint64N(3)}}
	}
	m.advance()
	packed, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d kB", len(packed)/1000); len(packed) > 240_000 {
		t.Errorf("a manifest of 10,000 instances has %d bytes", len(packed))
	}
}
