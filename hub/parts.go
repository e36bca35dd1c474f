package hub

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/store"
)

// The levels. Each contribution is in one part of the level build, that of the class of its instance, and in one part
// of the levels hour and day. So the sum of the first is the sum of the others, as long as none was removed.
const (
	levelHour  = "hour"
	levelDay   = "day" // the hours of a day, UTC, that is over for a day
	levelBuild = "build"
)

const (
	partBytes    = 64 << 20  // of a map: one that outgrows it is pruned
	partMemory   = 512 << 20 // that reading one takes
	witnessBytes = 8 << 20
	mostPart     = 256 << 20 // in an object
)

// part is the sum of some contributions of a build: bytes of an object that never changes, see pack.
type part struct {
	partKey
	Key         string  `json:"key"` // of the object
	Offset      int64   `json:"offset,omitempty"`
	Bytes       int64   `json:"bytes"`          // 0: the whole object, of version 1
	Size        int64   `json:"size,omitempty"` // of the profile in them; the witnesses follow. 0: there is nothing else
	Samples     int64   `json:"samples"`
	Independent float64 `json:"independent"`       // samples, by store.Quality
	Settled     float64 `json:"settled,omitempty"` // overlap of its halves in edges, percent; 0: too few samples
}

// partKey says which contributions a part has.
type partKey struct {
	Level string `json:"level"`
	From  int64  `json:"from,omitempty"`  // when the hour or day begins, Unix s
	Class int    `json:"class,omitempty"` // of the level build
}

func (k partKey) compare(o partKey) int {
	return cmp.Or(cmp.Compare(k.Level, o.Level), cmp.Compare(k.From, o.From), cmp.Compare(k.Class, o.Class))
}

// part returns a part of the manifest, nil if it has no such one.
func (m *manifest) part(k partKey) *part {
	i := slices.IndexFunc(m.Parts, func(p part) bool { return p.partKey == k })
	if i < 0 {
		return nil
	}
	return &m.Parts[i]
}

// setPart adds a part, or puts it into the place of the one that has its key.
func (m *manifest) setPart(p part) {
	if is := m.part(p.partKey); is != nil {
		*is = p
		return
	}
	m.Parts = append(m.Parts, p)
	slices.SortFunc(m.Parts, func(a, b part) int { return a.compare(b.partKey) })
}

// names reports whether an object is of a part.
func (m *manifest) names(key string) bool {
	return slices.ContainsFunc(m.Parts, func(p part) bool { return p.Key == key })
}

// classes returns the parts of the level build.
func (m *manifest) classes() (all []part) {
	for _, p := range m.Parts {
		if p.Level == levelBuild {
			all = append(all, p)
		}
	}
	return all
}

// samples returns the samples of all classes.
func (m *manifest) samples() (all int64, independent float64) {
	for _, p := range m.classes() {
		all, independent = all+p.Samples, independent+p.Independent
	}
	return all, independent
}

// sum is a part that may grow.
type sum struct {
	*ccmap.Map
	witnesses witnesses
	added     int64         // samples, since windows were compared with it
	settled   ccmap.Settled // as it was read
}

func newSum() *sum {
	return &sum{Map: ccmap.New(ccmap.Options{MaxBytes: partBytes}), witnesses: make(witnesses)}
}

// hasGrown reports whether a sum has gained more samples than one for each growth that it had.
func hasGrown(s *ccmap.Snapshot, since int64) bool { return (s.Total().Samples-since)*growth > since }

// readPart returns what a part has. Others may have changed the bucket: nothing is believed.
func readPart(ctx context.Context, b bucket.Bucket, p part) (*sum, error) {
	body, err := p.read(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("read part: %w", err)
	}
	size := cmp.Or(p.Size, int64(len(body)))
	if size > int64(len(body)) {
		return nil, fmt.Errorf("read part %s: it was cut", p.Key)
	}
	m, err := readSum(body[:size], export.ReadOptions{MaxMemory: partMemory})
	if err != nil {
		return nil, fmt.Errorf("read part %s: %w", p.Key, err)
	}
	m.SetMaxBytes(partBytes)
	w, err := readWitnesses(body[size:])
	if err != nil {
		return nil, fmt.Errorf("read part %s: %w", p.Key, err)
	}
	return &sum{Map: m, witnesses: w, settled: m.Meta().Settled}, nil
}

// readAggregate returns the sum of all parts of a level: build, or hour and day.
func readAggregate(ctx context.Context, b bucket.Bucket, m *manifest, levels ...string) (*ccmap.Map, error) {
	return mergeParts(ctx, b, slices.DeleteFunc(slices.Clone(m.Parts), func(p part) bool { return !slices.Contains(levels, p.Level) }))
}

