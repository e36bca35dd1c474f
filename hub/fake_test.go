package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// memory is a bucket in memory, in which equal bytes have equal tags. mu guards the rest.
type memory struct {
	mu      sync.Mutex
	objects map[string]object
	writes  int
}

type object struct {
	body []byte
	tag  string
	at   time.Time
}

func newMemory() *memory { return &memory{objects: map[string]object{}} }

func (m *memory) Get(_ context.Context, key string, most int64) ([]byte, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, found := m.objects[key]
	if !found {
		return nil, "", bucket.ErrNotFound
	}
	if int64(len(o.body)) > most {
		return nil, "", bucket.ErrTooLarge
	}
	return bytes.Clone(o.body), o.tag, nil
}

func (m *memory) Range(ctx context.Context, key string, offset, size int64) ([]byte, error) {
	body, _, err := m.Get(ctx, key, 1<<40)
	if err == nil && offset > int64(len(body))-size {
		err = errors.New("the object has less")
	}
	if err != nil {
		return nil, err
	}
	return body[offset : offset+size], nil
}

func (m *memory) Put(_ context.Context, key string, body []byte, c bucket.Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, found := m.objects[key]
	if c.Absent && found || c.Tag != "" && is.tag != c.Tag {
		return bucket.ErrCondition
	}
	m.writes++
	m.objects[key] = object{bytes.Clone(body), fmt.Sprintf("%x", sha256.Sum256(body)), time.Now()}
	return nil
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[bucket.Entry, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []bucket.Entry
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) {
			all = append(all, bucket.Entry{Key: key, Size: int64(len(o.body)), Modified: o.at})
		}
	}
	slices.SortFunc(all, func(a, b bucket.Entry) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(bucket.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// TestMemory: the bucket of these tests is one.
func TestMemory(t *testing.T) {
	t.Parallel()
	if err := bucket.Check(t.Context(), newMemory(), "check", 50); err != nil {
		t.Fatal(err)
	}
}

var errKilled = errors.New("this process was killed")

// mortal is the bucket as one process sees it. The process is killed at one of its steps, before or after the bucket
// has done it; until then some answers are lost, and some writes are sent twice. mu guards the rest.
type mortal struct {
	bucket.Bucket
	before func(op, key string) // called outside of mu; nil: nothing

	mu    sync.Mutex
	r     *rand.Rand
	left  int     // steps that it lives
	rough float64 // share of the steps whose answers are lost or repeated
}

// step runs one step, and returns its error or another one.
func (m *mortal) step(op, key string, do func() error) error {
	if m.before != nil {
		m.before(op, key)
	}
	runtime.Gosched() // another process is faster, now and then
	m.mu.Lock()
	m.left--
	left, fate := m.left, m.r.Float64()
	half := m.r.IntN(2) == 0
	m.mu.Unlock()
	switch {
	case left < 0 || left == 0 && half:
		return errKilled
	case left == 0:
		do()
		return errKilled
	case fate < m.rough/2:
		do()
		return errors.New("the answer was lost")
	case fate < m.rough && op == "put":
		do()
		return do() // the client has sent it again
	}
	return do()
}

func (m *mortal) Get(ctx context.Context, key string, most int64) (body []byte, tag string, err error) {
	err = m.step("get", key, func() error {
		body, tag, err = m.Bucket.Get(ctx, key, most)
		return err
	})
	return body, tag, err
}

func (m *mortal) Range(ctx context.Context, key string, offset, size int64) (body []byte, err error) {
	err = m.step("range", key, func() error {
		body, err = m.Bucket.Range(ctx, key, offset, size)
		return err
	})
	return body, err
}

func (m *mortal) Put(ctx context.Context, key string, body []byte, c bucket.Condition) error {
	return m.step("put", key, func() error { return m.Bucket.Put(ctx, key, body, c) })
}

func (m *mortal) Delete(ctx context.Context, key string) error {
	return m.step("delete", key, func() error { return m.Bucket.Delete(ctx, key) })
}

func (m *mortal) List(ctx context.Context, prefix string) iter.Seq2[bucket.Entry, error] {
	if err := m.step("list", prefix, func() error { return nil }); err != nil {
		return func(yield func(bucket.Entry, error) bool) { yield(bucket.Entry{}, err) }
	}
	return m.Bucket.List(ctx, prefix)
}

func testAggregator(b bucket.Bucket) *aggregator {
	return &aggregator{
		bucket: b, backlog: newBacklog(b), log: slog.New(slog.DiscardHandler), count: newCounters(prometheus.NewRegistry()), now: time.Now,
	}
}

var start = time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)

func testKey(target string, instance int, seq uint64) contribution.Key {
	return contribution.Key{
		Target: target, Build: "1f0c", Kind: ccmap.CPUTime.Kind(), Base: ccmap.CPUTime.Base(),
		Instance: fmt.Sprintf("%032x", instance), Epoch: 1, Seq: seq, From: start, To: start.Add(time.Minute), CPUs: 2,
	}
}

// sampleWeight is the weight of samples, in ns: sums of it are exact as recent counters, too, in whichever order.
const sampleWeight = 1 << 23

// randomProfile is a profile of a few samples, with a window, and with positions that have no sample.
func randomProfile(r *rand.Rand, samples int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Window: time.Minute})
	for range samples {
		frames := make([]ccmap.Frame, 1+r.IntN(5))
		for i := range frames {
			frames[i] = ccmap.Frame{Method: randomMethod(m.Names(), r), Offset: uint32(r.IntN(3))}
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: sampleWeight, Fresh: int32(r.IntN(len(frames) + 1))})
	}
	addBare(m, r)
	m.Meta().Target = ccmap.Target{PID: 7, Executable: "/home/someone/web", CommandLine: []string{"web", "-secret"}, BuildID: "1f0c"}
	m.Meta().Comments = []string{"of /home/someone"}
	return m
}

