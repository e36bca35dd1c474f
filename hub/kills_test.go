package hub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/versitygw"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// daemons are those of a test: what they have to send, and what was acknowledged. mu guards the rest.
type daemons struct {
	all        []sent
	partitions []int // by which hubs divide builds: each life of a hub has one of these numbers

	mu    sync.Mutex
	r     *rand.Rand
	acked []bool
	kills int
}

func newFleet(t testing.TB, seed uint64, instances, each int) *daemons {
	f := &daemons{partitions: []int{1}, r: rand.New(rand.NewPCG(seed, 0))}
	for i := range instances {
		for seq := range each {
			target := []string{"web", "batch"}[i%2]
			f.all = append(f.all, newSent(t, testKey(target, i, uint64(seq+1)), randomProfile(f.r, 3).Snapshot()))
		}
	}
	f.acked = make([]bool, len(f.all))
	return f
}

// choose returns a few contributions, in any order: those that were not acknowledged, and some that were.
func (f *daemons) choose() (chosen []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range 1 + f.r.IntN(5) {
		i := f.r.IntN(len(f.all))
		if !f.acked[i] || f.r.IntN(20) == 0 {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// chooseBy chooses by partition.
func (f *daemons) chooseBy(of int) map[int][]int {
	chosen := make(map[int][]int)
	for _, i := range f.choose() {
		p := partitionOf(idOf(f.all[i].Key), of)
		chosen[p] = append(chosen[p], i)
	}
	return chosen
}

func (f *daemons) ack(chosen []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range chosen {
		f.acked[i] = true
	}
}

func (f *daemons) pick(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(n)
}

// live is the life of a hub, from its start until it is killed. It takes contributions, merges and collects garbage in
// any order, for some of the partitions. For its garbage collector each object is old enough.
func (f *daemons) live(t testing.TB, b bucket.Bucket, name string) {
	m := &mortal{Bucket: b, r: rand.New(rand.NewPCG(uint64(f.pick(1<<30)), 1)), left: 1 + f.pick(25), rough: 0.1}
	of, segments := f.partitions[f.pick(len(f.partitions))], 0
	in, a := newIntake(m, name, of, 0, newCounters(prometheus.NewRegistry())), testAggregator(m)
	a.share = share{of, []int{f.pick(of), f.pick(of)}}
	a.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
	for m.alive() {
		switch f.pick(5) {
		case 0:
			a.collect(t.Context()) // its error, as all others here, is of the bucket
		case 1, 2:
			a.round(t.Context())
		default:
			for partition, chosen := range f.chooseBy(of) {
				segments++
				var list []sent
				for _, i := range chosen {
					list = append(list, f.all[i])
				}
				if in.write(t.Context(), in.keyOf(partition, segments, len(list)), batchOf(list)) == nil {
					f.ack(chosen)
				}
			}
		}
	}
	f.mu.Lock()
	f.kills++
	f.mu.Unlock()
}

func (m *mortal) alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left > 0
}

// finish has hubs that live send, merge and collect all that is left, a hub for each partition.
func (f *daemons) finish(t testing.TB, b bucket.Bucket) {
	for i, s := range f.all {
		if !f.acked[i] {
			putSegment(t, b, s)
		}
	}
	of := f.partitions[0]
	for p := range of {
		a := testAggregator(b)
		a.share = share{of, []int{p}}
		a.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
		if err := errors.Join(a.round(t.Context()), a.collect(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// testKills kills hubs between any two of their steps, two at a time, and compares the sums with the offline merge.
func testKills(t *testing.T, b bucket.Bucket, seed uint64, kills int, partitions ...int) {
	f := newFleet(t, seed, 20, max(kills/12, 8))
	f.partitions = partitions
	var hubs sync.WaitGroup
	for worker := range 2 {
		hubs.Go(func() {
			for life := range kills / 2 {
				f.live(t, b, fmt.Sprintf("hub%d.%d", worker, life))
			}
		})
	}
	hubs.Wait()
	acked := 0
	for _, is := range f.acked {
		if is {
			acked++
		}
	}
	f.finish(t, b)
	t.Logf("%d kills; %d of %d contributions were acknowledged by hubs that were killed later", f.kills, acked, len(f.all))
	if f.kills < kills-1 || acked < len(f.all)/10 {
		t.Error("too little happened for a test")
	}
	checkSums(t, b, f.all)
	if left := keysOf(t, b, segmentsDir); len(left) > 0 {
		t.Errorf("%d segments are left", len(left))
	}
	if bad := keysOf(t, b, badDir); len(bad) > 0 {
		t.Errorf("%q were set aside", bad)
	}
	checkGarbage(t, b)
}

// TestKills has hubs that divide builds by one number of partitions, and hubs that differ.
func TestKills(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string][]int{"one": {1}, "four": {4}, "fewer": {1, 3, 4}, "more": {4, 2, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := 200
			if name == "one" {
				kills = 1000
			}
			testKills(t, newMemory(), 1, kills, partitions...)
		})
	}
}

// kills is how many hubs die over a real bucket.
var kills = flag.Int("kills", 100, "`number` of hubs that TestKillsInDir and TestKillsInS3 kill")

func TestKillsInDir(t *testing.T) {
	t.Parallel()
	d, err := bucket.OpenDir(filepath.Join(t.TempDir(), "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	testKills(t, d, 2, *kills, 4)
}

// TestKillsInS3 does the same over a real server of S3, where one is installed.
func TestKillsInS3(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	s, err := bucket.OpenS3(bucket.S3Options{Endpoint: versitygw.ForTest(t), Bucket: versitygw.Bucket, Region: versitygw.Region, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	testKills(t, s, 3, *kills, 4)
}

// TestStoppedAggregator: an aggregator is stopped between its object and its manifest, for so long that the object is
// taken for garbage and removed. It then must not name the object.
func TestStoppedAggregator(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 3, 1, 2)
	putSegment(t, b, f.all[0])
	stopped := &mortal{Bucket: b, r: rand.New(rand.NewPCG(1, 1)), left: 1000}
	once := new(sync.Once)
	stopped.before = func(op, key string) {
		if _, is := isManifest(key); !is || op != "put" {
			return
		}
		once.Do(func() {
			later := testAggregator(b)
			later.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
			if err := later.collect(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	for _, s := range f.all {
		once = new(sync.Once) // also where there is a manifest, whose bytes must change
		putSegment(t, b, s)
		if err := testAggregator(stopped).round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkSums(t, b, f.all)
}

// TestSameBytes: two aggregators make the same aggregate. The one that is too late, and the garbage collector, must
// not remove the other's.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 4, 1, 1)
	putSegment(t, b, f.all[0])
	late := &mortal{Bucket: b, r: rand.New(rand.NewPCG(1, 1)), left: 1000}
	once := sync.Once{}
	late.before = func(op, key string) {
		if _, is := isManifest(key); is && op == "put" {
			once.Do(func() {
				if err := testAggregator(b).round(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	a := testAggregator(late)
	a.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
	if err := errors.Join(a.round(t.Context()), a.collect(t.Context())); err != nil {
		t.Fatal(err)
	}
	checkSums(t, b, f.all)
	checkGarbage(t, b)
}

// TestRoundsEnd: a round commits now and then, so that a hub that is killed soon gets on with each life.
func TestRoundsEnd(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 5, 20, 50)
	for chunk := range slices.Chunk(f.all, 20) {
		putSegment(t, b, chunk...)
	}
	before := len(keysOf(t, b, segmentsDir))
	for range 40 {
		m := &mortal{Bucket: b, r: rand.New(rand.NewPCG(1, 1)), left: 35}
		testAggregator(m).round(t.Context()) // is killed, unless little is left
		after := len(keysOf(t, b, segmentsDir))
		if after == 0 {
			checkSums(t, b, f.all)
			return
		}
		if after >= before {
			t.Fatalf("%d segments wait before a round, and %d after it", before, after)
		}
		before = after
	}
	t.Errorf("%d segments still wait", before)
}

// TestLostAnswers: each write of the manifest and of the aggregate is done, and then refused as one that comes twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 6, 2, 4)
	for _, s := range f.all {
		m := &mortal{Bucket: b, r: rand.New(rand.NewPCG(1, 1)), left: 1000, rough: 0}
		twice := &again{m}
		putSegment(t, twice, s)
		if err := testAggregator(twice).round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := keysOf(t, b, segmentsDir); len(left) > 0 {
			t.Fatalf("%d segments are left: the aggregator does not know its own write", len(left))
		}
	}
	checkSums(t, b, f.all)
	id := idOf(f.all[0].Key)
	m, tag, err := readManifest(t.Context(), b, id)
	if err != nil {
		t.Fatal(err)
	}
	m.advance()
	if done, err := swap(t.Context(), &again{b}, id, m, tag); !done || err != nil {
		t.Errorf("a manifest that was written twice is another's: %v, error %v", done, err)
	}
	if keys := keysOf(t, b, aggregatesDir); len(keys) != 2+len(f.all) {
		t.Errorf("%d objects, want two manifests, and a pack for each of %d contributions", len(keys), len(f.all))
	}
}

// TestYoungObjects: an object that no manifest names yet is not garbage for an hour: its aggregator is at work.
func TestYoungObjects(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 31, 1, 1)
	putSegment(t, b, f.all[0])
	a := testAggregator(b)
	if err := a.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	young := aggregatesDir + idOf(f.all[0].Key) + "/commit/2-young"
	if err := b.Put(t.Context(), young, []byte("x"), bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	for later, want := range map[time.Duration]bool{0: true, garbageAge - time.Minute: true, garbageAge + time.Minute: false} {
		if err := b.Put(t.Context(), young, []byte("x"), bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
		a.now = func() time.Time { return time.Now().Add(later) }
		if err := a.collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is := slices.Contains(keysOf(t, b, aggregatesDir), young); is != want {
			t.Errorf("after %v it is there: %v, want %v", later, is, want)
		}
	}
	checkSums(t, b, f.all)
}

// TestClocksDiffer: what a hub whose clock is a day behind has written is merged, though later names were before.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 32, 1, 4)
	a := testAggregator(b)
	for i, s := range f.all {
		at := time.Now().Add(-24 * time.Hour * time.Duration(i%2))
		key := fmt.Sprintf("%s0/%013d-hub%d-1-1", segmentsDir, at.UnixMilli(), i)
		if err := b.Put(t.Context(), key, s.frame, bucket.Condition{Absent: true}); err != nil {
			t.Fatal(err)
		}
		if err := a.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkSums(t, b, f.all)
}

// noManifests is the bucket of an aggregator that is killed before each manifest.
type noManifests struct{ bucket.Bucket }

func (b noManifests) Put(ctx context.Context, key string, body []byte, c bucket.Condition) error {
	if _, is := isManifest(key); is {
		return errKilled
	}
	return b.Bucket.Put(ctx, key, body, c)
}

// TestCollectorMeetsAggregator: while the collector removes what a killed aggregator has left, another one makes the
// same bytes. They must not have the same name.
func TestCollectorMeetsAggregator(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 33, 1, 1)
	putSegment(t, b, f.all[0])
	if err := testAggregator(noManifests{b}).round(t.Context()); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	deletes := 0
	hooked := &mortal{Bucket: b, r: rand.New(rand.NewPCG(1, 1)), left: 1000}
	hooked.before = func(op, _ string) {
		if op != "delete" {
			return
		}
		deletes++
		if err := testAggregator(b).round(t.Context()); err != nil {
			t.Error(err)
		}
	}
	a := testAggregator(hooked)
	a.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
	if err := a.collect(t.Context()); err != nil || deletes != 1 {
		t.Fatalf("%d objects are removed, error %v", deletes, err)
	}
	checkSums(t, b, f.all)
	checkGarbage(t, b)
}