// mergeParts returns the sum of parts.
func mergeParts(ctx context.Context, b bucket.Bucket, parts []part) (*ccmap.Map, error) {
	if len(parts) == 1 {
		is, err := readPart(ctx, b, parts[0])
		if err != nil {
			return nil, err
		}
		return is.Map, nil
	}
	all := ccmap.New(ccmap.Options{MaxBytes: partBytes})
	for _, p := range parts {
		is, err := readPart(ctx, b, p)
		if err != nil {
			return nil, err
		}
		if err := all.Merge(is.Snapshot()); err != nil {
			return nil, fmt.Errorf("read part %s: %w", p.Key, err)
		}
		if isFull(all) {
			return nil, errSumFull
		}
	}
	return all, nil
}

// encode returns a part, and the bytes that it will have in a pack.
func (s *sum) encode(k partKey) (p part, body []byte, err error) {
	store.StripMeta(s.Meta())
	if k.Level == levelBuild {
		s.settle()
	}
	if body, err = appendSum(nil, s.Map, partMemory); err != nil {
		return p, nil, err
	}
	quality := store.QualityOf(s.Snapshot())
	p = part{partKey: k, Size: int64(len(body)), Samples: quality.Samples, Independent: quality.Independent, Settled: quality.Settled}
	body, err = s.witnesses.append(body)
	return p, body, err
}

// settle notes how far two halves of a profile agree: of one that has settled, more samples change little. So it is
// found anew when the profile has grown by some.
func (s *sum) settle() {
	now := s.Snapshot()
	if hasGrown(now, s.settled.Samples) {
		halves, err := compare.Floors(now, compare.Options{})
		if err != nil {
			return // it has no samples
		}
		s.settled = ccmap.Settled{Methods: halves.Methods, Edges: halves.Edges, Contexts: halves.Contexts, Samples: halves.Samples}
	}
	s.Meta().Settled = s.settled
}

// merge merges contributions into the parts that they belong to, and writes these. Each contribution is decoded by
// itself: those of a step together would take more memory than the sums.
func (a *aggregator) merge(ctx context.Context, id string, m *manifest, list []arrived) ([]event, error) {
	s := &sums{
		bucket: a.bucket, m: m, now: a.now(), members: m.members(),
		open: make(map[partKey]*sum), grown: make(map[partKey]bool), seen: make(map[int]*ccmap.Snapshot),
	}
	for _, c := range list {
		if err := s.count(ctx, c); err != nil {
			return nil, err
		}
	}
	pack := newPack(id, m)
	for _, k := range slices.SortedFunc(maps.Keys(s.grown), partKey.compare) {
		p, body, err := s.open[k].encode(k)
		if err != nil {
			return nil, err
		}
		pack.add(p, body)
	}
	m.Updated = s.now.UTC()
	return s.events, pack.put(ctx, a.bucket)
}

// sums are the parts of a build that a commit reads and changes.
type sums struct {
	bucket  bucket.Bucket
	m       *manifest
	now     time.Time
	members []int // instances of each class
	open    map[partKey]*sum
	grown   map[partKey]bool
	seen    map[int]*ccmap.Snapshot // classes, as windows are compared with them
	events  []event
}

// get returns a part, an empty one if there is none.
func (s *sums) get(ctx context.Context, k partKey) (*sum, error) {
	if is := s.open[k]; is != nil {
		return is, nil
	}
	is := newSum()
	if p := s.m.part(k); p != nil {
		var err error
		if is, err = readPart(ctx, s.bucket, *p); err != nil {
			return nil, err
		}
	}
	s.open[k] = is
	return is, nil
}

// count counts a contribution in its class and in its hour.
func (s *sums) count(ctx context.Context, c arrived) (err error) {
	if c.profile, err = readContribution(c.Frame); err != nil {
		return errors.Join(errUnreadable, err)
	}
	class, err := s.classOf(ctx, c)
	if err != nil {
		return err
	}
	if err := s.add(ctx, partKey{Level: levelBuild, Class: class}, c); err != nil {
		return err
	}
	return s.add(ctx, s.timeOf(c), c)
}

// add adds a contribution to a part.
func (s *sums) add(ctx context.Context, k partKey, c arrived) error {
	is, err := s.get(ctx, k)
	if err != nil {
		return err
	}
	s.grown[k] = true
	if err := is.Merge(c.profile); err != nil {
		return err
	}
	if isFull(is.Map) {
		return errSumFull
	}
	is.added += c.profile.Total().Samples
	if k.Level == levelBuild {
		return is.witnesses.add(c.Key.Instance, c.profile)
	}
	return nil
}

