package hub

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
)

// commitAll has an aggregator merge each contribution by itself, at the start: these tests know no date.
func commitAll(t *testing.T, b bucket.Bucket, all []sent) {
	t.Helper()
	for _, s := range all {
		putSegmentAt(t, b, start, s)
		a := testAggregator(b)
		a.now = func() time.Time { return start }
		if err := a.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneObjectACommit: a commit writes one object and the manifest, whatever it changes. An object of which one part is
// in use stays.
func TestOneObjectACommit(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 22, 1, 5)
	before := b.writes
	for i := range f.all {
		f.all[i].From = start.Add(time.Duration(i) * time.Hour) // each changes the class, and an hour of its own
		f.all[i].To = f.all[i].From.Add(time.Minute)
		f.all[i] = newSent(t, f.all[i].Key, f.all[i].profile)
		at := f.all[i].From
		putSegmentAt(t, b, at, f.all[i])
		a := testAggregator(b)
		a.now = func() time.Time { return at }
		if err := a.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.writes - before; n != 3*len(f.all) {
		t.Errorf("%d commits took %d writes, want a segment, a pack and a manifest each", len(f.all), n)
	}
	m := manifestOf(t, b, f.all[0])
	if len(m.Parts) != 1+len(f.all) {
		t.Fatalf("parts %+v, want a class and %d hours", m.Parts, len(f.all))
	}
	checkSums(t, b, f.all)
	later := testAggregator(b)
	later.now = func() time.Time { return time.Now().Add(2 * garbageAge) }
	if err := later.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkSums(t, b, f.all)
	checkGarbage(t, b)
}

// TestSparse: what is in use of objects that are mostly dead moves into one, and they go.
func TestSparse(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 23, 1, 6)
	commitAll(t, b, f.all)
	// As if other parts of the packs had been replaced.
	for key, o := range b.objects {
		if _, is := isManifest(key); !is {
			o.body, o.at = append(o.body, make([]byte, 2*len(o.body))...), start
			b.objects[key] = o
		}
	}
	a := testAggregator(b)
	a.now = func() time.Time { return start.Add(2 * garbageAge) }
	before := manifestOf(t, b, f.all[0])
	if err := a.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := manifestOf(t, b, f.all[0])
	live := int64(0)
	for i, p := range m.Parts {
		live += p.Bytes
		if p.Key == before.Parts[i].Key {
			t.Errorf("part %d stays in an object that is mostly dead", i)
		}
	}
	if got := int64(len(b.objects[m.Parts[0].Key].body)); got != live {
		t.Errorf("the new object has %d bytes, and its parts %d", got, live)
	}
	checkSums(t, b, f.all)
	checkGarbage(t, b)
	if err := a.collect(t.Context()); err != nil || manifestOf(t, b, f.all[0]).Generation != m.Generation {
		t.Errorf("with nothing to do the manifest changes, error %v", err)
	}
}

// asJSON returns a part as hubs before version 5 of manifests wrote it, and the size of its profile.
func asJSON(t *testing.T, is *sum) (body []byte, size int64) {
	t.Helper()
	body, err := writeProfile(is.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	size = int64(len(body))
	for instance, one := range is.witnesses {
		if err := one.decode(); err != nil {
			t.Fatal(err)
		}
		profile, err := writeProfile(one.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if one.frame, err = contribution.Append(nil, witnessKey(instance), profile); err != nil {
			t.Fatal(err)
		}
		one.Map = nil
	}
	if body, err = is.witnesses.append(body); err != nil {
		t.Fatal(err)
	}
	return body, size
}

// TestVersion2: parts that are JSON in objects of their own are read, and the next commit packs what it changes.
func TestVersion2(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 24, 1, 2)
	commitAll(t, b, f.all[:1])
	id := idOf(f.all[0].Key)
	m, tag, err := readManifest(t.Context(), b, id)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Parts {
		is, err := readPart(t.Context(), b, p)
		if err != nil {
			t.Fatal(err)
		}
		body, size := asJSON(t, is)
		m.Parts[i].Bytes, m.Parts[i].Size = int64(len(body)), size
		m.Parts[i].Key, m.Parts[i].Offset = fmt.Sprintf("%s%s/%s/1-a.%d.json.zst", aggregatesDir, id, p.Level, p.From), 0
		if err := b.Put(t.Context(), m.Parts[i].Key, body, bucket.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	m.Version = 2
	m.advance()
	if done, err := swap(t.Context(), b, id, m, tag); !done {
		t.Fatal(err)
	}
	checkSums(t, b, f.all[:1])
	commitAll(t, b, f.all[1:])
	checkSums(t, b, f.all)
	is, err := readPart(t.Context(), b, *manifestOf(t, b, f.all[0]).part(partKey{Level: levelBuild}))
	if err != nil {
		t.Fatal(err)
	}
	if left, err := leaveOneOut(is.Snapshot(), is.witnesses); err != nil {
		t.Errorf("witnesses that were JSON: %+v, %v", left, err)
	}
	if m := manifestOf(t, b, f.all[0]); m.Version != manifestVersion {
		t.Errorf("version %d was written", m.Version)
	}
}

// TestManifestBeforePack: a pack whose write fails is in no manifest.
func TestManifestBeforePack(t *testing.T) {
	t.Parallel()
	b := newMemory()
	f := newFleet(t, 25, 1, 2)
	commitAll(t, b, f.all[:1])
	putSegment(t, b, f.all[1])
	if err := testAggregator(noPacks{b}).round(t.Context()); !errors.Is(err, errKilled) {
		t.Fatalf("error %v", err)
	}
	checkSums(t, b, f.all[:1])
	if err := testAggregator(b).round(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkSums(t, b, f.all)
}

// noPacks is a bucket that takes manifests and segments alone.
type noPacks struct{ *memory }

func (n noPacks) Put(ctx context.Context, key string, body []byte, c bucket.Condition) error {
	if _, is := isManifest(key); !is && len(key) > len(aggregatesDir) && key[:len(aggregatesDir)] == aggregatesDir {
		return errKilled
	}
	return n.memory.Put(ctx, key, body, c)
}
