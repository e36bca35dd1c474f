package hub

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// putSegmentAt writes contributions as a segment that arrived at a time.
func putSegmentAt(t testing.TB, b bucket.Bucket, at time.Time, all ...sent) {
	t.Helper()
	key := fmt.Sprintf("%s0/%013d-test%d-1-%d", segmentsDir, at.UnixMilli(), rand.Uint64(), len(all))
	if err := b.Put(t.Context(), key, batchOf(all).bytes, bucket.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
}

// manifestOf returns the manifest of the build of a contribution.
func manifestOf(t testing.TB, b bucket.Bucket, s sent) *manifest {
	t.Helper()
	m, _, err := readManifest(t.Context(), b, idOf(s.Key))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLevels: hours become days when these are over, late contributions go to their day, wrong clocks to the hour of
// their arrival; old days go, and nothing that was counted counts again.
func TestLevels(t *testing.T) {
	t.Parallel()
	b := newMemory()
	a := testAggregator(b)
	r := rand.New(rand.NewPCG(11, 0))
	day := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) } // start is at 10:00
	var all []sent
	send := func(from, at time.Time) {
		k := testKey("web", len(all)%3, uint64(len(all)+1))
		k.From, k.To = from, from.Add(time.Minute)
		s := newSent(t, k, randomProfile(r, 5).Snapshot())
		all = append(all, s)
		putSegmentAt(t, b, at, s)
		a.now = func() time.Time { return at }
		if err := a.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	levels := func() (text string) {
		for _, p := range manifestOf(t, b, all[0]).Parts {
			if p.Level != levelBuild {
				text += fmt.Sprintf(" %s %s", p.Level, time.Unix(p.From, 0).UTC().Format("02T15"))
			}
		}
		return text
	}
	tidy := func(at time.Time) {
		for key, o := range b.objects { // as if they had been written at their time
			o.at = day(0)
			b.objects[key] = o
		}
		a.now = func() time.Time { return at }
		if err := a.collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkGarbage(t, b)
	}
	send(day(0), day(0))
	send(day(1), day(2))
	send(day(1).Add(time.Minute), day(2))
	send(day(24*365), day(3)) // a clock of next year
	send(day(-24*30), day(4)) // and one of last month
	send(day(15), day(15))    // at 01:00 of the next day
	if got, want := levels(), " hour 28T10 hour 28T11 hour 28T13 hour 28T14 hour 29T01"; got != want {
		t.Errorf("levels%s, want%s", got, want)
	}
	checkSums(t, b, all)
	tidy(day(37)) // the first day is over for 23 h
	if got, want := levels(), " hour 28T10 hour 28T11 hour 28T13 hour 28T14 hour 29T01"; got != want {
		t.Errorf("before its day is over: levels%s, want%s", got, want)
	}
	tidy(day(39))
	send(day(5), day(40)) // late
	if got, want := levels(), " day 28T00 hour 29T01"; got != want {
		t.Errorf("levels%s, want%s", got, want)
	}
	checkSums(t, b, all)
	tidy(day(70))
	checkSums(t, b, all)
	if got, want := levels(), " day 28T00 day 29T00"; got != want {
		t.Errorf("levels%s, want%s", got, want)
	}

	a.keep = 5 * 24 * time.Hour
	send(day(100), day(100))
	tidy(day(125))
	if got, want := levels(), " day 29T00 hour 02T14"; got != want {
		t.Errorf("after the time that is kept: levels%s, want%s", got, want)
	}
	a.maxBytes = 1
	tidy(day(126))
	if got := levels(); got != "" {
		t.Errorf("with a bound of one byte there is%s", got)
	}
	tidy(day(100 + 24*6))
	if m := manifestOf(t, b, all[0]); len(m.Parts) != 0 || len(keysOf(t, b, aggregatesDir)) != 1 {
		t.Errorf("a build that nobody sends has %d parts, objects %q", len(m.Parts), keysOf(t, b, aggregatesDir))
	}
	ids, err := newCatalog(b).list(t.Context())
	if err != nil || len(ids) != 0 {
		t.Errorf("it is listed as %v, error %v", ids, err)
	}
	putSegmentAt(t, b, day(100+24*6), all...)
	if err := a.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := manifestOf(t, b, all[0]); len(m.Parts) != 0 {
		t.Errorf("what was sent again makes %+v", m.Parts)
	}
}

// TestLeaveOneOut compares the witnesses of a class, and what the class knows without each, with offline merges.
func TestLeaveOneOut(t *testing.T) {
	t.Parallel()
	const instances, each = 12, 3
	b := newMemory()
	r := rand.New(rand.NewPCG(12, 0))
	var all []sent
	for i := range instances {
		for seq := range each {
			all = append(all, newSent(t, testKey("web", i, uint64(seq+1)), randomProfile(r, 40).Snapshot()))
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for chunk := range slices.Chunk(all, 5) {
		putSegment(t, b, append(chunk, all[0])...)
		if err := testAggregator(b).round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	is, err := readPart(t.Context(), b, *manifestOf(t, b, all[0]).part(partKey{Level: levelBuild}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := leaveOneOut(is.Snapshot(), is.witnesses)
	if err != nil {
		t.Fatal(err)
	}
	var overlaps []float64
	for i := range mostWitnesses {
		own, others := ccmap.New(ccmap.Options{}), ccmap.New(ccmap.Options{})
		for _, s := range all {
			to := others
			if s.Instance == testKey("web", i, 1).Instance {
				to = own
			}
			if err := to.Merge(s.profile); err != nil {
				t.Fatal(err)
			}
		}
		w := is.witnesses[testKey("web", i, 1).Instance]
		if w == nil {
			t.Fatalf("instance %d is no witness", i)
		}
		result, err := compare.Compare(others.Snapshot(), own.Snapshot(), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		overlaps = append(overlaps, result.Edges.Percent)
		if bytesOf(t, w.Map) != bytesOf(t, own) {
			t.Errorf("the sum of witness %d is not the offline merge of what it sent", i)
		}
	}
	mean, deviation := meanOf(overlaps)
	want := fleet.LeftOut{Instances: mostWitnesses, Overlap: mean, Error: deviation / math.Sqrt(mostWitnesses)}
	if got == nil || *got != want || want.Overlap < 50 || want.Overlap > 99 || want.Error == 0 {
		t.Errorf("without one: %+v, want %+v", got, want)
	}
}

// TestSettled: a class says how far its halves agree, as the profile itself does.
func TestSettled(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 0))
	var before float64
	for _, samples := range []int{30, 3000} {
		b := newMemory()
		s := newSent(t, testKey("web", 1, 1), randomProfile(r, samples).Snapshot())
		putSegment(t, b, s)
		if err := testAggregator(b).round(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := *manifestOf(t, b, s).part(partKey{Level: levelBuild})
		is, err := readPart(t.Context(), b, p)
		if err != nil {
			t.Fatal(err)
		}
		halves, err := compare.Floors(s.profile, compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Settled <= before || p.Settled != is.Meta().Settled.Edges || math.Abs(p.Settled-halves.Edges) > 3 {
			t.Errorf("%d samples: settled %.1f, the profile says %.1f, its halves %.1f", samples, p.Settled, is.Meta().Settled.Edges, halves.Edges)
		}
		before = p.Settled
	}
}

// TestHostilePart: an object that others have changed crashes nothing.
func TestHostilePart(t *testing.T) {
	t.Parallel()
	b := newMemory()
	s := newSent(t, testKey("web", 1, 1), randomProfile(rand.New(rand.NewPCG(14, 0)), 5).Snapshot())
	putSegment(t, b, s)
	if err := testAggregator(b).round(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := *manifestOf(t, b, s).part(partKey{Level: levelBuild})
	good := b.objects[p.Key].body
	if _, err := readPart(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	for i := range int(p.Bytes - p.Size) { // the class is the first of the pack
		bad := slices.Clone(good)
		bad[int(p.Size)+i]++
		b.objects[p.Key] = object{body: bad, tag: "1"}
		is, err := readPart(t.Context(), b, p)
		if err == nil {
			_, err = leaveOneOut(is.Snapshot(), is.witnesses)
		}
		if err == nil {
			t.Errorf("byte %d of the witnesses may be any", i)
		}
	}
	b.objects[p.Key] = object{body: good[:p.Size-1], tag: "1"}
	if _, err := readPart(t.Context(), b, p); err == nil {
		t.Error("a part that was cut was read")
	}
}

func FuzzWitnesses(f *testing.F) {
	w := make(witnesses)
	if err := w.add(testKey("web", 1, 1).Instance, randomProfile(rand.New(rand.NewPCG(15, 0)), 5).Snapshot()); err != nil {
		f.Fatal(err)
	}
	b, err := w.append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := readWitnesses(b)
		if err != nil {
			return
		}
		if again, err := w.append(nil); err != nil || len(again) > len(b) {
			t.Fatalf("%d bytes become %d, error %v", len(b), len(again), err)
		}
		for _, instance := range slices.Sorted(maps.Keys(w)) {
			w[instance].decode() // its error is of what was read
		}
	})
}

// TestFullSum: a client that sends ever new methods fills its sums, and no more than that: each can still be read, what
// does not fit is set aside, and what fits counts.
func TestFullSum(t *testing.T) {
	t.Parallel()
	const contributions, methods, name = 6, 1000, 6000 // bytes
	r := rand.New(rand.NewPCG(1, 5))
	text := make([]byte, name)
	b := newMemory()
	a := testAggregator(b)
	for i := range contributions {
		m := ccmap.New(ccmap.Options{})
		for range methods {
			for k := range text {
				text[k] = 'a' + byte(r.IntN(16))
			}
			id := m.Names().Intern(ccmap.Method{Name: string(text)})
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}}, Weight: 1, Fresh: 1})
		}
		sent := newSent(t, testKey("web", 1+i%2, uint64(i+1)), m.Snapshot())
		if f, err := contribution.One(sent.frame); err != nil {
			t.Fatal(err)
		} else if _, err := readContribution(f); err != nil {
			t.Fatal(err)
		}
		putSegment(t, b, sent)
	}
	known := newFleet(t, 8, 1, 1).all[0]
	putSegment(t, b, known)
	if err := a.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := keysOf(t, b, segmentsDir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	bad := len(keysOf(t, b, badDir))
	sum, err := readAggregate(t.Context(), b, manifestOf(t, b, known), levelBuild)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum.Snapshot().Total().Samples, known.profile.Total().Samples+int64(contributions-bad)*methods; bad == 0 || got != want {
		t.Errorf("%d of %d set aside, %d samples, want %d", bad, contributions, got, want)
	}
}

// TestFit: what does not fit is found by halves, and all that fits is added; of a list of which nothing fits, a bounded
// number of sums is tried.
func TestFit(t *testing.T) {
	t.Parallel()
	const all = 600
	for _, c := range []struct {
		name  string
		fits  func(int) bool
		least int // that are added
	}{
		{"all", func(int) bool { return true }, all},
		{"all but one", func(i int) bool { return i != 77 }, all - 1},
		{"none", func(int) bool { return false }, 0},
		{"every third", func(i int) bool { return i%3 == 0 }, 0}, // the bound ends the search
	} {
		list, tries := make([]int, all), 0
		for i := range list {
			list[i] = i
		}
		var added, dropped []int
		err := fit(list, func(list []int) error {
			tries++
			if slices.ContainsFunc(list, func(i int) bool { return !c.fits(i) }) {
				return fmt.Errorf("merge: %w", errSumFull)
			}
			added = append(added, list...)
			return nil
		}, func(i int) error {
			dropped = append(dropped, i)
			return nil
		})
		if got := slices.Sorted(slices.Values(slices.Concat(added, dropped))); err != nil || !slices.Equal(got, list) {
			t.Errorf("%s: %v; added %d, dropped %d", c.name, err, len(added), len(dropped))
		}
		if tries > mostHalves || len(added) < c.least {
			t.Errorf("%s: %d tries, added %d", c.name, tries, len(added))
		}
	}
	failed := errors.New("no answer")
	if err := fit([]int{1, 2}, func([]int) error { return failed }, func(int) error { t.Error("dropped"); return nil }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}