// timeOf returns the hour or the day that a contribution is of. A daemon's clock may be wrong: a time that is later
// than the arrival, or a week before it, is not believed.
func (s *sums) timeOf(c arrived) partKey {
	at, arrived := c.Key.From, segmentTime(c.of.key)
	if arrived.IsZero() {
		arrived = s.now
	}
	if at.After(arrived) || arrived.Sub(at) > epochLife {
		at = arrived
	}
	if day := (partKey{Level: levelDay, From: at.Truncate(24 * time.Hour).Unix()}); s.m.part(day) != nil {
		return day
	}
	return partKey{Level: levelHour, From: at.Truncate(time.Hour).Unix()}
}

// mostWitnesses bounds the witnesses of a class.
const mostWitnesses = 8

// witnesses are the instances of a class whose own sums are kept, to say what the class knows without them. They are
// the instances whose ids come first, of all that have ever contributed to the class. So each has its own sum whole: an
// instance that has gone would need a smaller id to come back.
type witnesses map[string]*witness

// witness is the sum of one instance: as bytes, or as a map once it has grown.
type witness struct {
	frame []byte
	*ccmap.Map
}

func (w witnesses) add(instance string, s *ccmap.Snapshot) error {
	is := w[instance]
	if is == nil {
		if len(w) >= mostWitnesses {
			last := slices.Max(slices.Collect(maps.Keys(w)))
			if instance > last {
				return nil
			}
			delete(w, last)
		}
		is = &witness{Map: ccmap.New(ccmap.Options{MaxBytes: witnessBytes})}
		w[instance] = is
	}
	if err := is.decode(); err != nil {
		return err
	}
	return is.Merge(s)
}

func (w *witness) decode() error {
	if w.Map != nil {
		return nil
	}
	f, err := contribution.One(w.frame)
	if err != nil {
		return fmt.Errorf("read witness: %w", err)
	}
	m, err := readSum(f.Body, within)
	if err != nil {
		return fmt.Errorf("read witness: %w", err)
	}
	m.SetMaxBytes(witnessBytes)
	w.Map = m
	return nil
}

// encode makes the bytes of a witness that has grown. A full one stays as it was.
func (w *witness) encode(instance string) error {
	if w.Map == nil {
		return nil
	}
	store.StripMeta(w.Meta())
	body, err := appendSum(nil, w.Map, within.MaxMemory)
	if errors.Is(err, errSumFull) {
		return nil
	}
	w.frame, err = contribution.Append(nil, witnessKey(instance), body)
	return err
}

// Witnesses stand behind a profile as one skippable frame of zstd, which is frames as those of contributions.
const skippable = 0x184D2A50

const skippableHead = 8 // bytes: the magic number and the size

func (w witnesses) append(dst []byte) ([]byte, error) {
	if len(w) == 0 {
		return dst, nil
	}
	begin := len(dst)
	dst = append(dst, make([]byte, skippableHead)...)
	for _, instance := range slices.Sorted(maps.Keys(w)) {
		is := w[instance]
		if err := is.encode(instance); err != nil {
			return nil, err
		}
		dst = append(dst, is.frame...)
	}
	binary.LittleEndian.PutUint32(dst[begin:], skippable)
	binary.LittleEndian.PutUint32(dst[begin+4:], uint32(len(dst)-begin-skippableHead))
	return dst, nil
}

// witnessKey is a key of which the instance alone says something.
func witnessKey(instance string) contribution.Key {
	return contribution.Key{
		Target: "-", Build: "-", Kind: "-", Base: "-", Instance: instance, Epoch: 1, Seq: 1,
		From: time.Unix(0, 0).UTC(), To: time.Unix(1, 0).UTC(), CPUs: 1,
	}
}

func readWitnesses(b []byte) (witnesses, error) {
	w := make(witnesses)
	if len(b) == 0 {
		return w, nil
	}
	if len(b) < skippableHead || binary.LittleEndian.Uint32(b) != skippable || int64(binary.LittleEndian.Uint32(b[4:])) != int64(len(b)-skippableHead) {
		return nil, fmt.Errorf("%w: what follows the profile is no frame", contribution.ErrDamaged)
	}
	for f, err := range contribution.Scan(b[skippableHead:]) {
		if err != nil {
			return nil, err
		}
		if len(w) == mostWitnesses {
			return nil, fmt.Errorf("%w: more than %d witnesses", contribution.ErrDamaged, mostWitnesses)
		}
		w[f.Key.Instance] = &witness{frame: f.Bytes}
	}
	return w, nil
}
