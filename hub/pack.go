package hub

import (
	"context"
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/hub/bucket"
)

// pack is the object of one commit: the parts that the commit has changed, one after the other. The manifest is its
// index. An object store charges for writes, so that parts with objects of their own cost several times as much.
//
// Its name is of the generation and the nonce of the manifest, and not of the content: two aggregators that made the
// same bytes would have one object, and one of them would think that it may be removed.
type pack struct {
	key  string
	body []byte
	m    *manifest
}

const mostPack = 1 << 40 // bytes: more than any has

// newPack returns the pack of the change that m was advanced for. In a list it comes before the manifest.
func newPack(id string, m *manifest) *pack {
	return &pack{key: fmt.Sprintf("%s%s/commit/%d-%s", aggregatesDir, id, m.Generation, m.Nonce), m: m}
}

// add adds the bytes of a part, and names it in the manifest.
func (k *pack) add(p part, body []byte) {
	p.Key, p.Offset, p.Bytes = k.key, int64(len(k.body)), int64(len(body))
	k.body = append(k.body, body...)
	k.m.setPart(p)
}

// put writes the pack, unless it is empty. Only then may the manifest be written.
func (k *pack) put(ctx context.Context, b bucket.Bucket) error {
	if len(k.body) == 0 {
		return nil
	}
	err := b.Put(ctx, k.key, k.body, bucket.Condition{Absent: true})
	if errors.Is(err, bucket.ErrCondition) && equalBytes(ctx, b, k.key, k.body) {
		return nil // its answer was lost
	}
	return err
}

// read returns the bytes of a part.
func (p part) read(ctx context.Context, b bucket.Bucket) ([]byte, error) {
	if p.Bytes > 0 {
		return b.Range(ctx, p.Key, p.Offset, p.Bytes)
	}
	body, _, err := b.Get(ctx, p.Key, mostPart)
	return body, err
}

// compactBytes bounds what one change of a manifest moves.
const compactBytes = 64 << 20

// compact moves the parts out of objects that are mostly dead: of their bytes less than half belong to parts. Else the
// last pack of each hour would be kept whole for the hour alone.
func (k *pack) compact(ctx context.Context, b bucket.Bucket, objects []bucket.Entry) error {
	alive := make(map[string]int64)
	for _, p := range k.m.Parts {
		alive[p.Key] += p.Bytes
	}
	sparse := make(map[string]bool)
	for _, e := range objects {
		sparse[e.Key] = 2*alive[e.Key] < e.Size
	}
	for _, p := range k.m.Parts {
		if !sparse[p.Key] || p.Bytes == 0 || len(k.body) > compactBytes {
			continue
		}
		body, err := p.read(ctx, b)
		if err != nil {
			return fmt.Errorf("move part: %w", err)
		}
		k.add(p, body) // in the place of p
	}
	return nil
}
