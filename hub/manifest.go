package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// manifestVersion is the version of manifests. One of a later version is left alone. Version 1 had one aggregate,
// version 2 an object a part and no tombstones, version 3 no columns of instances, version 4 sums as JSON.
const manifestVersion = 5

const (
	mostManifest  = 16 << 20 // bytes, compressed and not
	epochLife     = 7 * 24 * time.Hour
	epochKept     = 2 * epochLife
	clocksDiffer  = 24 * time.Hour // of two hubs, at most
	aggregatesDir = "agg/"
	segmentsDir   = "seg/"
	badDir        = "bad/"
)

// errNewer is the error of a manifest of a later version.
var errNewer = errors.New("the manifest is of a later version of the hub")

// manifest says what a build has. It never has the same bytes twice: the generation rises with each change.
type manifest struct {
	Version    int    `json:"version"`
	Generation uint64 `json:"generation"`
	Nonce      string `json:"nonce"` // of the writer, new for each change

	Target string `json:"target,omitempty"` // empty: there was garbage before the first contribution
	Build  string `json:"build,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Base   string `json:"base,omitempty"`

	Aggregate     string    `json:"aggregate,omitempty"` // of version 1: the key of the only part
	Parts         []part    `json:"parts,omitempty"`
	Contributions uint64    `json:"contributions"`
	Updated       time.Time `json:"updated"`
	Deleted       time.Time `json:"deleted,omitzero"` // a tombstone: see bury

	Instances roster          `json:"instances,omitempty"`
	Outliers  []fleet.Outlier `json:"outliers,omitempty"` // the last one first
}

// instance is a daemon's store, by its random id.
type instance struct {
	Least  uint64            `json:"least,omitempty"` // earlier epochs are over
	Epochs map[uint64]*epoch `json:"epochs"`

	Class int   `json:"class,omitempty"`
	Look  int64 `json:"look,omitempty"` // when it was last compared: hours since 1970
	Odd   int   `json:"odd,omitempty"`  // looks running that found it unlike most others
}

// epoch has the numbers of the contributions that are in the aggregate.
type epoch struct {
	First int64       `json:"first"` // when the aggregator met it, Unix s: no daemon's clock
	Seen  [][2]uint64 `json:"seen"`  // ranges with both ends, in order, with gaps between them
	Sum   uint32      `json:"sum"`   // CRC-32C of the body of the highest number
}

// idOf returns the id of the build of a key.
func idOf(k contribution.Key) string {
	h := sha256.New()
	for _, text := range []string{k.Target, k.Build, k.Kind, k.Base} {
		binary.Write(h, binary.LittleEndian, uint32(len(text)))
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func manifestKey(id string) string { return aggregatesDir + id + "/manifest" }

// tag is the ETag of what is served of a manifest.
func (m *manifest) tag() string { return fmt.Sprintf(`"%d-%s"`, m.Generation, m.Nonce) }

var (
	// The default level leaves bytes as they are that look random to it, and so a quarter of ids in base64 too many.
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostManifest))
)

// readManifest returns the manifest of a build and the tag of the object, an empty one and no tag if there is none.
func readManifest(ctx context.Context, b bucket.Bucket, id string) (*manifest, string, error) {
	return readChanged(ctx, b, id, "")
}

// readChanged does the same, but returns no manifest if the object has a tag that is known: it was decoded before. Of
// 10,000 instances that takes milliseconds.
func readChanged(ctx context.Context, b bucket.Bucket, id, known string) (*manifest, string, error) {
	packed, tag, err := b.Get(ctx, manifestKey(id), mostManifest)
	if errors.Is(err, bucket.ErrNotFound) {
		return &manifest{Version: manifestVersion, Instances: map[string]*instance{}}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read manifest: %w", err)
	}
	if known != "" && tag == known {
		return nil, tag, nil
	}
	m, err := decodeManifest(packed)
	if err != nil {
		return nil, "", fmt.Errorf("read manifest of %s: %w", id, err)
	}
	for _, p := range m.Parts {
		if !strings.HasPrefix(p.Key, aggregatesDir+id+"/") {
			return nil, "", fmt.Errorf("read manifest of %s: its part %.60q is of another build", id, p.Key)
		}
	}
	return m, tag, nil
}

// decodeManifest believes nothing: the bucket may have been changed by others.
func decodeManifest(packed []byte) (*manifest, error) {
	text, err := unpacker.DecodeAll(packed, nil)
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Version < 1 || m.Version > manifestVersion {
		return nil, fmt.Errorf("%w: %d", errNewer, m.Version)
	}
	if m.Version == 1 && m.Aggregate != "" {
		m.Parts, m.Aggregate = []part{{partKey: partKey{Level: levelBuild}, Key: m.Aggregate}}, ""
	}
	m.Version = manifestVersion
	if m.Instances == nil {
		m.Instances = map[string]*instance{}
	}
	for i, p := range m.Parts {
		isLevel := p.Level == levelHour || p.Level == levelDay || p.Level == levelBuild && p.From == 0
		if !isLevel || p.From < 0 || p.Class < 0 || p.Class >= mostClasses || i > 0 && m.Parts[i-1].compare(p.partKey) >= 0 {
			return nil, fmt.Errorf("part %d cannot be one", i)
		}
		if p.Offset < 0 || p.Offset > mostPack || p.Bytes < 0 || p.Bytes > mostPart || p.Size < 0 || p.Bytes > 0 && p.Size > p.Bytes {
			return nil, fmt.Errorf("part %d cannot be %d bytes from %d on", i, p.Bytes, p.Offset)
		}
	}
	for name, i := range m.Instances {
		if i == nil || i.Epochs == nil {
			return nil, fmt.Errorf("instance %.40q has nothing", name)
		}
		if i.Class < 0 || i.Class >= mostClasses {
			return nil, fmt.Errorf("instance %.40q is of class %d", name, i.Class)
		}
		for _, e := range i.Epochs {
			if e == nil || !ordered(e.Seen) {
				return nil, fmt.Errorf("instance %.40q has ranges without order", name)
			}
		}
	}
	return m, nil
}

// ordered reports whether ranges are as add leaves them.
func ordered(seen [][2]uint64) bool {
	last := uint64(0)
	for i, r := range seen {
		if r[0] > r[1] || r[0] == 0 || i > 0 && r[0] <= last+1 {
			return false
		}
		last = r[1]
	}
	return len(seen) > 0
}

func (m *manifest) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return packer.EncodeAll(text, nil), nil
}

// advance makes the manifest another one than all before it.
func (m *manifest) advance() {
	m.Generation++
	m.Nonce = strings.ToLower(rand.Text())
}

// swap writes a manifest in the place of the one with this tag. It reports whether it did. After an answer that may
// have been lost, or a refusal that may be of this very write, it reads back. An error says that nobody knows.
func swap(ctx context.Context, b bucket.Bucket, id string, m *manifest, tag string) (bool, error) {
	body, err := m.encode()
	if err != nil {
		return false, fmt.Errorf("write manifest of %s: %w", id, err)
	}
	if err = b.Put(ctx, manifestKey(id), body, bucket.Condition{Absent: tag == "", Tag: tag}); err == nil {
		return true, nil
	}
	is, _, err2 := readManifest(ctx, b, id)
	switch {
	case err2 != nil:
		return false, fmt.Errorf("write manifest of %s: %w", id, errors.Join(err, err2))
	case is.Generation == m.Generation && is.Nonce == m.Nonce:
		return true, nil
	case errors.Is(err, bucket.ErrCondition):
		return false, nil
	}
	return false, fmt.Errorf("write manifest of %s: %w", id, err)
}

// verdict says what a contribution is to an aggregate.
type verdict uint8

const (
	fresh     verdict = iota
	duplicate         // it is in the aggregate
	cloned            // another body has its number: two machines have one instance
	over              // its epoch was forgotten
)

var table = crc32.MakeTable(crc32.Castagnoli)

// judge returns what a contribution is to the aggregate.
func (m *manifest) judge(k contribution.Key, body []byte) verdict {
	i := m.Instances[k.Instance]
	if i == nil {
		return fresh
	}
	if k.Epoch < i.Least {
		return over
	}
	e := i.Epochs[k.Epoch]
	switch {
	case e == nil || !has(e.Seen, k.Seq):
		return fresh
	case k.Seq == e.Seen[len(e.Seen)-1][1] && crc32.Checksum(body, table) != e.Sum:
		return cloned
	}
	return duplicate
}

// isOld reports whether an epoch takes nothing more.
func (m *manifest) isOld(k contribution.Key, now time.Time) bool {
	i := m.Instances[k.Instance]
	return i != nil && i.Epochs[k.Epoch] != nil && now.Sub(time.Unix(i.Epochs[k.Epoch].First, 0)) > epochLife
}

// note notes a fresh contribution.
func (m *manifest) note(k contribution.Key, body []byte, now time.Time) {
	i := m.Instances[k.Instance]
	if i == nil {
		i = &instance{Epochs: map[uint64]*epoch{}}
		m.Instances[k.Instance] = i
	}
	e := i.Epochs[k.Epoch]
	if e == nil {
		e = &epoch{First: now.Unix()}
		i.Epochs[k.Epoch] = e
	}
	e.Seen = add(e.Seen, k.Seq)
	if k.Seq == e.Seen[len(e.Seen)-1][1] {
		e.Sum = crc32.Checksum(body, table)
	}
	m.Target, m.Build, m.Kind, m.Base = k.Target, k.Build, k.Kind, k.Base
	m.Contributions++
	m.Deleted = time.Time{}
}

// forget drops the epochs that no contribution can be of any more: the hub has refused them for a week, and the oldest
// segment was written later than that. Their instance remembers that they are over.
func (m *manifest) forget(now, oldest time.Time) {
	for _, i := range m.Instances {
		for _, number := range slices.Sorted(maps.Keys(i.Epochs)) {
			first := time.Unix(i.Epochs[number].First, 0)
			if now.Sub(first) < epochKept || oldest.Before(first.Add(epochLife+clocksDiffer)) {
				break
			}
			delete(i.Epochs, number)
			i.Least = number + 1
		}
	}
}

// find returns the first range that ends at n or later.
func find(seen [][2]uint64, n uint64) int {
	at, _ := slices.BinarySearchFunc(seen, n, func(r [2]uint64, n uint64) int {
		if r[1] < n {
			return -1
		}
		return 1
	})
	return at
}

func has(seen [][2]uint64, n uint64) bool {
	at := find(seen, n)
	return at < len(seen) && seen[at][0] <= n
}

// add adds a number that ranges do not have.
func add(seen [][2]uint64, n uint64) [][2]uint64 {
	at := find(seen, n)
	before, after := at > 0 && seen[at-1][1]+1 == n, at < len(seen) && n+1 == seen[at][0]
	switch {
	case before && after:
		seen[at-1][1] = seen[at][1]
		return slices.Delete(seen, at, at+1)
	case before:
		seen[at-1][1] = n
	case after:
		seen[at][0] = n
	default:
		return slices.Insert(seen, at, [2]uint64{n, n})
	}
	return seen
}

// isManifest reports whether a key is of a manifest, and returns the id.
func isManifest(key string) (id string, ok bool) {
	id, found := strings.CutSuffix(key, "/manifest")
	return strings.TrimPrefix(id, aggregatesDir), found && strings.HasPrefix(id, aggregatesDir)
}

// equalBytes is for readers that were told of a write that may be their own.
func equalBytes(ctx context.Context, b bucket.Bucket, key string, body []byte) bool {
	is, _, err := b.Get(ctx, key, int64(len(body)))
	return err == nil && bytes.Equal(is, body)
}