// randomMethod is one of six: the positions of each second one are bytes of machine code.
func randomMethod(n *ccmap.Names, r *rand.Rand) ccmap.MethodID {
	i := r.IntN(6)
	m := ccmap.Method{Name: fmt.Sprintf("main.f%d", i), File: "main.go", StartLine: 1}
	if i%2 == 1 {
		m.Coordinate = ccmap.CoordinateMachine
	}
	return n.Intern(m)
}

// addBare adds positions and calls without samples, their lines, and addresses of positions that the map does not have.
func addBare(m *ccmap.Map, r *rand.Rand) {
	names := m.Names()
	for id := ccmap.FirstID; int(id) < names.Len(); id++ {
		at := ccmap.Frame{Method: id, Offset: 7 + uint32(r.IntN(3))}
		outermost := m.Child(m.Root(), ccmap.NoOffset, id)
		m.Child(outermost, at.Offset, ccmap.NoMethod)
		m.Child(outermost, at.Offset, id)
		names.SetInlined(at, id)
		names.SetLine(at, int32(at.Offset))
		nowhere := ccmap.Frame{Method: id, Offset: 100 + uint32(r.IntN(3))}
		names.SetAddress([]ccmap.Frame{nowhere}, false, 1+r.Uint64N(1<<20))
	}
}

// sent is a contribution that a test sends, with its profile.
type sent struct {
	contribution.Key
	frame   []byte
	profile *ccmap.Snapshot
}

func newSent(t testing.TB, k contribution.Key, s *ccmap.Snapshot) sent {
	t.Helper()
	body, err := writeProfile(s)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := contribution.Append(nil, k, body)
	if err != nil {
		t.Fatal(err)
	}
	return sent{k, frame, s}
}

// bytesOf returns the bytes of a profile without its description.
func bytesOf(t testing.TB, m *ccmap.Map) string {
	t.Helper()
	*m.Meta() = ccmap.Meta{}
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// merged returns the bytes of the offline merge of contributions, for each build.
func merged(t testing.TB, all []sent) map[string]string {
	sums := make(map[string]*ccmap.Map)
	for _, s := range all {
		id := idOf(s.Key)
		if sums[id] == nil {
			sums[id] = ccmap.New(ccmap.Options{})
		}
		if err := sums[id].Merge(s.profile); err != nil {
			t.Fatal(err)
		}
	}
	texts := make(map[string]string)
	for id, m := range sums {
		texts[id] = bytesOf(t, m)
	}
	return texts
}

// checkSums compares the aggregates of a bucket with the offline merge.
func checkSums(t testing.TB, b bucket.Bucket, all []sent) {
	t.Helper()
	for id, want := range merged(t, all) {
		m, _, err := readManifest(t.Context(), b, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, levels := range [][]string{{levelBuild}, {levelHour, levelDay}} {
			sum, err := readAggregate(t.Context(), b, m, levels...)
			if err != nil {
				t.Fatal(err)
			}
			if got := bytesOf(t, sum); got != want {
				t.Errorf("level %s of %s has %d bytes, the offline merge %d, and they differ", levels, m.Target, len(got), len(want))
			}
		}
	}
}

// checkGarbage checks that each object of the builds is a manifest or named by one, and the other way round.
func checkGarbage(t testing.TB, b bucket.Bucket) {
	t.Helper()
	named, all := make(map[string]bool), keysOf(t, b, aggregatesDir)
	for _, key := range all {
		if id, is := isManifest(key); is {
			m, _, err := readManifest(t.Context(), b, id)
			if err != nil {
				t.Fatal(err)
			}
			named[key] = true
			for _, p := range m.Parts {
				named[p.Key] = true
				if !slices.Contains(all, p.Key) {
					t.Errorf("the manifest names %s, which does not exist", p.Key)
				}
			}
		}
	}
	if len(named) != len(all) {
		t.Errorf("%d objects, and %d are manifests or named by one: %q", len(all), len(named), all)
	}
}

// keysOf returns the keys that begin with a prefix.
func keysOf(t testing.TB, b bucket.Bucket, prefix string) (keys []string) {
	t.Helper()
	for e, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// putSegment writes contributions as one segment.
func putSegment(t testing.TB, b bucket.Bucket, all ...sent) {
	t.Helper()
	in := newIntake(b, strings.ToLower(fmt.Sprintf("test%d", rand.Uint64())), 1, 0, newCounters(prometheus.NewRegistry()))
	if err := in.write(t.Context(), in.keyOf(0, 1, len(all)), batchOf(all)); err != nil {
		t.Fatal(err)
	}
}

func batchOf(all []sent) (b batch) {
	for _, s := range all {
		b.bytes = append(b.bytes, s.frame...)
		b.done = append(b.done, make(chan error, 1))
	}
	return b
}
